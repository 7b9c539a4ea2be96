"""Adds templates to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch_lsp.documents import Kind
from ckwatch_lsp.templates.language import TemplateLanguage
from ckwatch_lsp.templates.library import TemplateLibrary

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def add_templates(server: CkwatchServer) -> None:
    """Answer for template documents."""
    session = server.session
    library = TemplateLibrary(session)
    session.parts.append(library)
    session.languages.setdefault(Kind.TEMPLATE, []).append(TemplateLanguage(session, library))
