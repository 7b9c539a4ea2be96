"""Rendered values of templates: a unit's parameters and the text of each expression, kept for a while."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
from anyio import to_thread

from ckwatch.model.delays import HOVER, NEWER_HOVER
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Range, Span
from ckwatch.wire.language import TemplateDetail
from ckwatch.wire.messages import RenderedText, Segment, UnitDetail
from ckwatch.wire.state import Unit
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

KEPT = 16
"""Units and templates of which something is kept."""

SHOWN_VALUES = 4
"""Different texts of one expression that are shown."""


Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Kept(Generic[Answer]):
    """The last answer, and its subject. `asked` is set when an answer on its way is there."""

    stamp: object = None
    answer: Answer | None = None
    asked: anyio.Event | None = None


class RenderedValues:
    """Requests what the daemon does not report by itself.

    Nobody waits long for an answer: one that comes later is kept for the next question.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._units: dict[tuple[Path, str], _Kept[UnitDetail]] = {}
        self._rendered: dict[tuple[Path, str], _Kept[RenderedText]] = {}
        self._templates: dict[tuple[Path, str], _Kept[TemplateDetail]] = {}

    async def detail(self, folder: WorkspaceFolder, unit: Unit) -> UnitDetail | None:
        """All about a unit, or about an earlier generation of it."""
        return await self._ask(_of(self._units, folder, unit.id), unit.generation, lambda: folder.ready.unit(unit))

    async def printed(self, folder: WorkspaceFolder, unit: Unit, path: str, reaches: Sequence[Range]) -> list[str]:
        """The texts that the expressions at `reaches` of the template at `path` gave, each once."""
        kept = _of(self._rendered, folder, unit.id)
        rendered = await self._ask(kept, unit.generation, lambda: folder.ready.rendered(unit, with_map=True))
        if rendered is None or kept.stamp != unit.generation or rendered.text is None or rendered.map is None:
            return []
        return await to_thread.run_sync(printed_at, rendered.text, rendered.map, path, reaches)

    async def template(self, folder: WorkspaceFolder, path: str, stamp: object) -> TemplateDetail | None:
        """Return the daemon's knowledge of a template's parameters; requested again when `stamp` changes."""
        kept = _of(self._templates, folder, path)
        return await self._ask(kept, stamp, lambda: folder.ready.template(path=path), again_s=0)

    async def _ask(
        self,
        kept: _Kept[Answer],
        stamp: object,
        ask: Callable[[], Awaitable[Answer]],
        *,
        again_s: float = NEWER_HOVER.seconds,
    ) -> Answer | None:
        if kept.stamp == stamp and kept.answer is not None:
            return kept.answer
        asked = kept.asked
        if asked is None:
            asked = kept.asked = anyio.Event()
            self._session.start(_fetch, kept, stamp, ask, asked)
        with anyio.move_on_after(HOVER.seconds if kept.answer is None else again_s):
            await asked.wait()
        return kept.answer


async def _fetch(kept: _Kept[Answer], stamp: object, ask: Callable[[], Awaitable[Answer]], asked: anyio.Event) -> None:
    try:
        kept.answer = await ask()
        kept.stamp = stamp
    except CkwatchError as error:
        _log.info("%s", error)
    finally:
        kept.asked = None
        asked.set()


def _of(kept: dict[tuple[Path, str], _Kept[Answer]], folder: WorkspaceFolder, name: str) -> _Kept[Answer]:
    key = (folder.root, name)
    found = kept.pop(key, None) or _Kept()
    kept[key] = found
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
    return found


def up_to_date(folder: WorkspaceFolder, document: TextDocument) -> bool:
    """Return True if the daemon has the document's text, so that its places are the editor's."""
    return document.path is not None and folder.overlays.given(document.path) in (-1, document.revision)


def printed_at(text: str, segments: Iterable[Segment], path: str, reaches: Sequence[Range]) -> list[str]:
    """The pieces of `text` that came from the expressions at `reaches`, each text once, in order."""
    pieces: dict[str, None] = {}
    piece = ""
    for segment in segments:
        if any(_came_from(segment, path, reach) for reach in reaches):
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
    return span.path == path and reach.covers(span.range)


def shown_value(value: Any) -> str:
    """A parameter's value as a kernel file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown_value(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
