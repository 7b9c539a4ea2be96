"""What stands at a place of the text: a key, a value, a table's header, or where one of them could be written."""

from __future__ import annotations

import enum
from bisect import bisect_left
from dataclasses import dataclass

from ckwatch_lsp.kernel_file.syntax import Kind, Pair, Table, TomlFile, Value
from ckwatch_lsp.text import Position, Range


class SpotKind(enum.Enum):
    """What a cursor is on."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    COMMENT = "comment"
    NOTHING = "nothing"
    """Where no key, value or header can be written as it is: behind a value, or in a text that says nothing."""


@dataclass(frozen=True, slots=True)
class Spot:
    """What a cursor is on.

    `path` is the table that a key belongs to, inline tables included, and for a value its key's whole path. `word` is
    what is written there so far, up to the cursor, and `range` what would be replaced: the whole key, value, element of
    an array, or header. `value` is the value or element, `inside` whether the cursor is within quotes, `element`
    whether it is an array's. `siblings` are the keys that are there already.
    """

    kind: SpotKind
    table: Table
    path: tuple[str, ...]
    word: str
    range: Range
    pair: Pair | None = None
    value: Value | None = None
    inside: bool = False
    element: bool = False
    siblings: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


def spot_at(file: TomlFile, position: Position) -> Spot:
    """What a cursor at `position` is on."""
    offset = file.offset(position)
    table = file.table_at(offset)
    if _in_comment(file, offset):
        return _spot(file, SpotKind.COMMENT, table, table.path, offset, offset, offset)
    if table.start <= offset <= table.header_end and table.header_end > table.start:
        return _spot(file, SpotKind.HEADER, table, table.path, table.start, table.header_end, offset)
    return _in_pairs(file, table, table.pairs, table.path, offset)


def _in_comment(file: TomlFile, offset: int) -> bool:
    at = bisect_left(file.comments, offset, key=lambda comment: comment.start) - 1
    return at >= 0 and file.comments[at].start < offset <= file.comments[at].end


def _in_pairs(file: TomlFile, table: Table, pairs: tuple[Pair, ...], path: tuple[str, ...], offset: int) -> Spot:
    siblings = tuple(pair.name for pair in pairs if not pair.start <= offset <= pair.key_end)
    for pair in pairs:
        if not pair.start <= offset or offset > _reach(file, pair):
            continue
        names = tuple(part.name for part in pair.keys)
        if offset <= pair.key_end or pair.equals is None:
            if offset > pair.key_end:
                return _spot(file, SpotKind.NOTHING, table, path, offset, offset, offset, siblings=siblings)
            outer = names[:-1] if "." in file.text[pair.start : pair.key_end] else ()
            start = pair.keys[-1].start if pair.keys and outer and offset >= pair.keys[-1].start else pair.start
            return _spot(
                file, SpotKind.KEY, table, path + outer, start, pair.key_end, offset, pair=pair, siblings=siblings
            )
        if offset <= pair.equals:
            return _spot(file, SpotKind.NOTHING, table, path, offset, offset, offset, pair=pair)
        return _in_value(file, table, pair, pair.value, path + names, offset)
    return _between(file, table, path, offset, siblings)


def _reach(file: TomlFile, pair: Pair) -> int:
    """Up to where a cursor still is on a pair: without a whole value, to the end of the line or what follows it."""
    whole = pair.value is None or pair.value.closed or pair.value.kind is Kind.STRING
    if not whole and not file.text[pair.end :].strip():
        return len(file.text)
    if pair.equals is None or (pair.value is not None and whole):
        return pair.end
    end = file.line_end(file.line_of(pair.end))
    stops = [at for mark in "#,}" if (at := file.text.find(mark, pair.end, end)) >= 0]
    return min([end, *stops])


def _in_value(
    file: TomlFile,
    table: Table,
    pair: Pair,
    value: Value | None,
    path: tuple[str, ...],
    offset: int,
    *,
    element: bool = False,
) -> Spot:
    if value is None or offset < value.start:
        end = offset if value is None else value.start
        if value is not None and file.text[offset:end].strip():
            return _spot(file, SpotKind.NOTHING, table, path, offset, offset, offset, pair=pair)
        reach = offset if value is None else value.end
        return _spot(
            file, SpotKind.VALUE, table, path, offset if value is None else end, reach, offset, pair=pair, value=value
        )
    if value.kind is Kind.INLINE_TABLE and value.start < offset and (offset < value.end or not value.closed):
        return _in_pairs(file, table, value.pairs, path, offset)
    if value.kind is Kind.ARRAY and value.start < offset and (offset < value.end or not value.closed):
        for item in value.items:
            goes_on = not item.closed and item.kind in (Kind.ARRAY, Kind.INLINE_TABLE)
            if item.start <= offset and (goes_on or offset <= item.end):
                return _in_value(file, table, pair, item, path, offset, element=True)
        return _spot(file, SpotKind.VALUE, table, path, offset, offset, offset, pair=pair, element=True)
    inside = value.kind is Kind.STRING and value.start < offset and (offset < value.end or not value.closed)
    return _spot(
        file, SpotKind.VALUE, table, path, value.start, value.end, offset,
        pair=pair, value=value, inside=inside, element=element,
    )  # fmt: skip


def _between(file: TomlFile, table: Table, path: tuple[str, ...], offset: int, siblings: tuple[str, ...]) -> Spot:
    """No pair is there. A key can be written where nothing but blanks stand before it, or a mark of an inline table."""
    line = file.line_of(offset)
    before = file.text[file.line_start(line) : offset].strip()
    can = path != table.path or not before
    kind = SpotKind.KEY if can else SpotKind.NOTHING
    return _spot(file, kind, table, path, offset, offset, offset, siblings=siblings)


def _spot(
    file: TomlFile,
    kind: SpotKind,
    table: Table,
    path: tuple[str, ...],
    start: int,
    end: int,
    offset: int,
    *,
    pair: Pair | None = None,
    value: Value | None = None,
    inside: bool = False,
    element: bool = False,
    siblings: tuple[str, ...] = (),
) -> Spot:
    word = file.text[start:offset] if start <= offset else ""
    return Spot(kind, table, path, word, file.range(start, end), pair, value, inside, element, siblings)
