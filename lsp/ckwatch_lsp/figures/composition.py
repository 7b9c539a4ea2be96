"""Puts the figures' parts together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.documents import Kind
from ckwatch_lsp.figures.affected import Affected
from ckwatch_lsp.figures.anchors import Anchors
from ckwatch_lsp.figures.informing import information
from ckwatch_lsp.figures.language import FiguresLanguage
from ckwatch_lsp.figures.looked_at import LookedAt
from ckwatch_lsp.figures.refreshing import Refreshing
from ckwatch_lsp.figures.shown import Shown

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def add_figures(server: CkwatchServer, params: types.InitializeParams) -> Shown:
    """Hints, lenses, hovers and Information diagnostics with figures; what they show."""
    session = server.session
    anchors, looked_at = Anchors(session), LookedAt(session)
    shown, affected = Shown(session, anchors, looked_at), Affected(session, anchors)
    text = params.capabilities.text_document
    hint = None if text is None else text.inlay_hint
    resolves = bool(hint and hint.resolve_support and "tooltip" in hint.resolve_support.properties)
    language = FiguresLanguage(session, shown, affected, resolves=resolves)
    session.parts += [anchors, shown, looked_at, affected, Refreshing(server, shown, language)]
    for kind in (Kind.TEMPLATE, Kind.KERNEL_FILE):
        session.languages.setdefault(kind, []).append(language)
    if resolves:
        server.feature(types.INLAY_HINT_RESOLVE)(language.resolve)
    session.diagnostics.add_source(partial(information, session, shown))
    return shown
