"""Which place of a rendered text came from which place of a template, and the other way round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy

from ckwatch.wire.messages import Segment
from ckwatch.wire.values import Position as WirePosition
from ckwatch.wire.values import Span
from ckwatch_lsp.text import Position, Range


class SourceLinks:
    """The source map of a text, whose lines stand `below` lines further down in the document."""

    def __init__(self, text: str, segments: Sequence[Segment], below: int = 0) -> None:
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._length = len(text)
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
        start, began = segment.span.start, self._position(segment.start)
        here = self._position(offset)
        column = here.column if here.line > began.line else here.column - began.column + start.column
        found = WirePosition(line=start.line + here.line - began.line, column=column)
        return Span(path=segment.span.path, start=found, end=found)

    def places(self, path: str, position: Position) -> list[Range]:
        """Where what stands at a place of a template went to, the nearest piece first; nothing where it gives no
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
        began = self._position(segment.start)
        lines = position.line - start.line
        column = position.column if lines else position.column - start.column + began.column
        offset = self._starts[began.line + lines] + column
        return self._range(offset, offset) if segment.start <= offset <= segment.end else None

    def _offset(self, position: Position) -> int | None:
        line = position.line - self._below
        if not 0 <= line < len(self._starts) - 1:
            return None
        return min(self._starts[line] + position.column, self._starts[line + 1] - 1, self._length)

    def _position(self, offset: int) -> Position:
        line = min(bisect_right(self._starts, offset) - 1, len(self._starts) - 2)
        return Position(line, offset - self._starts[line])

    def _range(self, start: int, end: int) -> Range:
        first, last = self._position(start), self._position(end)
        return Range(Position(first.line + self._below, first.column), Position(last.line + self._below, last.column))


def rendered_lines(ranges: Sequence[Range], below: int) -> Iterator[int]:
    """The lines of the rendered text that ranges of the document touch."""
    for each in ranges:
        last = each.end.line if each.end.column or each.empty else each.end.line - 1
        yield from range(each.start.line - below, last - below + 1)


def _holds(span: Span, path: str, position: Position) -> bool:
    start, end = Position(span.start.line, span.start.column), Position(span.end.line, span.end.column)
    return span.path == path and Range(start, end).holds(position)
