"""Reads any TOML text, however broken, as tables, keys and values with their positions, and writes values as TOML.

A text that `tomllib` accepts is read as `tomllib` reads it. Every other text gives a file, too, and a broken line hides
no other: a value ends with its line, and an unclosed array or inline table ends before a line that is a header or a key
with `=`. A line such as `["a"]` in an open array is an element, and not a header, where a value may follow and a comma
or `]` comes next. A text is read in pieces that begin with a header each; the pieces are cached, so that an edit reads
one of them again.
"""

from __future__ import annotations

import enum
import re
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import LineIndex, Position, Range


class TomlKind(enum.Enum):
    """The kind of a value, by its spelling."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    INLINE_TABLE = "inline table"
    OTHER = "other"
    """A date or time, or something that is not a value (yet)."""


class KeyPart(NamedTuple):
    """One part of a dotted key; `name` is without quotes."""

    name: str
    start: int
    end: int


class TomlValue(NamedTuple):
    """A value at the offsets `start` to `end`. `items` are an array's, `pairs` an inline table's."""

    kind: TomlKind
    start: int
    end: int
    text: str
    items: tuple[TomlValue, ...] = ()
    pairs: tuple[TomlPair, ...] = ()
    closed: bool = True
    """False where its closing quote or bracket is missing."""

    def read(self) -> Any:
        """Its Python value; None where it is not a TOML value."""
        text = self.text
        if (
            self.kind is TomlKind.NUMBER
            and len(text) < DIGITS_READ
            and text.isascii()
            and text.isdigit()
            and (text[0] != "0" or text == "0")
        ):
            return int(text)
        if self.kind is TomlKind.BOOLEAN:
            return text == "true"
        if self.kind is TomlKind.STRING and self.closed and len(text) >= 2 and text[0] == '"' and "\\" not in text:
            inner = text[1:-1]
            if '"' not in inner and "\n" not in inner:
                return inner
        if next(_long_keys_in(self), None) is not None:
            return None
        try:
            return tomllib.loads(f"value = {text}").get("value")
        except (ValueError, RecursionError):
            return None


def _long_keys_in(value: TomlValue) -> Iterator[TomlPair]:
    for pair in value.pairs:
        if len(pair.keys) > KEY_PARTS_LIMIT:
            yield pair
        elif pair.value is not None:
            yield from _long_keys_in(pair.value)
    for item in value.items:
        yield from _long_keys_in(item)


class TomlPair(NamedTuple):
    """`key = value`, where one of `=` and the value may be missing. `equals` is the offset of `=`."""

    keys: tuple[KeyPart, ...]
    equals: int | None
    value: TomlValue | None
    start: int
    end: int

    @property
    def name(self) -> str:
        """The key, with dots."""
        keys = self.keys
        return keys[0].name if len(keys) == 1 else ".".join(part.name for part in keys)

    @property
    def key_end(self) -> int:
        """The end of the key."""
        return self.keys[-1].end if self.keys else self.start


class TomlBlock:
    """A table with offsets from the beginning of the piece of text that it was read in. `double`: one of an array.

    `by_name` holds the first pair of each name.
    """

    __slots__ = ("by_name", "double", "end", "header_end", "keys", "pairs", "path", "start")

    def __init__(
        self,
        keys: tuple[KeyPart, ...],
        pairs: tuple[TomlPair, ...],
        start: int,
        header_end: int,
        end: int,
        *,
        double: bool,
    ) -> None:
        self.keys = keys
        self.double = double
        self.pairs = pairs
        self.start = start
        self.header_end = header_end
        self.end = end
        self.path = tuple(part.name for part in keys)
        self.by_name = {pair.name: pair for pair in reversed(pairs)}


class TomlTable:
    """A table of the file: its header, if any, and the pairs below it.

    `index` counts the tables of an array (`[[instance]]`), None for others. `start` is where the header stands, `end`
    where the last thing that belongs to it ends, `next` where the next table's header begins. It is a `block` of a
    piece of text that begins at the offset `shift`: offsets are moved on demand, so that an edit leaves the blocks
    before and behind it as they are.
    """

    __slots__ = ("_pairs", "block", "index", "next", "shift")

    def __init__(self, block: TomlBlock, shift: int, index: int | None, following: int) -> None:
        self.index = index
        self.next = following
        self.block = block
        self.shift = shift
        self._pairs: tuple[TomlPair, ...] | None = None

    @property
    def start(self) -> int:
        """The start of the header."""
        return self.block.start + self.shift

    @property
    def header_end(self) -> int:
        """The end of the header."""
        return self.block.header_end + self.shift

    @property
    def end(self) -> int:
        """The end of the last line."""
        return self.block.end + self.shift

    @property
    def keys(self) -> tuple[KeyPart, ...]:
        """The parts of its header."""
        return tuple(_moved_part(part, self.shift) for part in self.block.keys)

    @property
    def has_header(self) -> bool:
        """Return True if there is a name in its header."""
        return bool(self.block.keys)

    @property
    def path(self) -> tuple[str, ...]:
        """Its name, part by part; empty for the top of the file."""
        return self.block.path

    @property
    def pairs(self) -> tuple[TomlPair, ...]:
        """Its keys and values in their order."""
        if self._pairs is None:
            self._pairs = tuple(_moved(pair, self.shift) for pair in self.block.pairs)
        return self._pairs

    def pair(self, name: str) -> TomlPair | None:
        """The pair whose key is `name`, the first one."""
        found = self.block.by_name.get(name)
        return None if found is None else _moved(found, self.shift)

    def value(self, name: str) -> TomlValue | None:
        """The value of `name`."""
        pair = self.pair(name)
        return None if pair is None else pair.value

    def unplaced(self, name: str) -> TomlPair | None:
        """The pair `name` where only its name and text matter: its offsets are not those of the file."""
        return self.block.by_name.get(name)


class TomlComment(NamedTuple):
    """From `#` to the end of the line."""

    start: int
    end: int


def _moved_part(part: KeyPart, shift: int) -> KeyPart:
    return KeyPart(part.name, part.start + shift, part.end + shift)


def _moved(pair: TomlPair, shift: int) -> TomlPair:
    keys = tuple(_moved_part(part, shift) for part in pair.keys)
    value = None if pair.value is None else _moved_value(pair.value, shift)
    return TomlPair(
        keys, None if pair.equals is None else pair.equals + shift, value, pair.start + shift, pair.end + shift
    )


def _moved_value(value: TomlValue, shift: int) -> TomlValue:
    return value._replace(
        start=value.start + shift,
        end=value.end + shift,
        items=tuple(_moved_value(item, shift) for item in value.items),
        pairs=tuple(_moved(pair, shift) for pair in value.pairs),
    )


class TomlFile:
    """A text with what was read from it. `tables` begins with the top of the file."""

    __slots__ = ("comments", "lines", "tables", "text")

    def __init__(self, text: str, tables: Sequence[TomlTable], comments: Sequence[TomlComment]) -> None:
        self.text = text
        self.tables = tuple(tables)
        self.comments = tuple(comments)
        self.lines = LineIndex(text)

    @property
    def line_count(self) -> int:
        """The number of lines, the last one without an end included."""
        return len(self.lines.starts)

    def line_start(self, line: int) -> int:
        """The offset at which a line begins; the text's end past the last."""
        return self.lines.starts[line] if line < len(self.lines.starts) else len(self.text)

    def line_end(self, line: int) -> int:
        """The offset at which a line's text ends, before `\\n` or `\\r\\n`."""
        end = self.line_start(line + 1)
        if line + 1 < self.line_count:
            end -= 1
        return end - 1 if end > self.line_start(line) and self.text[end - 1 : end] == "\r" else end

    def line_of(self, offset: int) -> int:
        """The line of an offset."""
        return bisect_right(self.lines.starts, offset) - 1

    def position(self, offset: int) -> Position:
        """The position of an offset."""
        return self.lines.position(offset)

    def offset(self, position: Position) -> int:
        """The offset of a position; past the end of a line its end, past the last line the end of the text."""
        offset = self.lines.offset(position)
        return min(offset, self.line_end(position.line)) if 0 <= position.line < self.line_count else offset

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets."""
        return Range(self.position(start), self.position(end))

    def table_at(self, offset: int) -> TomlTable:
        """The table whose text an offset is in: blank lines below a table are its own."""
        found = bisect_right(self.tables, offset, lo=1, key=lambda table: table.start) - 1
        return self.tables[found]

    def pairs_at(self, offset: int) -> Iterator[tuple[TomlTable, tuple[TomlPair, ...]]]:
        """The pair at an offset with the ones around it, the outermost first: inline tables have pairs of their own."""
        table = self.table_at(offset)
        chain: list[TomlPair] = []
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


def _pairs_in(value: TomlValue, offset: int) -> Iterator[TomlPair]:
    """The pairs of inline tables within `value` that hold an offset, arrays looked through."""
    if value.kind is TomlKind.INLINE_TABLE:
        yield from value.pairs
    for item in value.items:
        if item.start <= offset <= item.end:
            yield from _pairs_in(item, offset)


PIECES_KEPT = 8192
"""Pieces that are remembered, of some hundred characters each."""

EXTENSIONS = 16
"""A piece that does not end is read again with the next one so many times, then with all that follows."""

DEPTH_LIMIT = 64
"""Arrays within arrays; deeper ones have no `items`."""

KEY_PARTS_LIMIT = 64
"""Parts of a dotted key; `tomllib` takes seconds for one of thousands, and gives tables within tables as deep."""

KEYS_LIMIT = 10_000
"""Keys of a table: each takes kilobytes once it is a parameter with its place, and a kernel has dozens."""

MARKS_LIMIT = 250_000
"""Line ends, commas and equals signs of a text that is read: each may bring a value, which takes half a kilobyte."""

STATEMENT_REACH = 10_000
"""Characters in which the start of the statement around a line is looked for."""

DIGITS_READ = 1000
"""Python refuses to read integers of a few thousand digits; such texts are left to `tomllib`."""

_PLAIN_PAIR = re.compile(
    r"[ \t]*([A-Za-z0-9_-]+)[ \t]*(=)[ \t]*"
    r"(?:(\"[^\"\\\r\n]*\"|'[^'\r\n]*')|([+-]?[0-9][0-9_]*)|(true|false))[ \t]*(#[^\r\n]*)?\r?(?:\n|\Z)"
)
_BLANK = re.compile(r"[ \t]*")
_REST = re.compile(r"[^\r\n]*")
_KEY_PART = re.compile(r"[A-Za-z0-9_-]+|\"(?:[^\"\\\r\n]++|\\.)*+\"|'[^'\r\n]*'")
_LOOSE_PART = re.compile(r"[^\s\[\]{}=,.#\"']+")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_BARE = re.compile(r"[^\s,\]}#\[{=\"']+")
_DATE_AND_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:[0-9:.+Zz-]+")
_DATE_OR_TIME = re.compile(r"\d{4}-|\d\d:")
_NUMBER = re.compile(r"[+-]?[0-9][0-9a-fA-F_.+-]*|0[xob][0-9a-fA-F_]+|[+-]?(?:inf|nan)")
_FILL = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_FILL_COMMENT = re.compile(r"#[^\r\n]*")
_QUOTED = r"\"(?:[^\"\\\r\n]++|\\[^\r\n])*+\"|'[^'\r\n]*'"
_LINE_BEGINS_ANEW = re.compile(
    r"[ \t]*+(?:"
    r"(?P<open>\[\[?)[ \t]*+(?=[A-Za-z_\"'])(?!\"\"\"|''')(?:[^\[\]\r\n,\"']|" + _QUOTED + r")++(?P<close>\]\]?)"
    r"[ \t]*(?:#|\r?$)"
    r"|(?!\"\"\"|''')(?:[A-Za-z0-9_.\t -]|" + _QUOTED + r")++="
    r")",
    re.MULTILINE,
)
"""A line within an open array that may begin the next table or pair."""
_HEADER_LINE = re.compile(r"^[ \t]*\[(?![^\r\n]*,)", re.MULTILINE)
_BASIC = re.compile(r"\"(?:[^\"\\\r\n]++|\\[^\r\n])*+(\"?)")
_LITERAL = re.compile(r"'[^'\r\n]*('?)")
_MARKS = re.compile(r"[\n,=]")
_STATEMENT_LINE = re.compile(r"[ \t]*(?:\[{1,2}[ \t]*[A-Za-z_\"']|[A-Za-z0-9_.\"'-][A-Za-z0-9_. \t\"'-]*=)")
_MARK = re.compile(r"[\"'#\[\]{}\n]")


def parse_toml(text: str, *, cached: bool = True) -> TomlFile:
    """The tables, keys and values of `text` up to `readable_end`; `cached` for a text of which most was read before."""
    readable = text[: readable_end(text)]
    if not cached:
        return _file_of(text, [(0, _Scanner(readable).piece())])
    return _file_of(text, _pieces(readable))


def readable_end(text: str) -> int:
    """Return the start of the line that goes beyond `MARKS_LIMIT`, or of the statement around it if that is near; the
    text's length if none does."""
    if sum(map(text.count, "\n,=")) <= MARKS_LIMIT:
        return len(text)
    beyond = next(islice(_MARKS.finditer(text), MARKS_LIMIT, None)).start()
    line = start = text.rfind("\n", 0, beyond) + 1
    while not _STATEMENT_LINE.match(text, start):
        if start == 0 or line - start > STATEMENT_REACH:
            return line
        start = text.rfind("\n", 0, start - 1) + 1
    return start


def long_keys(text: str) -> list[tuple[TomlTable | TomlPair, tuple[KeyPart, ...]]]:
    """The tables and pairs of `text` with a key of more than `KEY_PARTS_LIMIT` parts in them, and these, in order."""
    if text.count(".") < KEY_PARTS_LIMIT or all(line.count(".") < KEY_PARTS_LIMIT for line in text.split("\n")):
        return []
    found: list[tuple[TomlTable | TomlPair, tuple[KeyPart, ...]]] = []
    for table in parse_toml(text, cached=False).tables:
        if len(table.block.keys) > KEY_PARTS_LIMIT:
            found.append((table, table.keys))
            continue
        for pair in table.pairs:
            if len(pair.keys) > KEY_PARTS_LIMIT:
                found.append((pair, pair.keys))
            elif pair.value is not None:
                found += ((pair, inner.keys) for inner in _long_keys_in(pair.value))
    return found


def surplus_keys(text: str) -> list[tuple[TomlPair, int]]:
    """The first pair beyond `KEYS_LIMIT` of each table that has more, and where the last one ends; a table in braces is
    one pair, the one that it is the value of."""
    if text.count("=") <= KEYS_LIMIT:
        return []
    found: list[tuple[TomlPair, int]] = []
    for table in parse_toml(text, cached=False).tables:
        pairs = table.pairs
        if len(pairs) > KEYS_LIMIT:
            found.append((pairs[KEYS_LIMIT], pairs[-1].end))
            pairs = pairs[:KEYS_LIMIT]
        found += ((pair, pair.end) for pair in pairs if pair.value is not None and _has_surplus(pair.value))
    return sorted(found, key=lambda one: one[0].start)


def _has_surplus(value: TomlValue) -> bool:
    return len(value.pairs) > KEYS_LIMIT or any(
        inner is not None and _has_surplus(inner) for inner in (*value.items, *(pair.value for pair in value.pairs))
    )


def _pieces(text: str) -> Iterator[tuple[int, _Piece]]:
    starts = [0, *(found.start() for found in _HEADER_LINE.finditer(text) if found.start() > 0), len(text)]
    at = 0
    while at < len(starts) - 1:
        start = starts[at]
        piece = _read(text[start : starts[at + 1]])
        at += 1
        # what is open at the end of a piece may go on behind what looks like a header
        for more in range(EXTENSIONS):
            if not piece.goes_on or at >= len(starts) - 1:
                break
            at = at + 1 if more < EXTENSIONS - 1 else len(starts) - 1
            piece = _read(text[start : starts[at]])
        yield start, piece


def _file_of(text: str, pieces: Iterable[tuple[int, _Piece]]) -> TomlFile:
    tables: list[TomlTable] = []
    comments: list[TomlComment] = []
    counts: Counter[tuple[str, ...]] = Counter()
    for start, piece in pieces:
        first = 0 if start == 0 else 1  # the top of a piece that begins with a header is empty
        for block in piece.blocks[first:]:
            if tables:
                tables[-1].next = block.start + start
            counts[block.path] += block.double
            tables.append(TomlTable(block, start, counts[block.path] - 1 if block.double else None, len(text)))
        comments += [TomlComment(one.start + start, one.end + start) for one in piece.comments]
    return TomlFile(text, tables or [TomlTable(_EMPTY, 0, None, len(text))], comments)


class _Piece(NamedTuple):
    """The result of reading a piece of text. `goes_on`: its last value has no end in it."""

    blocks: tuple[TomlBlock, ...]
    comments: tuple[TomlComment, ...]
    goes_on: bool


_EMPTY = TomlBlock((), (), 0, 0, 0, double=False)


@lru_cache(maxsize=PIECES_KEPT)
def _read(text: str) -> _Piece:
    return _Scanner(text).piece()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._length = len(text)
        self._comments: list[TomlComment] = []
        self._goes_on = False
        """True if something that may end later was open where the text ended."""

    def piece(self) -> _Piece:
        text, length = self._text, self._length
        at = 1 if text.startswith("\ufeff") else 0
        blocks: list[TomlBlock] = []
        keys: tuple[KeyPart, ...] = ()
        double = False
        start = header_end = end = at
        pairs: list[TomlPair] = []
        while at < length:
            plain = _PLAIN_PAIR.match(text, at)
            if plain is not None:
                pair = _plain(plain)
                pairs.append(pair)
                end = pair.end
                if plain[6] is not None:
                    self._comments.append(TomlComment(plain.start(6), plain.end(6)))
                at = plain.end()
                continue
            first = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # matches anything
            mark = text[first : first + 1]
            if mark in ("", "\n", "\r"):
                at = first + 1
            elif mark == "#":
                at = self._comment(first)
            elif mark == "[":
                blocks.append(TomlBlock(keys, tuple(pairs), start, header_end, end, double=double))
                start = first
                keys, double, at = self._header(first)
                header_end = end = at
                pairs = []
                at = self._end_of_line(at)
            else:
                pair = self._pair(first, 0)
                pairs.append(pair)
                end = pair.end
                at = max(self._end_of_line(pair.end), first + 1)
        blocks.append(TomlBlock(keys, tuple(pairs), start, header_end, end, double=double))
        # behind an unclosed array, a comment is met twice
        comments = {comment.start: comment for comment in self._comments}
        return _Piece(tuple(blocks), tuple(comments[one] for one in sorted(comments)), self._goes_on)

    def _comment(self, at: int) -> int:
        end = _REST.match(self._text, at).end()  # type: ignore[union-attr]  # matches anything
        self._comments.append(TomlComment(at, end))
        return end

    def _end_of_line(self, at: int) -> int:
        """Past what is left of a line: a comment, or what should not be there."""
        first = _BLANK.match(self._text, at).end()  # type: ignore[union-attr]  # matches anything
        if self._text.startswith("#", first):
            return self._comment(first)
        rest = _REST.match(self._text, first).end()  # type: ignore[union-attr]  # matches anything
        marked = self._text.find("#", first, rest)
        return self._comment(marked) if marked >= 0 else rest

    def _header(self, at: int) -> tuple[tuple[KeyPart, ...], bool, int]:
        double = self._text.startswith("[[", at)
        keys, end = self._keys(_BLANK.match(self._text, at + 1 + double).end())  # type: ignore[union-attr]
        close = _BLANK.match(self._text, end).end()  # type: ignore[union-attr]  # matches anything
        for _ in range(1 + double):
            if self._text.startswith("]", close):
                close = end = close + 1
        return keys, double, end

    def _keys(self, at: int) -> tuple[tuple[KeyPart, ...], int]:
        """A dotted key; the offset where it ends."""
        parts: list[KeyPart] = []
        while True:
            found = _KEY_PART.match(self._text, at) or _LOOSE_PART.match(self._text, at)
            if found is None:
                return tuple(parts), at
            parts.append(KeyPart(_unquoted(found[0]), found.start(), found.end()))
            dot = _DOT.match(self._text, found.end())
            if dot is None:
                return tuple(parts), found.end()
            at = dot.end()

    def _pair(self, at: int, depth: int) -> TomlPair:
        keys, end = self._keys(at)
        if not keys:
            # not even a key: what is there up to the next mark that means something
            stop = end
            while stop < self._length and self._text[stop] not in "=\r\n,}#":
                stop += 1
            end = max(stop, at)
        equals = _BLANK.match(self._text, end).end()  # type: ignore[union-attr]  # matches anything
        if not self._text.startswith("=", equals):
            return TomlPair(keys, None, None, at, end)
        first = _BLANK.match(self._text, equals + 1).end()  # type: ignore[union-attr]  # matches anything
        value = self._value(first, depth)
        return TomlPair(keys, equals, value, at, equals + 1 if value is None else value.end)

    def _value(self, at: int, depth: int) -> TomlValue | None:
        text = self._text
        mark = text[at : at + 1]
        if mark in ("", "\r", "\n", "#", ",", "]", "}", "="):
            return None
        if mark in "\"'":
            return self._string(at, mark)
        if mark in "[{":
            if depth >= DEPTH_LIMIT:
                return self._too_deep(at)
            return self._array(at, depth) if mark == "[" else self._inline_table(at, depth)
        found = _DATE_AND_TIME.match(text, at) or _BARE.match(text, at)
        end = found.end() if found is not None else at + 1
        written = text[at:end]
        if written in ("true", "false"):
            return TomlValue(TomlKind.BOOLEAN, at, end, written)
        number = _NUMBER.fullmatch(written) is not None and _DATE_OR_TIME.match(written) is None
        return TomlValue(TomlKind.NUMBER if number else TomlKind.OTHER, at, end, written)

    def _string(self, at: int, mark: str) -> TomlValue:
        text = self._text
        if text.startswith(mark * 3, at):
            end = at + 3
            while True:
                end = text.find(mark * 3, end)
                if end < 0:
                    self._goes_on = True
                    line = _REST.match(text, at).end()  # type: ignore[union-attr]  # matches anything
                    return TomlValue(TomlKind.STRING, at, line, text[at:line], closed=False)
                escaped = len(text[at + 3 : end]) - len(text[at + 3 : end].rstrip("\\"))
                if mark == "'" or escaped % 2 == 0:
                    break
                end += 1
            end += 3
            while end < self._length and text[end] == mark and end < at + 3 + self._length:
                end += 1
            return TomlValue(TomlKind.STRING, at, end, text[at:end])
        found = (_BASIC if mark == '"' else _LITERAL).match(text, at)
        assert found is not None  # noqa: S101  # the quote is there
        return TomlValue(TomlKind.STRING, at, found.end(), found[0], closed=bool(found[1]))

    def _array(self, at: int, depth: int) -> TomlValue:
        text = self._text
        items: list[TomlValue] = []
        end = at + 1
        expects_item = True
        while True:
            stop, anew = self._fill(end, expects_item=expects_item)
            if anew or stop >= self._length or (text[stop] == "}" and depth):
                return TomlValue(TomlKind.ARRAY, at, end, text[at:end], tuple(items), closed=False)
            if text[stop] == "]":
                return TomlValue(TomlKind.ARRAY, at, stop + 1, text[at : stop + 1], tuple(items))
            item = self._value(stop, depth + 1)
            if item is not None:
                items.append(item)
            expects_item = item is None and text[stop] == ","
            end = stop + 1 if item is None else item.end

    def _inline_table(self, at: int, depth: int) -> TomlValue:
        """TOML 1.0 allows one on a single line only; this reads it over several lines."""
        pairs: list[TomlPair] = []
        end = at + 1
        while True:
            stop, anew = self._fill(end, expects_item=False)
            if anew or stop >= self._length or (self._text[stop] == "]" and depth):
                return TomlValue(TomlKind.INLINE_TABLE, at, end, self._text[at:end], pairs=tuple(pairs), closed=False)
            if self._text[stop] == "}":
                return TomlValue(TomlKind.INLINE_TABLE, at, stop + 1, self._text[at : stop + 1], pairs=tuple(pairs))
            if self._text[stop] == ",":
                end = stop + 1
                continue
            pair = self._pair(stop, depth + 1)
            if pair.keys or pair.equals is not None:
                pairs.append(pair)
            end = max(pair.end, stop + 1)

    def _too_deep(self, at: int) -> TomlValue:
        """An array or inline table at the depth limit: up to its closing bracket, without its items."""
        text = self._text
        kind = TomlKind.ARRAY if text[at] == "[" else TomlKind.INLINE_TABLE
        opened, end = 0, at
        while (found := _MARK.search(text, end)) is not None:
            mark = found[0]
            if mark in "\"'":
                end = self._string(found.start(), mark).end
            elif mark == "#":
                end = self._comment(found.start())
            elif mark == "\n":
                if self._begins_anew(found.end(), expects_item=True):
                    end = found.start()
                    return TomlValue(kind, at, end, text[at:end], closed=False)
                end = found.end()
            else:
                end = found.end()
                opened += 1 if mark in "[{" else -1
                if not opened:
                    return TomlValue(kind, at, end, text[at:end])
        self._goes_on = True
        return TomlValue(kind, at, end, text[at:end], closed=False)

    def _fill(self, at: int, *, expects_item: bool) -> tuple[int, bool]:
        """Past blanks, line ends and comments, and whether that is at a line that ends what is open.

        `expects_item`: an element of an array may follow.
        """
        found = _FILL.match(self._text, at)
        assert found is not None  # noqa: S101  # matches anything
        stop = found.end()
        filled = found[0]
        if "\n" in filled and self._begins_anew(self._text.rfind("\n", at, stop) + 1, expects_item=expects_item):
            return at, True
        self._goes_on = self._goes_on or stop >= self._length
        if "#" in filled:
            self._comments += [TomlComment(at + one.start(), at + one.end()) for one in _FILL_COMMENT.finditer(filled)]
        return stop, False

    def _begins_anew(self, line: int, *, expects_item: bool) -> bool:
        """Return True if the line at `line` is the header of a table or a pair rather than part of an open array."""
        found = _LINE_BEGINS_ANEW.match(self._text, line)
        if found is None or found["open"] is None or not expects_item:
            return found is not None
        if len(found["close"]) > len(found["open"]):
            return False
        following = _FILL.match(self._text, found.end("close")).end()  # type: ignore[union-attr]  # matches anything
        self._goes_on = self._goes_on or following >= self._length
        return not self._text.startswith((",", "]"), following)


def _plain(found: re.Match[str]) -> TomlPair:
    string, number = found[3], found[4]
    if string is not None:
        group, kind = 3, TomlKind.STRING
    else:
        group, kind = (4, TomlKind.NUMBER) if number is not None else (5, TomlKind.BOOLEAN)
    value = TomlValue(kind, found.start(group), found.end(group), found[group])
    key = KeyPart(found[1], found.start(1), found.end(1))
    return TomlPair((key,), found.start(2), value, key.start, value.end)


def _unquoted(text: str) -> str:
    if text[0] == "'" and len(text) > 1:
        return text[1:-1]
    if text[0] != '"' or len(text) < 2:
        return text
    if "\\" not in text:
        return text[1:-1]
    try:
        return next(iter(tomllib.loads(f"{text} = 0")))
    except (tomllib.TOMLDecodeError, StopIteration):
        return text[1:-1]


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


def toml_value(value: Any) -> str:
    """A parameter's value in TOML. Raises ValueError for what no parameter can be."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    raise ValueError(f"{type(value).__name__} cannot be a template parameter")


def toml_string(value: str) -> str:
    """A string in quotes."""
    escaped = "".join(_ESCAPES.get(one, one) for one in value)
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def toml_key(name: str) -> str:
    """A key, in quotes where it has to be."""
    return name if _BARE_KEY.fullmatch(name) else toml_string(name)


def table_text(table: Mapping[str, Any]) -> str:
    """The lines of a table; tables in it are written inline."""
    return "".join(f"{toml_key(name)} = {_value_text(value)}\n" for name, value in table.items())


def instance_table(name: str, parameters: Mapping[str, Any]) -> str:
    """The `[[instance]]` table of an instance. Raises CkwatchError for text that is no Unicode."""
    for value in (name, *parameters.values()):
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise CkwatchError(f"{value!r} is not valid Unicode") from None
    return f"[[instance]]\n{table_text({'name': name, **parameters})}"


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml_value(one)}" for name, one in value.items()) + " }"
    return toml_value(value)


def _number(value: float) -> str:
    if value != value:  # not a number
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"
