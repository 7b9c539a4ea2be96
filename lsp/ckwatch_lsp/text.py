"""Places in a text, as the pure parts of the language server count them: from zero, in Unicode code points.

Only `\\n` ends a line (a `\\r` before it is the line's last character). What an editor counts, in UTF-8 or UTF-16, is
translated at the edge.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """From `start` up to `end`, which is not part of it."""

    start: Position
    end: Position

    def holds(self, position: Position) -> bool:
        """Whether a cursor at `position` touches it: its end counts."""
        return self.start <= position <= self.end

    def covers(self, other: Range) -> bool:
        """Whether nothing of `other` is outside."""
        return self.start <= other.start and other.end <= self.end

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.start == self.end
