"""The mistake behind a syntax error in TOML: what people write who think in Python, JSON or C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ckwatch.model.lazy_dataclass import dataclass

_STATEMENT = re.compile(r"[ \t]*([\w-]+|\"[^\"\n]*\"|'[^'\n]*')([ \t]*\.[ \t]*[\w\"'-]+)*[ \t]*=(?!=)")
_WORD = re.compile(r"[\w+-][\w.+:-]*")
_REPEATS = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine")
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


class Failure(NamedTuple):
    """Why `tomllib` gave up, and at which offset."""

    message: str
    offset: int


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """One error, [`start`, `end`) in code points; `noticed` is where the parser gave up, if that is elsewhere.

    `replacement` is what to write at the place instead, where that is known. `repeated` marks a key or table that
    stands twice.
    """

    message: str
    start: int
    end: int
    noticed: int | None = None
    replacement: str | None = None
    repeated: bool = False

    def moved(self, shift: int) -> SyntaxProblem:
        """The problem in a text in which the statement begins at `shift`."""
        noticed = None if self.noticed is None else self.noticed + shift
        return replace(self, start=self.start + shift, end=self.end + shift, noticed=noticed)


def problem_of_statement(text: str, failure: Failure) -> SyntaxProblem:
    """The problem of a statement, which is whole lines: a header, or a key with its value."""
    message, offset = failure
    line = text.partition("\n")[0].rstrip("\r")
    if message.startswith(_REPEATS):
        key = _STATEMENT.match(line)
        name = line[: key.end() - 1].strip() if key else line.split("#")[0].strip()
        begin = len(line) - len(line.lstrip())
        return SyntaxProblem(f"`{name}` is given twice", begin, begin + len(name), repeated=True)
    escape = text[max(0, offset - 2) : offset]
    if message.startswith("Unescaped") and escape[:1] == "\\":
        words = f"`{escape}` is not an escape sequence; a backslash is written `\\\\`"
        return SyntaxProblem(words, offset - 2, offset, replacement=f"\\{escape}")
    noticed = offset if "\n" in text[:offset] else None
    if not message.startswith("arrays or tables") and (mistake := mistake_in(text)) is not None:
        return replace(mistake, noticed=noticed)
    if noticed is not None or message == "Unclosed array":
        return _unclosed(line, message, offset)
    offset = min(offset, len(line))
    word = _WORD.match(line, offset)
    end = word.end() if word else min(offset + 1, len(line))
    words, replacement = _in_words(message, line[offset:end])
    return SyntaxProblem(words, offset, end, replacement=replacement)


def _unclosed(line: str, message: str, noticed: int) -> SyntaxProblem:
    """An array or string that goes on past its line: the place is where it is opened."""
    key = _STATEMENT.match(line)
    value = key.end() if key else 0
    value += len(line[value:]) - len(line[value:].lstrip(" \t"))
    if message == "Unclosed array":
        message = "the array is not closed, or a comma is missing in it"
    elif message == 'Expected "\'"':
        message = "the string is not closed on this line"
    elif line.startswith(("'''", '"""'), value) or "'''" in message or '"""' in message:
        message = "the string is not closed"
    else:
        message = message[:1].lower() + message[1:]
    end = len(line.rstrip())
    return SyntaxProblem(message, min(value, end), end, noticed)


def _in_words(message: str, wrong: str) -> tuple[str, str | None]:
    """Return tomllib's complaint about the text `wrong`, and the fix."""
    if message == "Invalid value":
        if wrong in ("True", "False"):
            return f"`{wrong}` is written `{wrong.lower()}` in TOML", wrong.lower()
        if _WORD.fullmatch(wrong):
            return f"`{wrong}` is not a TOML value; a string needs quotes", f'"{wrong}"'
        if not wrong.strip() or wrong == "#":
            return "the value is missing", None
        return f"`{wrong}` is not a TOML value", None
    if message.startswith("Expected newline or end of document"):
        return f"unexpected `{wrong}` after the value", None
    if message.startswith("Illegal character"):
        return "the string is not closed on this line" if "\\n" in message or "\\r" in message else message, None
    return message[:1].lower() + message[1:], None


def mistake_in(statement: str) -> SyntaxProblem | None:
    """The first mistake that is known in the text of a statement, a key with its value or the header of a table."""
    at = len(statement) - len(statement.lstrip(" \t"))
    if statement.startswith(("//", "/*", "--", ";"), at):
        width = 1 if statement[at] == ";" else 2
        return _comment(at, at + width)
    if statement.startswith("=", at):
        return SyntaxProblem("the key is missing in front of `=`", at, at + 1)
    if statement.startswith("[", at):
        return None
    if key := re.compile(r"([\w-]+|\"[^\"\n]*\")([ \t]*)(:)(?=[ \t])").match(statement, at):
        return _colon(key.start(3), key.end(3))
    begin = _begin_of_value(statement, at)
    return None if begin is None else _Value(statement).mistake(begin)


def _begin_of_value(text: str, at: int) -> int | None:
    """The end of the first `=` that is in no string; None for a line without one."""
    for token in _TOKEN.finditer(text, at):
        if token["open"] or token["newline"]:
            return None
        if token[0] == "=":
            return token.end()
    return None


class _Value:
    """A value that is read token by token, until one is a mistake."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._opened: list[tuple[str, int]] = []
        """Brackets that are open, and where."""
        self._ended = ""
        """The element that a comma must follow: a `value`, or in an inline table a `key`."""
        self._last_comma = -1
        self._at = 0

    def mistake(self, begin: int) -> SyntaxProblem | None:
        """The first mistake in the value that begins at `begin`."""
        self._at = begin
        while token := _TOKEN.search(self._text, self._at):
            self._at = token.end()
            kind = token.lastgroup or ""
            if kind == "newline" and (not self._opened or _BEGINS_ANEW.match(self._text, self._at)):
                break
            read = _ON_TOKEN.get(token[0] if kind == "sign" else kind)
            if read is not None and (found := read(self, token)) is not None:
                return found
            if token[0] == "=" and self._inside == "[":
                return None
        if not self._opened:
            return None
        sign, start = self._opened[-1]
        what = "array" if sign == "[" else "inline table"
        return self._rest_of_line(f"the {what} is not closed: `{_CLOSERS[sign]}` is missing", start)

    @property
    def _inside(self) -> str:
        """The innermost open bracket."""
        return self._opened[-1][0] if self._opened else ""

    def _long(self, token: re.Match[str]) -> SyntaxProblem | None:
        end = self._text.find(token[0], self._at)
        if end < 0:
            return self._rest_of_line("the string is not closed", token.start())
        self._at = end + 3
        return self._word(token)

    def _open_string(self, token: re.Match[str]) -> SyntaxProblem:
        return self._rest_of_line("the string is not closed on this line", token.start())

    def _open(self, token: re.Match[str]) -> SyntaxProblem | None:
        if self._ended:
            return self._no_comma(token)
        self._opened.append((token[0], token.start()))
        return None

    def _parenthesis(self, token: re.Match[str]) -> SyntaxProblem | None:
        if self._ended:
            return None
        close, message = self._text.find(")", self._at, self._end_of_line(token.start())), "an array is written [1, 2]"
        if close < 0:
            return SyntaxProblem(message, *token.span())
        return SyntaxProblem(message, token.start(), close + 1, replacement=f"[{self._text[self._at : close]}]")

    def _close(self, token: re.Match[str]) -> SyntaxProblem | None:
        if _CLOSERS.get(self._inside) != token[0]:
            return SyntaxProblem(f"`{token[0]}` closes nothing", *token.span())
        if token[0] == "}" and self._last_comma >= 0 and not self._ended:
            message, at = "no comma follows the last key of an inline table", self._last_comma
            return SyntaxProblem(message, at, at + 1, replacement="")
        self._opened.pop()
        self._ended = "value"
        return None

    def _comma(self, token: re.Match[str]) -> SyntaxProblem | None:
        if not self._opened:
            return SyntaxProblem("no comma follows a value here", *token.span(), replacement="")
        self._ended, self._last_comma = "", token.start()
        return None

    def _colon(self, token: re.Match[str]) -> SyntaxProblem | None:
        return _colon(*token.span()) if self._inside == "{" and self._ended == "key" else None

    def _equals(self, _: re.Match[str]) -> None:
        self._ended = "" if self._inside != "[" else self._ended

    def _word(self, token: re.Match[str]) -> SyntaxProblem | None:
        """A string or a word: a key of an inline table, or a value."""
        if self._inside == "{" and self._ended != "key" and self._is_key(token.start()):
            if self._ended:
                return self._no_comma(token)
            self._ended = "key"
            return None
        if self._ended:
            return self._no_comma(token)
        self._ended = "value"
        return _wrong_word(token) if token.lastgroup == "word" else None

    def _is_key(self, start: int) -> bool:
        """Return True if the text at `start` of an inline table is a key rather than a value."""
        before = self._text[max(self._last_comma, self._opened[-1][1]) + 1 : start]
        return "=" not in before or re.compile(r"[\w\"-]+[ \t]*[=:]").match(self._text, start) is not None

    def _no_comma(self, token: re.Match[str]) -> SyntaxProblem | None:
        if not self._opened:
            self._at = len(self._text)  # what follows a value on its line is no mistake that is known
            return None
        message = f"a comma is missing before `{token[0]}`"
        return SyntaxProblem(message, *token.span(), replacement=f", {token[0]}")

    def _rest_of_line(self, message: str, start: int) -> SyntaxProblem:
        return SyntaxProblem(message, start, start + len(self._text[start : self._end_of_line(start)].rstrip()))

    def _end_of_line(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end


def _comment(start: int, end: int) -> SyntaxProblem:
    return SyntaxProblem("a comment begins with `#` in TOML", start, end, replacement="#")


def _colon(start: int, end: int) -> SyntaxProblem:
    return SyntaxProblem("`=` stands between a key and its value, not `:`", start, end, replacement=" =")


def _wrong_word(token: re.Match[str]) -> SyntaxProblem | None:
    written = token[0]
    if written in _NONE:
        return SyntaxProblem(f"TOML has no `{written}`: leave the key out", *token.span())
    if re.fullmatch(r"[+-]?0\d+", written):
        return SyntaxProblem("a number does not begin with 0", *token.span(), replacement=str(int(written)))
    if re.fullmatch(r"0[xob]", written):
        return SyntaxProblem(f"digits are missing after `{written}`", *token.span())
    return None


_ON_TOKEN: Mapping[str, Callable[[_Value, re.Match[str]], SyntaxProblem | None]] = {
    "long": _Value._long,
    "open": _Value._open_string,
    "string": _Value._word,
    "word": _Value._word,
    "curly": lambda _, found: SyntaxProblem(
        f'`{found[0]}` is not a quotation mark of TOML: write "', *found.span(), replacement='"'
    ),
    "slashes": lambda _, found: _comment(*found.span()),
    "[": _Value._open,
    "{": _Value._open,
    "(": _Value._parenthesis,
    "]": _Value._close,
    "}": _Value._close,
    ",": _Value._comma,
    ":": _Value._colon,
    ";": lambda _, found: SyntaxProblem(
        "nothing follows a value on its line: leave `;` out", *found.span(), replacement=""
    ),
    "=": _Value._equals,
}
"""Effects of tokens, by sign or else by kind."""
