"""Finds the tags of a template: where each `{{ … }}`, `{% … %}`, `{# … #}` and raw block begins and ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

TagKind = Literal["variable", "statement", "comment", "raw"]

TokenKind = Literal["begin", "end", "name", "string", "integer", "float", "operator", "comment", "raw", "error"]

TAG_LIMIT = 65_536
"""Characters of the longest tag; one that does not end before that has no end."""

TAG_COUNT_LIMIT = 50_000
"""Tags of one text; what comes after them is taken for text."""

CLOSERS = {"(": ")", "[": "]", "{": "}"}


class TagToken(NamedTuple):
    """A token at [start, end) of its tag."""

    kind: TokenKind
    start: int
    end: int


class TagExtent(NamedTuple):
    """A tag at [start, end) of the text. `closed`: its end is written."""

    kind: TagKind
    start: int
    end: int
    closed: bool


_OPENER = re.compile(r"\{[{%#]")
_RAW_BEGIN = re.compile(r"\{%[-+]?\s*raw\s*-?%\}")
_RAW_END = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")

_STRING = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
_STRING_IN_LINE = r"""'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*\""""
_PLAIN = r"[^{}\"'%#;\\$@?&^`]"
_WHOLE = {
    "{{": re.compile(rf"\{{\{{(?:{_PLAIN}+|%(?!\}})|{_STRING_IN_LINE})*+\}}\}}"),
    "{%": re.compile(rf"\{{%(?:{_PLAIN}+|%(?!\}})|{_STRING_IN_LINE})*+%\}}"),
}
"""Nearly every tag: no braces in it, and nothing that is no Jinja."""

_NUMBERS = r"""
  | (?P<float>(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+))
  | (?P<integer>0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*)
  | (?P<name>\w+)
"""
_OPERATORS = r"\*\*|//|==|!=|<=|>=|[-+*/%~()\[\]{}<>=.:|,;]"


def _tokens_pattern(string: str, ends: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<space>\s+)|(?P<end>{ends}){_NUMBERS}|(?P<string>{string})|(?P<operator>{_OPERATORS})|(?P<error>.)",
        re.VERBOSE | re.DOTALL,
    )


_ENDS: dict[TagKind, str] = {"variable": r"-?\}\}", "statement": r"[-+]?%\}"}
_EXACT = {kind: _tokens_pattern(_STRING, ends) for kind, ends in _ENDS.items()}
_TOLERANT = {kind: _tokens_pattern(_STRING_IN_LINE, ends) for kind, ends in _ENDS.items()}
_END = {kind: re.compile(ends) for kind, ends in _ENDS.items()}


def extents(text: str) -> Iterator[TagExtent]:
    """The tags of `text`, in order; a raw block is one."""
    at = 0
    last_comment_end = text.rfind("#}")
    for _ in range(TAG_COUNT_LIMIT):
        match = _OPENER.search(text, at)
        if match is None:
            return
        start, opener = match.start(), match.group()
        if opener == "{#":
            end = text.find("#}", start + 2) + 2 if start + 2 <= last_comment_end else 0
            extent = TagExtent("comment", start, end or _line_end(text, start), end > 0)
        else:
            extent = _tag(text, start, opener)
        yield extent
        at = extent.end


def _tag(text: str, start: int, opener: str) -> TagExtent:
    kind: TagKind = "variable" if opener == "{{" else "statement"
    if kind == "statement" and (begin := _RAW_BEGIN.match(text, start)) is not None:
        raw_end = _RAW_END.search(text, begin.end())
        return TagExtent("raw", start, raw_end.end() if raw_end else len(text), raw_end is not None)
    whole = _WHOLE[opener].match(text, start, start + TAG_LIMIT)
    if whole is not None:
        return TagExtent(kind, start, whole.end(), True)
    exact = _exact_end(text, start, kind)
    if exact is not None:
        return TagExtent(kind, start, exact, True)
    end_of_tag, closed = _tolerant_end(text, start, kind)
    return TagExtent(kind, start, end_of_tag, closed)


def _exact_end(text: str, start: int, kind: TagKind) -> int | None:
    """Return the end of the tag by Jinja2; None if it finds a mistake first."""
    pattern = _EXACT[kind]
    brackets: list[str] = []
    at, limit = start + 2, min(len(text), start + TAG_LIMIT)
    while at < limit:
        match = pattern.match(text, at, limit)
        if match is None:
            return None
        found = match.lastgroup
        if found == "end":
            if not brackets:
                return match.end()
            operator = text[at]
            match_end = at + 1
        elif found == "operator":
            operator = match.group()
            match_end = match.end()
        elif found == "error":
            return None
        else:
            at = match.end()
            continue
        if operator in CLOSERS:
            if text.startswith(("{{", "{%"), at):
                return None
            brackets.append(CLOSERS[operator])
        elif operator in (")", "]", "}") and (not brackets or brackets.pop() != operator):
            return None
        at = match_end
    return None


def _tolerant_end(text: str, start: int, kind: TagKind) -> tuple[int, bool]:
    """Return the end of a tag with a mistake, and True if that is written."""
    pattern = _TOLERANT[kind]
    braces = depth = 0
    at, limit = start + 2, min(len(text), start + TAG_LIMIT)
    cut: int | None = None
    while at < limit:
        match = pattern.match(text, at, limit)
        if match is None:
            break
        found, piece = match.lastgroup, match.group()
        if found == "end" and braces == 0:
            return match.end(), True
        if found == "space" and "\n" in piece and depth == 0 and cut is None:
            cut = at + piece.index("\n")
        if found == "error" or piece == ";":
            # the rest of its line may still end the tag; lines behind it are no part of it
            line_end = min(limit, _line_end(text, at))
            opener = _OPENER.search(text, match.end(), line_end)
            line_end = opener.start() if opener is not None else line_end
            end = _END[kind].search(text, match.end(), line_end)
            if end is not None and cut is None:
                return end.end(), True
            limit = line_end if at <= line_end else limit
            break
        if found == "operator":
            if _OPENER.match(text, at):
                limit = at
                break
            braces += (piece == "{") - (piece == "}")
            depth += (piece in CLOSERS) - (piece in (")", "]", "}"))
            braces, depth = max(braces, 0), max(depth, 0)
        at = at + 1 if found == "end" else match.end()
    if cut is None:
        first_line = _line_end(text, start)
        cut = min(limit, first_line if at <= first_line else max(first_line, text.rfind("\n", start, at) + 1))
    return max(start + 2, min(start + len(text[start:cut].rstrip("\r\n")), limit)), False


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at, at + TAG_LIMIT)
    return min(len(text), at + TAG_LIMIT) if end < 0 else end


def tokens_of(source: str, kind: TagKind, closed: bool) -> tuple[TagToken, ...]:
    """The tokens of the tag `source`, as far as they are clear."""
    if kind == "comment" or kind == "raw":
        return (TagToken(kind, 0, len(source)),)
    begin = 3 if source[2:3] in ("-", "+") and len(source) > 3 else 2
    end = len(source)
    if closed:
        end -= 2
        sign = source[end - 1 : end]
        if end - 1 >= begin and (sign == "-" or (sign == "+" and kind == "statement")):
            end -= 1
    begin = min(begin, end)
    tokens = [TagToken("begin", 0, begin)]
    pattern = _EXACT[kind]
    at = begin
    while at < end:
        match = pattern.match(source, at, end)
        if match is None:
            break
        found = match.lastgroup
        if found == "end":
            tokens.append(TagToken("operator", at, at + 1))
            at += 1
            continue
        if found == "error" and source[at] in "\"'":
            # a string without an end
            line_end = min(_line_end(source, at), end)
            tokens.append(TagToken("string", at, line_end))
            at = line_end
            continue
        if found != "space":
            tokens.append(TagToken(found, at, match.end()))  # type: ignore[arg-type]  # the groups are the kinds
        at = match.end()
    if closed:
        tokens.append(TagToken("end", end, len(source)))
    return tuple(tokens)
