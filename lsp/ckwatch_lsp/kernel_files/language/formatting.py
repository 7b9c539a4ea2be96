"""Formats TOML by changing nothing but blanks and line ends between what stands there.

Keys, values and comments stay as they are spelled, in their order. What is changed is the space between two of them, by
an edit of its own, so that cursors, folds and marks elsewhere stay. Arrays over several lines keep their lines: people
lay matrices and lists of values out by hand.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ckwatch.model.text import Range
from ckwatch.workspace.toml import TomlFile, TomlKind, TomlPair, TomlTable, TomlValue, long_keys
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit

BEFORE_COMMENT = "  "
"""Between a value and a comment that touches it. Other space there stays: comments may be aligned."""

_LINE_END = re.compile(r"\r?\n")
_UNIT = re.compile(r"\r\n|.", re.DOTALL)
_TRAILING = re.compile(r"[ \t]+(?=\r?\n)")
_PAIR_IN_COMMENT = re.compile(r"#+[ \t]*[A-Za-z0-9_.-]+[ \t]*=[^=]")


class _Line(NamedTuple):
    """A header, a pair or a comment, from `start` to `end` without blanks around it."""

    start: int
    end: int
    is_header: bool = False
    is_comment: bool = False


class _Change(NamedTuple):
    start: int
    end: int
    text: str


def format_file(file: TomlFile) -> list[KernelFileEdit]:
    """Edits that format a whole file, in order; none for a text that is not TOML."""
    if not _is_toml(file.text):
        return []
    changes = (_smallest(file.text, one) for one in sorted(_changes(file)))
    return [KernelFileEdit(file.range(one.start, one.end), one.text) for one in changes if one is not None]


def format_lines(file: TomlFile, within: Range) -> list[KernelFileEdit]:
    """Those of the edits of `format_file` that change nothing but the lines of a range."""
    first, last = within.start.line, within.end.line
    if last > first and not within.end.column:
        last -= 1
    return [one for one in format_file(file) if first <= one.range.start.line and one.range.end.line <= last]


def _changes(file: TomlFile) -> Iterator[_Change]:
    at = 1 if file.text.startswith("\ufeff") else 0
    lines = _lines(file)
    opening = _opening(file, lines)
    before: _Line | None = None
    for number, line in enumerate(lines):
        yield _Change(at, line.start, _space(file, before, line, at, opens=number in opening))
        at = line.end
        before = line
    yield _Change(at, len(file.text), "" if before is None else _line_ends(file, at, len(file.text), 1))
    for table in file.tables:
        yield from _within_table(file, table)


def _smallest(text: str, change: _Change) -> _Change | None:
    """Without what stays as it is at both ends; None where all of it does. No line end is cut in two."""
    old, new = _UNIT.findall(text, change.start, change.end), _UNIT.findall(change.text)
    same = _common(old, new)
    start = change.start + sum(map(len, old[:same]))
    old, new = old[same:], new[same:]
    same = _common(old[::-1], new[::-1])
    end = change.end - sum(map(len, old[len(old) - same :]))
    return None if old == new else _Change(start, end, "".join(new[: len(new) - same]))


def _common(one: list[str], other: list[str]) -> int:
    """How much both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _is_toml(text: str) -> bool:
    if long_keys(text):
        return False
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _lines(file: TomlFile) -> list[_Line]:
    """Return the lines of the file, and the comments behind them on the same line."""
    found: list[_Line] = []
    for table in file.tables:
        if table.has_header:
            found.append(_Line(table.start, table.header_end, is_header=True))
        found += (_Line(pair.start, pair.end) for pair in table.pairs)
    ends = iter(sorted(found))
    inside = next(ends, None)
    own: list[_Line] = []
    for comment in file.comments:
        while inside is not None and inside.end <= comment.start:
            inside = next(ends, None)
        if inside is None or comment.start < inside.start:
            text = file.text[comment.start : comment.end].rstrip(" \t")
            own.append(_Line(comment.start, comment.start + len(text), is_comment=True))
    return sorted(found + own)


def _opening(file: TomlFile, lines: Sequence[_Line]) -> frozenset[int]:
    """The lines before which a blank one stands: headers, or the first of the comments right above one.

    A pair that is commented out belongs to the table above.
    """
    found = set()
    for number, line in enumerate(lines):
        if not line.is_header:
            continue
        first = number
        while (
            first > 0
            and lines[first - 1].is_comment
            and _count(file, lines[first - 1].end, lines[first].start) == 1
            and (first == 1 or _count(file, lines[first - 2].end, lines[first - 1].start) > 0)
            and not _PAIR_IN_COMMENT.match(file.text, lines[first - 1].start)
        ):
            first -= 1
        found.add(first)
    return frozenset(found)


def _space(file: TomlFile, before: _Line | None, line: _Line, at: int, *, opens: bool) -> str:
    """Return the space between two lines."""
    if before is None:
        return ""
    count = _count(file, at, line.start)
    if line.is_comment and count == 0:
        return file.text[at : line.start] or BEFORE_COMMENT
    return _line_ends(file, at, line.start, 2 if opens else min(count, 2))


def _count(file: TomlFile, start: int, end: int) -> int:
    return file.text.count("\n", start, end)


def _line_ends(file: TomlFile, start: int, end: int, count: int) -> str:
    """So many line ends, as they are there already."""
    found = _LINE_END.findall(file.text, start, end)[:count]
    return "".join(found) + file.newline * (count - len(found))


def _within_table(file: TomlFile, table: TomlTable) -> Iterator[_Change]:
    if table.has_header:
        width = 2 if table.block.double else 1
        yield _Change(table.start + width, table.keys[0].start, "")
        yield _Change(table.keys[-1].end, table.header_end - width, "")
        for one, other in zip(table.keys, table.keys[1:], strict=False):
            yield _Change(one.end, other.start, ".")
    for pair in table.pairs:
        yield from _within_pair(file.text, pair)


def _within_pair(text: str, pair: TomlPair) -> Iterator[_Change]:
    for one, other in zip(pair.keys, pair.keys[1:], strict=False):
        yield _Change(one.end, other.start, ".")
    if pair.value is not None:
        yield _Change(pair.key_end, pair.value.start, " = ")
        yield from _within_value(text, pair.value)


def _within_value(text: str, value: TomlValue) -> Iterator[_Change]:
    if value.kind not in (TomlKind.ARRAY, TomlKind.INLINE_TABLE):
        return
    parts: Sequence[TomlValue | TomlPair] = value.items or value.pairs
    if "\n" in value.text:
        at = value.start
        for string in (*_texts_over_lines(value), None):
            end = value.end if string is None else string.start
            yield from _trailing(text, at, end)
            at = end if string is None else string.end
        return
    inner = " " if value.kind is TomlKind.INLINE_TABLE and parts else ""
    at = value.start + 1
    for number, part in enumerate(parts):
        yield _Change(at, part.start, ", " if number else inner)
        if isinstance(part, TomlPair):
            yield from _within_pair(text, part)
        else:
            yield from _within_value(text, part)
        at = part.end
    if parts or not text[at : value.end - 1].strip():
        yield _Change(at, value.end - 1, ("," if "," in text[at : value.end - 1] else "") + inner)


def _texts_over_lines(value: TomlValue) -> Iterator[TomlValue]:
    """Strings over several lines within a value, in order."""
    if value.kind is TomlKind.STRING and "\n" in value.text:
        yield value
    for item in value.items:
        yield from _texts_over_lines(item)
    for pair in value.pairs:
        if pair.value is not None:
            yield from _texts_over_lines(pair.value)


def _trailing(text: str, start: int, end: int) -> Iterator[_Change]:
    for found in _TRAILING.finditer(text, start, end):
        yield _Change(found.start(), found.end(), "")
