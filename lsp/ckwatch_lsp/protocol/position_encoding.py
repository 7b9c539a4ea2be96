"""Translates between the editor's positions (in UTF-8, UTF-16 or UTF-32 units) and ours (in code points).

In the protocol a lone `\r` ends a line, too; for us it does not. Every position is clamped: one past the end of a line
is its end, one past the last line is the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.text import LineIndex, Position, Range

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")


def split_lines(text: str) -> list[str]:
    """The editor's lines of `text` with their ends; the last one has none, and is empty where the text ends a line."""
    if "\r" not in text:
        *ended, last = text.split("\n")
        return [*(line + "\n" for line in ended), last]
    lines = LINE.findall(text)
    return [*lines, text[sum(map(len, lines)) :]]


def has_lone_return(text: str) -> bool:
    """Return True if a `\\r` without `\\n` ends a line of the editor's."""
    return "\r" in text and text.count("\r") != text.count("\r\n")


def _units(text: str, encoding: types.PositionEncodingKind | str) -> int:
    if encoding == types.PositionEncodingKind.Utf32 or text.isascii():
        return len(text)
    if encoding == types.PositionEncodingKind.Utf8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(char > "\uffff" for char in text)


def _column(line: str, units: int, encoding: types.PositionEncodingKind | str) -> int:
    """The code point at which `units` end; the one they end within, if they do."""
    if encoding == types.PositionEncodingKind.Utf32 or line.isascii():
        return min(units, len(line))
    passed = 0
    for column, char in enumerate(line):
        if encoding == types.PositionEncodingKind.Utf8:
            passed += 1 if char < "\x80" else 2 if char < "\u0800" else 3 if char <= "\uffff" else 4
        else:
            passed += 2 if char > "\uffff" else 1
        if passed > units:
            return column
    return len(line)


class PositionCodec:
    """Translates places in one text, given as the editor's lines; they may be changed meanwhile.

    `lone_returns`: True where a lone `\\r` ends some of them, so that lines are counted in two ways.
    """

    def __init__(
        self, lines: Sequence[str], encoding: types.PositionEncodingKind | str, *, lone_returns: bool = False
    ) -> None:
        self.lines = lines
        self.encoding = encoding
        self.lone_returns = lone_returns

    def copy(self) -> PositionCodec:
        """The same for the lines as they are now."""
        return PositionCodec(list(self.lines), self.encoding, lone_returns=self.lone_returns)

    def decode(self, place: types.Position) -> Position:
        """Our position of the editor's place."""
        line, last = max(place.line, 0), len(self.lines) - 1
        if line > last:
            line, column = last, len(self.lines[last])
        else:
            column = _column(self.lines[line].rstrip("\r\n"), max(place.character, 0), self.encoding)
        if not self.lone_returns:
            return Position(line, column)
        return LineIndex("".join(self.lines)).position(sum(map(len, self.lines[:line])) + column)

    def decode_range(self, given: types.Range) -> Range:
        """Our range of the editor's; one whose ends stand the wrong way round is turned."""
        start, end = self.decode(given.start), self.decode(given.end)
        return Range(min(start, end), max(start, end))

    def encode(self, position: Position) -> types.Position:
        """The editor's place of our position."""
        line, column = max(position.line, 0), max(position.column, 0)
        if self.lone_returns:
            line, column = self._editor_line(position)
        elif line >= len(self.lines):
            line, column = len(self.lines) - 1, len(self.lines[-1])
        return types.Position(line, _units(self.lines[line].rstrip("\r\n")[:column], self.encoding))

    def _editor_line(self, position: Position) -> tuple[int, int]:
        left = LineIndex("".join(self.lines)).offset(position)
        for number, line in enumerate(self.lines[:-1]):
            if left < len(line):
                return number, left
            left -= len(line)
        return len(self.lines) - 1, left

    def encode_range(self, given: Range) -> types.Range:
        """The editor's range of ours."""
        return types.Range(self.encode(given.start), self.encode(given.end))
