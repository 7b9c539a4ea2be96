"""A TOML text as tables, keys and values with their places. What is broken is there as far as it can be told."""

from __future__ import annotations

import enum
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ckwatch_lsp.text import Position, Range


class Kind(enum.Enum):
    """What a value is, by how it is written."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    INLINE_TABLE = "inline table"
    OTHER = "other"
    """A date or time, or what is no value (yet)."""


class Part(NamedTuple):
    """One part of a dotted key; `name` is without quotes."""

    name: str
    start: int
    end: int


class Value(NamedTuple):
    """A value at the offsets `start` to `end`. `items` are an array's, `pairs` an inline table's."""

    kind: Kind
    start: int
    end: int
    text: str
    items: tuple[Value, ...] = ()
    pairs: tuple[Pair, ...] = ()
    closed: bool = True
    """False where its end is missing: a quote or bracket that nobody closed."""

    def read(self) -> Any:
        """What it says; None where it says nothing that TOML knows."""
        text = self.text
        if self.kind is Kind.NUMBER and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
            return int(text)
        if self.kind is Kind.BOOLEAN:
            return text == "true"
        if self.kind is Kind.STRING and self.closed and len(text) >= 2 and text[0] == '"' and "\\" not in text:
            inner = text[1:-1]
            if '"' not in inner and "\n" not in inner:
                return inner
        try:
            return tomllib.loads(f"value = {text}").get("value")
        except (ValueError, RecursionError):
            return None


class Pair(NamedTuple):
    """`key = value`, where one of `=` and the value may be missing. `equals` is the offset of `=`."""

    keys: tuple[Part, ...]
    equals: int | None
    value: Value | None
    start: int
    end: int

    @property
    def name(self) -> str:
        """The key, with dots."""
        keys = self.keys
        return keys[0].name if len(keys) == 1 else ".".join(part.name for part in keys)

    @property
    def key_end(self) -> int:
        """Where the key ends."""
        return self.keys[-1].end if self.keys else self.start


class Block:
    """A table with offsets from the beginning of the piece of text that it was read in. `double`: one of an array.

    `by_name` holds the first pair of each name.
    """

    __slots__ = ("by_name", "double", "end", "header_end", "keys", "pairs", "path", "start")

    def __init__(
        self, keys: tuple[Part, ...], pairs: tuple[Pair, ...], start: int, header_end: int, end: int, *, double: bool
    ) -> None:
        self.keys = keys
        self.double = double
        self.pairs = pairs
        self.start = start
        self.header_end = header_end
        self.end = end
        self.path = tuple(part.name for part in keys)
        self.by_name = {pair.name: pair for pair in reversed(pairs)}


class Table:
    """A table of the file: its header, if any, and the pairs below it.

    `index` counts the tables of an array (`[[instance]]`), None for others. `start` is where the header stands, `end`
    where the last thing that belongs to it ends, `next` where the next table's header begins. It is made of a block,
    whose offsets are moved when somebody asks for them: an edit leaves the blocks before and behind it as they are.
    """

    __slots__ = ("_block", "_pairs", "_shift", "index", "next")

    def __init__(self, block: Block, shift: int, index: int | None, following: int) -> None:
        self.index = index
        self.next = following
        self._block = block
        self._shift = shift
        self._pairs: tuple[Pair, ...] | None = None

    @property
    def start(self) -> int:
        """Where the header stands."""
        return self._block.start + self._shift

    @property
    def header_end(self) -> int:
        """Where the header ends."""
        return self._block.header_end + self._shift

    @property
    def end(self) -> int:
        """Where the last of it ends."""
        return self._block.end + self._shift

    @property
    def keys(self) -> tuple[Part, ...]:
        """The parts of its header."""
        return tuple(_moved_part(part, self._shift) for part in self._block.keys)

    @property
    def has_header(self) -> bool:
        """Whether there is a name in its header."""
        return bool(self._block.keys)

    @property
    def path(self) -> tuple[str, ...]:
        """Its name, part by part; empty for the top of the file."""
        return self._block.path

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Its keys and values in their order."""
        if self._pairs is None:
            self._pairs = tuple(_moved(pair, self._shift) for pair in self._block.pairs)
        return self._pairs

    def pair(self, name: str) -> Pair | None:
        """The pair whose key is `name`, the first one."""
        found = self._block.by_name.get(name)
        return None if found is None else _moved(found, self._shift)

    def value(self, name: str) -> Value | None:
        """The value of `name`."""
        pair = self.pair(name)
        return None if pair is None else pair.value

    def unplaced(self, name: str) -> Pair | None:
        """The pair `name` where only its name and text matter: its offsets are not those of the file."""
        return self._block.by_name.get(name)


class Comment(NamedTuple):
    """From `#` to the end of the line."""

    start: int
    end: int


def _moved_part(part: Part, shift: int) -> Part:
    return Part(part.name, part.start + shift, part.end + shift)


def _moved(pair: Pair, shift: int) -> Pair:
    keys = tuple(_moved_part(part, shift) for part in pair.keys)
    value = None if pair.value is None else _moved_value(pair.value, shift)
    return Pair(keys, None if pair.equals is None else pair.equals + shift, value, pair.start + shift, pair.end + shift)


def _moved_value(value: Value, shift: int) -> Value:
    return value._replace(
        start=value.start + shift,
        end=value.end + shift,
        items=tuple(_moved_value(item, shift) for item in value.items),
        pairs=tuple(_moved(pair, shift) for pair in value.pairs),
    )


class TomlFile:
    """A text with what was read from it. `tables` begins with the top of the file."""

    __slots__ = ("_lines", "comments", "tables", "text")

    def __init__(self, text: str, tables: Sequence[Table], comments: Sequence[Comment]) -> None:
        self.text = text
        self.tables = tuple(tables)
        self.comments = tuple(comments)
        self._lines = [0]
        at = text.find("\n")
        while at >= 0:
            self._lines.append(at + 1)
            at = text.find("\n", at + 1)

    @property
    def line_count(self) -> int:
        """Lines, the last one without an end."""
        return len(self._lines)

    def line_start(self, line: int) -> int:
        """The offset at which a line begins; the text's end past the last."""
        return self._lines[line] if line < len(self._lines) else len(self.text)

    def line_end(self, line: int) -> int:
        """The offset at which a line's text ends, before `\\n` or `\\r\\n`."""
        end = self.line_start(line + 1)
        if line + 1 < len(self._lines):
            end -= 1
        return end - 1 if end > self.line_start(line) and self.text[end - 1 : end] == "\r" else end

    def line_of(self, offset: int) -> int:
        """The line of an offset."""
        return bisect_right(self._lines, offset) - 1

    def position(self, offset: int) -> Position:
        """The place of an offset."""
        line = self.line_of(offset)
        return Position(line, offset - self._lines[line])

    def offset(self, position: Position) -> int:
        """The offset of a place; past the end of a line its end, past the last line the end of the text."""
        if position.line < 0:
            return 0
        if position.line >= len(self._lines):
            return len(self.text)
        return min(self._lines[position.line] + max(position.column, 0), self.line_end(position.line))

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets."""
        return Range(self.position(start), self.position(end))

    def table_at(self, offset: int) -> Table:
        """The table whose text an offset is in: blank lines below a table are its own."""
        found = bisect_right(self.tables, offset, lo=1, key=lambda table: table.start) - 1
        return self.tables[found]

    def pairs_at(self, offset: int) -> Iterator[tuple[Table, tuple[Pair, ...]]]:
        """The pair at an offset with the ones around it, the outermost first: inline tables have pairs of their own."""
        table = self.table_at(offset)
        chain: list[Pair] = []
        pairs = table.pairs
        while True:
            inner = next((pair for pair in pairs if pair.start <= offset <= pair.end), None)
            if inner is None:
                break
            chain.append(inner)
            pairs = tuple(_pairs_in(inner.value, offset)) if inner.value is not None else ()
        if chain:
            yield table, tuple(chain)

    @property
    def newline(self) -> str:
        """How its lines end."""
        return "\r\n" if "\r\n" in self.text else "\n"


def _pairs_in(value: Value, offset: int) -> Iterator[Pair]:
    """The pairs of inline tables within `value` that hold an offset, arrays looked through."""
    if value.kind is Kind.INLINE_TABLE:
        yield from value.pairs
    for item in value.items:
        if item.start <= offset <= item.end:
            yield from _pairs_in(item, offset)
