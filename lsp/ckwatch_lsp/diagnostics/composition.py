"""Puts the diagnostics' parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.diagnostics.fixing import Fixing
from ckwatch_lsp.diagnostics.part import Diagnostics
from ckwatch_lsp.documents import Kind

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def add_diagnostics(server: CkwatchServer, params: types.InitializeParams) -> None:
    """Diagnostics and what mends them."""
    session = server.session
    diagnostics = Diagnostics(server, params)
    session.parts.append(diagnostics)
    fixing = Fixing(session, diagnostics.tracker, diagnostics.reports)
    for kind in (Kind.TEMPLATE, Kind.KERNEL_FILE, Kind.SETTINGS):
        session.languages.setdefault(kind, []).append(fixing)
