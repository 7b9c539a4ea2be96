"""Offsets and positions of one text."""

from __future__ import annotations

import re
from bisect import bisect_right

from ckwatch_lsp.text import Position, Range

_NEWLINE = re.compile("\n")


class Lines:
    """Where the lines of a text begin. Offsets are code points; what lies outside the text is clamped."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]

    @property
    def count(self) -> int:
        """The number of lines, at least one."""
        return len(self._starts)

    def line(self, offset: int) -> int:
        """The line that `offset` is on."""
        return bisect_right(self._starts, offset) - 1

    def start(self, line: int) -> int:
        """The offset at which `line` begins; the text's end after the last line."""
        return self._starts[line] if line < len(self._starts) else len(self._text)

    def end(self, line: int) -> int:
        """The offset at which `line` ends, before its newline."""
        if line + 1 >= len(self._starts):
            return len(self._text)
        end = self._starts[line + 1] - 1
        return end - 1 if end > self._starts[line] and self._text[end - 1] == "\r" else end

    def offset(self, position: Position) -> int:
        """The offset of `position`; past the end of a line that is the line's end."""
        if position.line < 0:
            return 0
        if position.line >= len(self._starts):
            return len(self._text)
        return min(self._starts[position.line] + max(position.column, 0), self.end(position.line))

    def position(self, offset: int) -> Position:
        """The position of `offset`."""
        offset = min(max(offset, 0), len(self._text))
        line = bisect_right(self._starts, offset) - 1
        return Position(line, offset - self._starts[line])

    def range(self, start: int, end: int) -> Range:
        """The range of [start, end)."""
        return Range(self.position(start), self.position(end))
