"""Reading TOML, whatever it is: every text gives a file, and a broken line hides no other.

Where TOML is broken, a value ends with its line, and an array or inline table that nobody closes before a line that
like a header or a key with `=`. A text is read in pieces, which begin with a header each and are remembered: after
an edit one of them is read again.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from typing import NamedTuple

from ckwatch_lsp.kernel_file.syntax import Block, Comment, Kind, Pair, Part, Table, TomlFile, Value

PIECES_KEPT = 8192
"""Pieces that are remembered, of some hundred characters each."""

EXTENSIONS = 16
"""A piece that does not end is read again with the next one so many times, then with all that follows."""

DEPTH_LIMIT = 64
"""Arrays within arrays; deeper ones are not looked into."""

_PLAIN_PAIR = re.compile(
    r"[ \t]*([A-Za-z0-9_-]+)[ \t]*(=)[ \t]*"
    r"(?:(\"[^\"\\\r\n]*\"|'[^'\r\n]*')|([+-]?[0-9][0-9_]*)|(true|false))[ \t]*(#[^\r\n]*)?\r?(?:\n|\Z)"
)
_BLANK = re.compile(r"[ \t]*")
_REST = re.compile(r"[^\r\n]*")
_KEY_PART = re.compile(r"[A-Za-z0-9_-]+|\"(?:[^\"\\\r\n]|\\.)*\"|'[^'\r\n]*'")
_LOOSE_PART = re.compile(r"[^\s\[\]{}=,.#\"']+")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_BARE = re.compile(r"[^\s,\]}#\[{=\"']+")
_NUMBER = re.compile(r"[+-]?(?:0[xob])?[0-9][0-9a-fA-F_.+-]*|[+-]?(?:inf|nan)")
_FILL = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_FILL_COMMENT = re.compile(r"#[^\r\n]*")
_LINE_BEGINS_ANEW = re.compile(
    r"[ \t]*(?:\[\[?[ \t]*[A-Za-z_\"'][^\[\]\r\n,]*\]\]?[ \t]*(?:#|\r?$)|[A-Za-z0-9_\"'-][A-Za-z0-9_.\"' \t-]*=)",
    re.MULTILINE,
)
_HEADER_LINE = re.compile(r"^[ \t]*\[(?![^\r\n]*,)", re.MULTILINE)
_BASIC = re.compile(r"\"(?:[^\"\\\r\n]|\\[^\r\n])*(\"?)")
_LITERAL = re.compile(r"'[^'\r\n]*('?)")


def parse(text: str) -> TomlFile:
    """What `text` says, and where."""
    starts = [0, *(found.start() for found in _HEADER_LINE.finditer(text) if found.start() > 0), len(text)]
    tables: list[Table] = []
    comments: list[Comment] = []
    counts: dict[tuple[str, ...], int] = {}
    at = 0
    while at < len(starts) - 1:
        start = starts[at]
        piece = _read(text[start : starts[at + 1]])
        at += 1
        # what nobody closed may go on behind what looked like a header
        for more in range(EXTENSIONS):
            if not piece.goes_on or at >= len(starts) - 1:
                break
            at = at + 1 if more < EXTENSIONS - 1 else len(starts) - 1
            piece = _read(text[start : starts[at]])
        first = 0 if start == 0 else 1  # the top of a piece that begins with a header is empty
        for block in piece.blocks[first:]:
            if tables:
                tables[-1].next = block.start + start
            tables.append(Table(block, start, _index(block, counts), len(text)))
        comments += [Comment(one.start + start, one.end + start) for one in piece.comments]
    return TomlFile(text, tables or [Table(_EMPTY, 0, None, len(text))], comments)


def _index(block: Block, counts: dict[tuple[str, ...], int]) -> int | None:
    if not block.double:
        return None
    index = counts.get(block.path, 0)
    counts[block.path] = index + 1
    return index


class _Piece(NamedTuple):
    """What was read from a piece of text. `goes_on`: its last value has no end in it."""

    blocks: tuple[Block, ...]
    comments: tuple[Comment, ...]
    goes_on: bool


_EMPTY = Block((), (), 0, 0, 0, double=False)


@lru_cache(maxsize=PIECES_KEPT)
def _read(text: str) -> _Piece:
    return _Scanner(text).piece()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._length = len(text)
        self._comments: list[Comment] = []
        self._goes_on = False
        """Whether something that may end later was open where the text ended."""

    def piece(self) -> _Piece:
        text, length = self._text, self._length
        at = 1 if text.startswith("\ufeff") else 0
        blocks: list[Block] = []
        keys: tuple[Part, ...] = ()
        double = False
        start = header_end = end = at
        pairs: list[Pair] = []
        while at < length:
            plain = _PLAIN_PAIR.match(text, at)
            if plain is not None:
                pair = _plain(plain)
                pairs.append(pair)
                end = pair.end
                if plain[6] is not None:
                    self._comments.append(Comment(plain.start(6), plain.end(6)))
                at = plain.end()
                continue
            first = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # matches anything
            mark = text[first : first + 1]
            if mark in ("", "\n", "\r"):
                at = first + 1
            elif mark == "#":
                at = self._comment(first)
            elif mark == "[":
                blocks.append(Block(keys, tuple(pairs), start, header_end, end, double=double))
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
        blocks.append(Block(keys, tuple(pairs), start, header_end, end, double=double))
        # behind an array that nobody closed, a comment is met twice
        comments = {comment.start: comment for comment in self._comments}
        return _Piece(tuple(blocks), tuple(comments[one] for one in sorted(comments)), self._goes_on)

    def _comment(self, at: int) -> int:
        end = _REST.match(self._text, at).end()  # type: ignore[union-attr]  # matches anything
        self._comments.append(Comment(at, end))
        return end

    def _end_of_line(self, at: int) -> int:
        """Past what is left of a line: a comment, or what should not be there."""
        first = _BLANK.match(self._text, at).end()  # type: ignore[union-attr]  # matches anything
        if self._text.startswith("#", first):
            return self._comment(first)
        rest = _REST.match(self._text, first).end()  # type: ignore[union-attr]  # matches anything
        marked = self._text.find("#", first, rest)
        return self._comment(marked) if marked >= 0 else rest

    def _header(self, at: int) -> tuple[tuple[Part, ...], bool, int]:
        double = self._text.startswith("[[", at)
        keys, end = self._keys(_BLANK.match(self._text, at + 1 + double).end())  # type: ignore[union-attr]
        close = _BLANK.match(self._text, end).end()  # type: ignore[union-attr]  # matches anything
        for _ in range(1 + double):
            if self._text.startswith("]", close):
                close = end = close + 1
        return keys, double, end

    def _keys(self, at: int) -> tuple[tuple[Part, ...], int]:
        """A dotted key; the offset where it ends."""
        parts: list[Part] = []
        while True:
            found = _KEY_PART.match(self._text, at) or _LOOSE_PART.match(self._text, at)
            if found is None:
                return tuple(parts), at
            parts.append(Part(_unquoted(found[0]), found.start(), found.end()))
            dot = _DOT.match(self._text, found.end())
            if dot is None:
                return tuple(parts), found.end()
            at = dot.end()

    def _pair(self, at: int, depth: int) -> Pair:
        keys, end = self._keys(at)
        if not keys:
            # not even a key: what is there up to the next mark that means something
            stop = end
            while stop < self._length and self._text[stop] not in "=\r\n,}#":
                stop += 1
            end = max(stop, at)
        equals = _BLANK.match(self._text, end).end()  # type: ignore[union-attr]  # matches anything
        if not self._text.startswith("=", equals):
            return Pair(keys, None, None, at, end)
        first = _BLANK.match(self._text, equals + 1).end()  # type: ignore[union-attr]  # matches anything
        value = self._value(first, depth)
        return Pair(keys, equals, value, at, equals + 1 if value is None else value.end)

    def _value(self, at: int, depth: int) -> Value | None:
        text = self._text
        mark = text[at : at + 1]
        if mark in ("", "\r", "\n", "#", ",", "]", "}", "="):
            return None
        if mark in "\"'":
            return self._string(at, mark)
        if mark == "[":
            return self._array(at, depth)
        if mark == "{":
            return self._inline_table(at, depth)
        found = _BARE.match(text, at)
        end = found.end() if found is not None else at + 1
        written = text[at:end]
        if written in ("true", "false"):
            return Value(Kind.BOOLEAN, at, end, written)
        kind = Kind.NUMBER if _NUMBER.fullmatch(written) and not re.match(r"\d{4}-|\d\d:", written) else Kind.OTHER
        return Value(kind, at, end, written)

    def _string(self, at: int, mark: str) -> Value:
        text = self._text
        if text.startswith(mark * 3, at):
            end = at + 3
            while True:
                end = text.find(mark * 3, end)
                if end < 0:
                    self._goes_on = True
                    line = _REST.match(text, at).end()  # type: ignore[union-attr]  # matches anything
                    return Value(Kind.STRING, at, line, text[at:line], closed=False)
                escaped = len(text[at + 3 : end]) - len(text[at + 3 : end].rstrip("\\"))
                if mark == "'" or escaped % 2 == 0:
                    break
                end += 1
            end += 3
            while end < self._length and text[end] == mark and end < at + 3 + self._length:
                end += 1
            return Value(Kind.STRING, at, end, text[at:end])
        found = (_BASIC if mark == '"' else _LITERAL).match(text, at)
        assert found is not None  # noqa: S101  # the quote is there
        return Value(Kind.STRING, at, found.end(), found[0], closed=bool(found[1]))

    def _array(self, at: int, depth: int) -> Value:
        items: list[Value] = []
        end = at + 1
        while True:
            stop, anew = self._fill(end)
            if anew or stop >= self._length:
                return Value(Kind.ARRAY, at, end, self._text[at:end], tuple(items), closed=False)
            if self._text[stop] == "]":
                return Value(Kind.ARRAY, at, stop + 1, self._text[at : stop + 1], tuple(items))
            if self._text[stop] == "}" and depth:
                return Value(Kind.ARRAY, at, end, self._text[at:end], tuple(items), closed=False)
            item = self._value(stop, depth + 1) if depth < DEPTH_LIMIT else None
            if item is not None:
                items.append(item)
            end = stop + 1 if item is None else item.end

    def _inline_table(self, at: int, depth: int) -> Value:
        """TOML 1.0 wants it on one line; an editor reads it over several."""
        pairs: list[Pair] = []
        end = at + 1
        while True:
            stop, anew = self._fill(end)
            if anew or stop >= self._length or (self._text[stop] == "]" and depth):
                return Value(Kind.INLINE_TABLE, at, end, self._text[at:end], pairs=tuple(pairs), closed=False)
            if self._text[stop] == "}":
                return Value(Kind.INLINE_TABLE, at, stop + 1, self._text[at : stop + 1], pairs=tuple(pairs))
            if self._text[stop] == "," or depth >= DEPTH_LIMIT:
                end = stop + 1
                continue
            pair = self._pair(stop, depth + 1)
            if pair.keys or pair.equals is not None:
                pairs.append(pair)
            end = max(pair.end, stop + 1)

    def _fill(self, at: int) -> tuple[int, bool]:
        """Past blanks, line ends and comments; whether a line was begun that is no part of an array."""
        found = _FILL.match(self._text, at)
        assert found is not None  # noqa: S101  # matches anything
        stop = found.end()
        filled = found[0]
        if "\n" in filled:
            line = self._text.rfind("\n", at, stop) + 1
            if _LINE_BEGINS_ANEW.match(self._text, line) is not None:
                return at, True
        self._goes_on = self._goes_on or stop >= self._length
        if "#" in filled:
            self._comments += [Comment(at + one.start(), at + one.end()) for one in _FILL_COMMENT.finditer(filled)]
        return stop, False


def _plain(found: re.Match[str]) -> Pair:
    string, number = found[3], found[4]
    if string is not None:
        group, kind = 3, Kind.STRING
    else:
        group, kind = (4, Kind.NUMBER) if number is not None else (5, Kind.BOOLEAN)
    value = Value(kind, found.start(group), found.end(group), found[group])
    key = Part(found[1], found.start(1), found.end(1))
    return Pair((key,), found.start(2), value, key.start, value.end)


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
