"""Texts of virtual documents, and which place of a template each of their places came from, both ways.

A text that is not of the present input says so in its first line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field, replace

from ckwatch.model.isa import IsaFold, IsaLine
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Range, Span
from ckwatch.wire.analysis import Isa
from ckwatch.wire.messages import RenderedText, Segment


class SourceLinks:
    """The source map of a text, whose lines stand `below` lines further down in the document."""

    def __init__(self, text: str, segments: Sequence[Segment], below: int = 0) -> None:
        self._lines = LineIndex(text)
        self._segments = segments
        self._offsets = [segment.start for segment in segments]
        self._below = below

    def moved(self, below: int) -> SourceLinks:
        """The same for a document in which the text begins `below` lines further down."""
        found = copy(self)
        found._below = below
        return found

    def origin(self, position: Position) -> Segment | None:
        """The piece of the text at `position`; None where there is none."""
        offset = self._offset(position)
        if offset is None or not self._segments:
            return None
        segment = self._segments[max(bisect_right(self._offsets, offset) - 1, 0)]
        return segment if segment.start <= offset <= segment.end else None

    def template_place(self, position: Position) -> Span | None:
        """The place in a template that the character at `position` came from."""
        segment, offset = self.origin(position), self._offset(position)
        if segment is None or offset is None:
            return None
        if not segment.verbatim:
            return segment.span
        start, began = segment.span.start, self._lines.position(segment.start)
        here = self._lines.position(offset)
        column = here.column if here.line > began.line else here.column - began.column + start.column
        found = Position(line=start.line + here.line - began.line, column=column)
        return Span(path=segment.span.path, start=found, end=found)

    def places(self, path: str, position: Position) -> list[Range]:
        """Return the places in the output of a place of a template, the nearest piece first; empty if it gives no
        text."""
        exact = [found for segment in self._segments if (found := self._within(segment, path, position)) is not None]
        if exact:
            return exact
        inside = [
            segment
            for segment in self._segments
            if any(_holds(link.span, path, position) for link in segment.chain) and segment.end > segment.start
        ]
        if inside:
            return [self._range(inside[0].start, inside[-1].end)]
        return []

    def _within(self, segment: Segment, path: str, position: Position) -> Range | None:
        if segment.end <= segment.start or not _holds(segment.span, path, position):
            return None
        if not segment.verbatim:
            return self._range(segment.start, segment.end)
        start = segment.span.start
        began = self._lines.position(segment.start)
        lines = position.line - start.line
        column = position.column if lines else position.column - start.column + began.column
        offset = self._lines.starts[began.line + lines] + column
        return self._range(offset, offset) if segment.start <= offset <= segment.end else None

    def _offset(self, position: Position) -> int | None:
        line = position.line - self._below
        return self._lines.offset(Position(line, position.column)) if 0 <= line < len(self._lines.starts) else None

    def _range(self, start: int, end: int) -> Range:
        first, last = self._lines.position(start), self._lines.position(end)
        return Range(Position(first.line + self._below, first.column), Position(last.line + self._below, last.column))


def rendered_lines(ranges: Sequence[Range], below: int) -> Iterator[int]:
    """The lines of the rendered text that ranges of the document touch."""
    for each in ranges:
        last = each.end.line if each.end.column or each.empty else each.end.line - 1
        yield from range(each.start.line - below, last - below + 1)


def _holds(span: Span, path: str, position: Position) -> bool:
    return span.path == path and span.range.holds(position)


COMMENT = {"source": "//", "isa": ";", "profile": "#", "code": ";"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualText:
    """A document. `below`: its first lines that are no part of what was generated. `source` is the text that `links`
    belong to: of an ISA document, the rendered source."""

    text: str
    stale: bool
    below: int = 0
    generation: int = -1
    links: SourceLinks | None = None
    lines: Mapping[int, IsaLine] = field(default_factory=dict)
    folds: Sequence[IsaFold] = ()
    mnemonics: Mapping[str, str] = field(default_factory=dict)
    has_lines: bool = False


def source_text(rendered: RenderedText, last: VirtualText | None, generation: int) -> VirtualText:
    """The rendered source; while the template has errors, the last one without, marked so."""
    if rendered.text is not None:
        links = SourceLinks(rendered.text, rendered.map or ())
        return VirtualText(text=rendered.text, stale=False, links=links, generation=generation)
    error = next((one.message for one in rendered.diagnostics if one.severity == "error"), "the template has errors")
    return outdated("source", f"{error}: this is the last text without errors", last, f"not rendered: {error}")


def isa_text(isa: Isa, source: VirtualText | None, generation: int) -> VirtualText:
    """The disassembly, linked through the rendered source if that has the same text as when it was compiled."""
    below = 0 if isa.fresh else 1
    head = "" if isa.fresh else _line("isa", "this is the code of an earlier version")
    shifted = {line.line + below: line for line in isa.lines}
    folds = [replace(fold, start=fold.start + below, end=fold.end + below) for fold in isa.folds]
    return VirtualText(
        text=head + isa.text,
        stale=not isa.fresh,
        below=below,
        generation=generation,
        links=None if source is None else source.links,
        lines=shifted,
        folds=folds,
        mnemonics=isa.mnemonics,
        has_lines=isa.has_lines,
    )


def outdated(view: str, why: str, last: VirtualText | None, otherwise: str) -> VirtualText:
    """The last text with a first line that says why it is shown; if there is none, a line that says `otherwise`."""
    if last is None or last.below >= len(last.text.split("\n")):
        return VirtualText(text=_line(view, otherwise), stale=True, below=1)
    body = last.text.split("\n", last.below)[last.below] if last.below else last.text
    lines = {number - last.below + 1: line for number, line in last.lines.items()}
    moved = 1 - last.below
    folds = [replace(fold, start=fold.start + moved, end=fold.end + moved) for fold in last.folds]
    links = last.links.moved(1) if view == "source" and last.links is not None else last.links
    text = _line(view, why) + body
    return replace(last, text=text, stale=True, below=1, links=links, lines=lines, folds=folds)


def _line(view: str, text: str) -> str:
    return f"{COMMENT[view]} ckwatch: {' '.join(text.split())}\n"
