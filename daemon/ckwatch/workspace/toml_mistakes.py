"""The mistake behind a syntax error in TOML: what people write who think in Python, JSON or C++."""

from __future__ import annotations

import re
from typing import NamedTuple


class Mistake(NamedTuple):
    """A mistake at [`start`, `end`) of a statement; `replacement` is what to write there, if that is known."""

    message: str
    start: int
    end: int
    replacement: str | None = None


_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)|(?P<long>\"\"\"|''')|(?P<string>\"(?:\\[^\n]|[^\"\\\n]++)*+\"|'[^'\n]*')"
    r"|(?P<open>[\"'])|(?P<sign>[\[\]{}(),=:;])|(?P<slashes>//|/\*)|(?P<curly>[“”‘’„«»])"
    r"|(?P<word>[^\s\"'\[\]{}(),=:;#“”‘’„«»]+)|(?P<newline>\r?\n)"
)
_BEGINS_ANEW = re.compile(
    r"[ \t]*(?:[\w-]+[ \t]*=(?!=)|\[{1,2}[ \t]*[A-Za-z_][\w.-]*[ \t]*\]{1,2}[ \t]*(?:#.*)?\r?$)", re.MULTILINE
)
_CLOSERS = {"[": "]", "{": "}"}
_NONE = ("None", "null", "nil", "nullptr", "undefined", "NULL")
_ENDS_VALUE = ("string", "word")


def mistake_in(statement: str) -> Mistake | None:
    """The first mistake that is known in the text of a statement, a key with its value or the header of a table."""
    first = re.match(r"[ \t]*", statement)
    at = first.end() if first else 0
    if statement.startswith(("//", "/*", "--", ";"), at):
        width = 1 if statement[at] == ";" else 2
        return Mistake("a comment begins with `#` in TOML", at, at + width, "#")
    if statement.startswith("=", at):
        return Mistake("the key is missing in front of `=`", at, at + 1)
    if statement.startswith("[", at):
        return None
    if key := re.compile(r"([\w-]+|\"[^\"\n]*\")([ \t]*)(:)(?=[ \t])").match(statement, at):
        return Mistake("`=` stands between a key and its value, not `:`", key.start(3), key.end(3), " =")
    return _in_value(statement, at)


def _in_value(text: str, at: int) -> Mistake | None:
    opened: list[tuple[str, int]] = []
    begun = False  # behind the key's `=`
    ended = ""  # the kind of what a value ended with, where a comma must follow
    last_comma = -1
    while found := _TOKEN.search(text, at):
        kind, written, start, at = found.lastgroup or "", found[0], found.start(), found.end()
        if kind in ("comment", "newline"):
            if kind == "newline" and not opened:
                return None
            if kind == "newline" and _BEGINS_ANEW.match(text, at):
                break
            continue
        if not begun:
            begun = written == "="
            if kind == "open":
                return None
            continue
        if kind == "long":
            end = text.find(written, at)
            if end < 0:
                return Mistake("the string is not closed", start, _line_end(text, start))
            at, kind = end + 3, "string"
        if kind == "open":
            return Mistake("the string is not closed on this line", start, _line_end(text, start))
        if kind == "curly":
            return Mistake(f'`{written}` is not a quotation mark of TOML: write "', start, at, '"')
        if kind == "slashes":
            return Mistake("a comment begins with `#` in TOML", start, at, "#")
        inside = opened[-1][0] if opened else ""
        if written in ("[", "{"):
            if ended:
                return _no_comma(written, start, opened)
            opened.append((written, start))
            ended = ""
            continue
        if written == "(" and not ended:
            close = text.find(")", at)
            line = _line_end(text, start)
            if 0 <= close < line:
                return Mistake("an array is written [1, 2]", start, close + 1, f"[{text[at:close]}]")
            return Mistake("an array is written [1, 2]", start, at)
        if written in ("]", "}"):
            if opened and _CLOSERS[inside] == written:
                if written == "}" and last_comma >= 0 and not ended:
                    return Mistake("no comma follows the last key of an inline table", last_comma, last_comma + 1, "")
                opened.pop()
                ended = "value"
                continue
            return Mistake(f"`{written}` closes nothing", start, at)
        if written == ",":
            if not opened:
                return Mistake("no comma follows a value here", start, at, "")
            ended, last_comma = "", start
            continue
        if written == ":" and inside == "{" and ended == "key":
            return Mistake("`=` stands between a key and its value, not `:`", start, at, " =")
        if written == ";":
            return Mistake("nothing follows a value on its line: leave `;` out", start, at, "")
        if written == "=":
            if inside == "[":
                return None
            ended = ""
            continue
        if kind in _ENDS_VALUE:
            if inside == "{" and ended in ("", "value") and _is_key(text, start, last_comma, opened):
                if ended == "value":
                    return _no_comma(written, start, opened)
                ended = "key"
                continue
            if ended:
                return _no_comma(written, start, opened) if opened else None
            if mistake := _wrong_word(written, start, kind):
                return mistake
            ended = "value"
    if opened:
        sign, start = opened[-1]
        what = "array" if sign == "[" else "inline table"
        message = f"the {what} is not closed: `{_CLOSERS[sign]}` is missing"
        return Mistake(message, start, _line_end(text, start))
    return None


def _is_key(text: str, start: int, last_comma: int, opened: list[tuple[str, int]]) -> bool:
    """Return True if the text at `start` of an inline table is a key rather than a value."""
    since = max(last_comma, opened[-1][1]) + 1
    before = text[since:start]
    return "=" not in before or re.match(r"[\w\"-]+[ \t]*[=:]", text[start:]) is not None


def _no_comma(written: str, start: int, opened: list[tuple[str, int]]) -> Mistake | None:
    if not opened:
        return None
    return Mistake(f"a comma is missing before `{written}`", start, start + len(written), f", {written}")


def _wrong_word(written: str, start: int, kind: str) -> Mistake | None:
    end = start + len(written)
    if kind != "word":
        return None
    if written in _NONE:
        return Mistake(f"TOML has no `{written}`: leave the key out", start, end)
    if re.fullmatch(r"[+-]?0\d+", written):
        number = str(int(written))
        return Mistake("a number does not begin with 0", start, end, number)
    if re.fullmatch(r"0[xob]", written):
        return Mistake(f"digits are missing after `{written}`", start, end)
    return None


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return at + len(text[at:end].rstrip())
