"""Translates between the editor's positions (in UTF-8, UTF-16 or UTF-32 units) and ours (in code points).

Every position is clamped: one past the end of a line is its end, one past the last line is the end of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.text import Position, Range


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends; the last one has none, and is empty where the text ends a line."""
    *ended, last = text.split("\n")
    return [*(line + "\n" for line in ended), last]


def without_end(line: str) -> str:
    """A line without `\\n` or `\\r\\n`."""
    return line[:-1].removesuffix("\r") if line.endswith("\n") else line


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
    """Translates places in one text, given as its lines; they may be changed meanwhile."""

    def __init__(self, lines: Sequence[str], encoding: types.PositionEncodingKind | str) -> None:
        self.lines = lines
        self.encoding = encoding

    def copy(self) -> PositionCodec:
        """The same for the lines as they are now."""
        return PositionCodec(list(self.lines), self.encoding)

    def decode(self, place: types.Position) -> Position:
        """Our position of the editor's place."""
        last = len(self.lines) - 1
        if place.line > last:
            return Position(last, len(self.lines[last]))
        line = max(place.line, 0)
        return Position(line, _column(without_end(self.lines[line]), max(place.character, 0), self.encoding))

    def decode_range(self, given: types.Range) -> Range:
        """Our range of the editor's; one whose ends stand the wrong way round is turned."""
        start, end = self.decode(given.start), self.decode(given.end)
        return Range(min(start, end), max(start, end))

    def encode(self, position: Position) -> types.Position:
        """The editor's place of our position."""
        line, column = max(position.line, 0), max(position.column, 0)
        if line >= len(self.lines):
            line = len(self.lines) - 1
            column = len(self.lines[line])
        return types.Position(line, _units(without_end(self.lines[line])[:column], self.encoding))

    def encode_range(self, given: Range) -> types.Range:
        """The editor's range of ours."""
        return types.Range(self.encode(given.start), self.encode(given.end))
