"""What templates have become: the parameters of a unit and the text that each expression gave, kept for a while."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch.errors import CkwatchError
from ckwatch.wire.language import TemplateDetail
from ckwatch.wire.messages import RenderedText, Segment, UnitDetail
from ckwatch.wire.values import Position as WirePosition
from ckwatch.wire.values import Span, Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

KEPT = 16
"""Units of which something is kept."""

SHOWN_VALUES = 4
"""Different texts of one expression that are shown."""


@dataclass(slots=True)
class _Known:
    """What is known of a unit, and of which generation."""

    generation: int = -1
    detail: UnitDetail | None = None
    rendered_generation: int = -1
    rendered: RenderedText | None = None


class Values:
    """Asks the daemon for what it has not told by itself."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, str], _Known] = {}
        self._details: dict[str, tuple[object, TemplateDetail]] = {}

    async def detail(self, folder: Folder, unit: Unit, *, at_once: bool = False) -> UnitDetail | None:
        """All about a unit. `at_once`: what is known of an earlier generation will do, if there is anything."""
        known = self._of(folder, unit)
        if known.generation == unit.generation and known.detail is not None:
            return known.detail
        if at_once and known.detail is not None:
            self._session.start(self._fetch_detail, folder, unit, known)
            return known.detail
        await self._fetch_detail(folder, unit, known)
        return known.detail

    async def printed(self, folder: Folder, unit: Unit, path: str, reach: Range) -> list[str]:
        """The texts that the expression at `reach` of the template at `path` gave, each once."""
        known = self._of(folder, unit)
        if known.rendered is None or known.rendered_generation != unit.generation:
            known.rendered = await folder.ready.rendered(unit, with_map=True)
            known.rendered_generation = unit.generation
        rendered = known.rendered
        if rendered.text is None or rendered.map is None:
            return []
        return await to_thread.run_sync(printed_at, rendered.text, rendered.map, path, reach)

    async def template(self, folder: Folder, path: str, stamp: object) -> TemplateDetail | None:
        """What the daemon knows of the parameters of a template; asked again when `stamp` is another."""
        known = self._details.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            found = await folder.ready.template(path=path)
        except CkwatchError:
            return None
        if len(self._details) > KEPT:
            self._details.clear()
        self._details[path] = (stamp, found)
        return found

    async def _fetch_detail(self, folder: Folder, unit: Unit, known: _Known) -> None:
        try:
            known.detail = await folder.ready.unit(unit)
            known.generation = unit.generation
        except CkwatchError:
            return

    def _of(self, folder: Folder, unit: Unit) -> _Known:
        key = (str(folder.root), unit.id)
        known = self._known.pop(key, None) or _Known()
        self._known[key] = known
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return known


def up_to_date(folder: Folder, document: Document) -> bool:
    """Whether the daemon has the document's text, so that its places are the editor's."""
    return document.path is not None and folder.lender.given(document.path) in (-1, document.revision)


def printed_at(text: str, segments: Iterable[Segment], path: str, reach: Range) -> list[str]:
    """The pieces of `text` that came from the expression at `reach`, each text once, in order."""
    pieces: dict[str, None] = {}
    piece = ""
    for segment in segments:
        if _came_from(segment, path, reach):
            piece += text[segment.start : segment.end]
        elif piece:
            pieces[piece] = None
            piece = ""
    if piece:
        pieces[piece] = None
    return list(pieces)


def _came_from(segment: Segment, path: str, reach: Range) -> bool:
    return _is(segment.span, path, reach) or any(_is(link.span, path, reach) for link in segment.chain)


def _is(span: Span, path: str, reach: Range) -> bool:
    return span.path == path and _ours(span.start) >= reach.start and _ours(span.end) <= reach.end


def _ours(position: WirePosition) -> Position:
    return Position(position.line, position.column)


def shown_value(value: Any) -> str:
    """A parameter's value as a kernel file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown_value(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
