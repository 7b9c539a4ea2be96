"""Puts the language of kernel files together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch_lsp.documents import Kind
from ckwatch_lsp.kernels.knowledge import Knowledge
from ckwatch_lsp.kernels.language import KernelLanguage

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def add_kernels(server: CkwatchServer) -> None:
    """Answers for kernel files and `ckwatch.toml`."""
    session = server.session
    knowledge = Knowledge(session)
    session.parts.append(knowledge)
    language = KernelLanguage(session, knowledge)
    for kind in (Kind.KERNEL_FILE, Kind.SETTINGS):
        session.languages.setdefault(kind, []).append(language)
