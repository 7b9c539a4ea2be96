"""Places in text files.

Lines and columns are counted from zero, columns in Unicode code points; ends are exclusive. What a person reads
is counted from one: `str()` of a position or span does that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two code points."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line + 1}:{self.column + 1}"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range in the file at the absolute `path`."""

    path: str
    start: Position
    end: Position

    def __str__(self) -> str:
        return f"{self.path}:{self.start}"


def span(path: str, line: int, column: int, end_line: int, end_column: int) -> Span:
    """Short form for a `Span` from four zero-based numbers."""
    return Span(path, Position(line, column), Position(end_line, end_column))
