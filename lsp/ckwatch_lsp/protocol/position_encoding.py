"""Translates between the editor's positions (in UTF-8, UTF-16 or UTF-32 units) and ours (in code points).

An editor also ends a line at a lone `\r`, we do not. Every position is clamped: one past the end of a line is its end,
one past the last line is the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.text import Position, Range

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_ENDS = "\r\n"


def split_lines(text: str) -> list[str]:
    """The editor's lines of `text` with their ends; the last one has none, and is empty where the text ends a line."""
    if "\r" in text:
        lines = LINE.findall(text)
    else:
        lines = text.split("\n")
        lines[:-1] = [line + "\n" for line in lines[:-1]]
        return lines
    if not lines or lines[-1][-1] in _ENDS:
        lines.append("")
    return lines


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

    `lone_returns`: whether a `\\r` ends some of them, so that lines are counted in two ways.
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

    def clamped(self, place: types.Position) -> tuple[int, int]:
        """The editor's line, and the code point in it."""
        if place.line >= len(self.lines):
            last = len(self.lines) - 1
            return last, len(self.lines[last].rstrip(_ENDS))
        line = self.lines[max(place.line, 0)].rstrip(_ENDS)
        return max(place.line, 0), _column(line, max(place.character, 0), self.encoding)

    def decode(self, place: types.Position) -> Position:
        """Our position of the editor's place."""
        line, column = self.clamped(place)
        if not self.lone_returns:
            return Position(line, column)
        first = line
        while first > 0 and not self.lines[first - 1].endswith("\n"):
            first -= 1
        before = sum(each.endswith("\n") for each in self.lines[:first])
        return Position(before, sum(map(len, self.lines[first:line])) + column)

    def decode_range(self, given: types.Range) -> Range:
        """Our range of the editor's; one whose ends stand the wrong way round is turned."""
        start, end = self.decode(given.start), self.decode(given.end)
        return Range(min(start, end), max(start, end))

    def encode(self, position: Position) -> types.Position:
        """The editor's place of our position."""
        line, column = max(position.line, 0), max(position.column, 0)
        if self.lone_returns:
            line, column = self._editor_line(line, column)
        if line >= len(self.lines):
            line = len(self.lines) - 1
            column = len(self.lines[line])
        text = self.lines[line].rstrip(_ENDS)
        return types.Position(line, _units(text[:column], self.encoding))

    def encode_range(self, given: Range) -> types.Range:
        """The editor's range of ours."""
        return types.Range(self.encode(given.start), self.encode(given.end))

    def _editor_line(self, line: int, column: int) -> tuple[int, int]:
        ended = 0
        for index, text in enumerate(self.lines):
            if ended == line:
                if column < len(text) or text.endswith("\n") or index == len(self.lines) - 1:
                    return index, column
                column -= len(text)
            elif text.endswith("\n"):
                ended += 1
        return len(self.lines), 0


def unconverted(given: Range) -> types.Range:
    """Our range for the editor where the text cannot be read."""
    start, end = given.start, given.end
    return types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column))
