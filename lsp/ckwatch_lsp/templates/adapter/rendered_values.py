"""Rendered values of templates: a unit's parameters and the text of each expression, kept for a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyio import to_thread

from ckwatch.model.delays import HOVER, NEWER_HOVER
from ckwatch.model.text import Range
from ckwatch.wire.language import TemplateDetail
from ckwatch.wire.messages import RenderedText, Segment, UnitDetail
from ckwatch.wire.state import Unit
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.session import Session

KEPT = 16
"""Units and templates of which something is kept."""

WAITS = (HOVER.seconds, NEWER_HOVER.seconds)

SHOWN_VALUES = 4
"""Different texts of one expression that are shown."""


class RenderedValues:
    """Requests what the daemon does not report by itself.

    Nobody waits long for an answer: one that comes later is kept for the next question.
    """

    def __init__(self, session: Session) -> None:
        self._units = KeptAnswers[UnitDetail](session, KEPT)
        self._rendered = KeptAnswers[RenderedText](session, KEPT)
        self._templates = KeptAnswers[TemplateDetail](session, KEPT)

    async def detail(self, folder: WorkspaceFolder, unit: Unit) -> UnitDetail | None:
        """All about a unit, or about an earlier generation of it."""
        key = (folder.root, unit.id)
        return await self._units.get(key, unit.generation, lambda: folder.ready.unit(unit), *WAITS)

    async def printed(self, folder: WorkspaceFolder, unit: Unit, path: str, reaches: Sequence[Range]) -> list[str]:
        """The texts that the expressions at `reaches` of the template at `path` gave, each once."""
        key, stamp = (folder.root, unit.id), unit.generation
        rendered = await self._rendered.get(key, stamp, lambda: folder.ready.rendered(unit, with_map=True), *WAITS)
        if rendered is None or not self._rendered.is_about(key, stamp):
            return []
        if rendered.text is None or rendered.map is None:
            return []
        return await to_thread.run_sync(printed_at, rendered.text, rendered.map, path, reaches)

    async def template(self, folder: WorkspaceFolder, path: str, stamp: object) -> TemplateDetail | None:
        """Return the daemon's knowledge of a template's parameters; requested again when `stamp` changes."""
        key = (folder.root, path)
        return await self._templates.get(key, stamp, lambda: folder.ready.template(path=path), HOVER.seconds)


def up_to_date(folder: WorkspaceFolder, document: TextDocument) -> bool:
    """Return True if the daemon has the document's text, so that its places are the editor's."""
    return document.path is not None and folder.overlays.given(document.path) in (-1, document.revision)


def printed_at(text: str, segments: Iterable[Segment], path: str, reaches: Sequence[Range]) -> list[str]:
    """The pieces of `text` that came from the expressions at `reaches`, each text once, in order."""
    pieces: dict[str, None] = {}
    piece = ""
    for segment in segments:
        spans = (segment.span, *(link.span for link in segment.chain))
        if any(span.path == path and reach.covers(span.range) for span in spans for reach in reaches):
            piece += text[segment.start : segment.end]
        elif piece:
            pieces[piece] = None
            piece = ""
    if piece:
        pieces[piece] = None
    return list(pieces)
