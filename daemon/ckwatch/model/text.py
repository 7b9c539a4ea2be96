"""Places in text files: positions, spans, and the index from offsets to positions.

Lines and columns are counted from zero, columns in Unicode code points; ends are exclusive. What a person reads
is counted from one: `str()` of a position or span does that.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import lru_cache

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two code points."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line + 1}:{self.column + 1}"


@lru_cache(maxsize=4096)
def _shared_position(line: int, column: int) -> Position:
    """Files that are written alike have their words at the same places: of thousands one position each is kept."""
    return Position(line, column)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range in the file at the absolute `path`."""

    path: str
    start: Position
    end: Position

    def __str__(self) -> str:
        return f"{self.path}:{self.start}"

    @property
    def range(self) -> Range:
        """The place within its file."""
        return Range(self.start, self.end)


def span(path: str, line: int, column: int, end_line: int, end_column: int) -> Span:
    """Short form for a `Span` from four zero-based numbers."""
    return Span(path, Position(line, column), Position(end_line, end_column))


class LineIndex:
    """Offsets ↔ positions in a text; positions are clamped to it."""

    def __init__(self, text: str) -> None:
        self.length = len(text)
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        self.starts = starts

    def offset(self, position: Position) -> int:
        """The offset of `position`; a line past the end is the end, a column past its line the line's end."""
        if position.line < 0:
            return 0
        if position.line >= len(self.starts):
            return self.length
        following = self.starts[position.line + 1] - 1 if position.line + 1 < len(self.starts) else self.length
        return min(self.starts[position.line] + max(position.column, 0), following)

    def position(self, offset: int) -> Position:
        """The position of `offset`, clamped to the text."""
        offset = min(max(offset, 0), self.length)
        line = bisect_right(self.starts, offset) - 1
        return _shared_position(line, offset - self.starts[line])

    def range(self, start: int, end: int) -> Range:
        """The range of two offsets."""
        return Range(self.position(start), self.position(end))


def advance(position: Position, text: str) -> Position:
    """Return the position that follows `position` after `text`."""
    newlines = text.count("\n")
    if not newlines:
        return Position(position.line, position.column + len(text))
    return Position(position.line + newlines, len(text) - text.rfind("\n") - 1)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """From `start` up to `end`, which is not part of it."""

    start: Position
    end: Position

    def holds(self, position: Position) -> bool:
        """Return True if a cursor at `position` touches it: its end counts."""
        return self.start <= position <= self.end

    def covers(self, other: Range) -> bool:
        """Return True if nothing of `other` is outside."""
        return self.start <= other.start and other.end <= self.end

    def meets(self, other: Range) -> bool:
        """Return True if they overlap or touch."""
        return self.start <= other.end and other.start <= self.end

    @property
    def empty(self) -> bool:
        """Return True if it is empty."""
        return self.start == self.end


def common_prefix(one: str, other: str) -> int:
    """Characters at the beginning that are the same, by halving: texts are compared much faster than characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def text_digest(text: str) -> str:
    """The SHA-256 of a text in UTF-8, which is that of a file with it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
