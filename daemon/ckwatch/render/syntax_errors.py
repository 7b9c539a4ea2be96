"""Finds the mistake behind a syntax error of Jinja2, which says where the parser gave up.

What is open (a tag, a comment, a string, a bracket, a block) is reported where it is opened, with the place at which
that is noticed. Everything else stays where Jinja2 found it, in the words of templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment, TemplateSyntaxError
from jinja2.filters import FILTERS

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position
from ckwatch.render.lexer import LocatedLine, normalise
from ckwatch.render.values import did_you_mean, near


@dataclass(frozen=True, slots=True)
class SyntaxMistake:
    """A mistake at [`start`, `end`) of a template, with `related` (text, offset). `replacement` mends it."""

    message: str
    start: int
    end: int
    lines: LineIndex
    related: tuple[tuple[str, int], ...] = ()
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag whose text is [`start`, `end`); `word` and `at` are a statement's keyword and its offset."""

    start: int
    end: int
    word: str = ""
    at: int = 0


class _FoundError(Exception):
    def __init__(self, message: str, start: int, end: int, related: tuple[tuple[str, int], ...] = ()) -> None:
        super().__init__(message)
        self.found = (message, start, end, related)


BLOCKS = ("for", "if", "macro", "call", "filter", "block", "set", "with", "autoescape", "raw")
KEYWORDS = (
    *BLOCKS,
    *(f"end{name}" for name in BLOCKS),
    *("else", "elif", "include", "import", "from", "extends", "do", "break", "continue"),
)

_OPENING = re.compile(r"\{[{%#]")
_IN_TAG = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[-+]?%\}|-?\}\}|\{[{%#]|[\"'()\[\]{}]", re.DOTALL)
_KEYWORD = re.compile(r"\{%[-+]?\s*(\w+)")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*-?%\}")
_ENDRAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_SET_BLOCK = re.compile(r"\{%[-+]?\s*set\s+[\w.]+(?:\s*,\s*[\w.]+)*\s*(?:\|.*)?[-+]?%\}", re.DOTALL)
_UNKNOWN = re.compile(r"^No (filter|test) named '([^']*)'")
_UNKNOWN_TAG = re.compile(r"^Encountered unknown tag '(\w+)'")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def syntax_mistake(error: TemplateSyntaxError, environment: Environment) -> SyntaxMistake:
    """The mistake behind `error`."""
    text = normalise(error.source or "")
    lines = LineIndex(text)
    line = error.lineno
    column = line.column if isinstance(line, LocatedLine) else 0
    at = lines.offset(Position(line - 1, column))
    try:
        _check_blocks(text)
    except _FoundError as found:
        message, start, end, related = found.found
        return SyntaxMistake(message, start, end, lines, related, _keyword_fix(text, start, end))
    message, start, end, replacement = _reworded(error.message or "syntax error", text, at, environment)
    return SyntaxMistake(message, start, end, lines, (), replacement)


def _keyword_fix(text: str, start: int, end: int) -> str | None:
    written = text[start:end]
    return near(written, KEYWORDS) if written.isidentifier() and written not in KEYWORDS else None


def _tags(text: str) -> Iterator[_Tag]:
    """The statements in order. Raises _FoundError for what is not closed."""
    at = 0
    while opening := _OPENING.search(text, at):
        start = opening.start()
        if opening[0] == "{#":
            end = text.find("#}", start)
            if end < 0:
                raise _FoundError("this comment is not closed: `#}` is missing", start, start + 2)
            at = end + 2
            continue
        if raw := _RAW.match(text, start):
            end_of_raw = _ENDRAW.search(text, raw.end())
            if end_of_raw is None:
                raise _FoundError("this block is not closed: `{% endraw %}` is missing", start, raw.end())
            at = end_of_raw.end()
            continue
        at = _end_of_tag(text, start)
        if opening[0] == "{%" and (keyword := _KEYWORD.match(text, start)):
            yield _Tag(start, at, keyword[1], keyword.start(1))


def _end_of_tag(text: str, start: int) -> int:
    """Return the end of the tag at `start`. Raises _FoundError for a tag, string or bracket that is not closed."""
    closing = "}}" if text.startswith("{{", start) else "%}"
    unclosed = f"this tag is not closed: `{closing}` is missing"
    opened: list[int] = []
    at = start + 2
    while mark := _IN_TAG.search(text, at):
        found, at = mark[0], mark.end()
        if found[0] in "\"'":
            _check_string(text, mark)
        elif found in _CLOSERS:
            opened.append(mark.start())
        elif found in _CLOSERS.values():
            _close_bracket(text, mark, opened, start, closing)
        elif found.endswith(closing) and not opened:
            return at
        elif closing == "}}" and found.endswith(closing) and text[opened[-1]] == "{":
            opened.pop()
            at -= 1
        elif found.endswith(closing):
            sign = text[opened[-1]]
            message = f"`{sign}` is not closed: `{_CLOSERS[sign]}` is missing"
            raise _FoundError(message, opened[-1], opened[-1] + 1, (("noticed here", mark.start()),))
        elif found == "{{" and opened:
            opened += (mark.start(), mark.start() + 1)
        else:
            raise _FoundError(unclosed, start, start + 2, (("noticed here", mark.start()),))
    raise _FoundError(unclosed, start, start + 2)


def _check_string(text: str, mark: re.Match[str]) -> None:
    """Raises _FoundError for a string that is not closed, or that goes on past the end of its tag."""
    if len(mark[0]) == 1:
        raise _FoundError("this string is not closed", mark.start(), _end_of_line(text, mark.start()))
    if "\n" in mark[0] and re.search(r"[%}]\}", mark[0]):
        raise _FoundError("this string is not closed", mark.start(), text.find("\n", mark.start()))


def _close_bracket(text: str, mark: re.Match[str], opened: list[int], start: int, closing: str) -> None:
    """Take the bracket that is closed off those that are `opened`. Raises _FoundError for another one."""
    found, (begin, end) = mark[0], mark.span()
    if opened and _CLOSERS[text[opened[-1]]] == found:
        opened.pop()
        return
    if opened:
        sign = text[opened[-1]]
        message = f"`{sign}` is closed by `{_CLOSERS[sign]}`, not by `{found}`"
        raise _FoundError(message, begin, end, (("opened here", opened[-1]),))
    if found == "}" and closing == "}}":
        raise _FoundError("a single `}`: `}}` closes the tag", begin, end, (("opened here", start),))
    if found == "}" and (apart := _APART.search(text, start, end)) is not None:
        message = "nothing may stand between `%` and `}`: write `%}`"
        raise _FoundError(message, apart.start(), end, (("opened here", start),))
    raise _FoundError(f"`{found}` closes nothing", begin, end)


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _check_blocks(text: str) -> None:
    """Raises _FoundError for a block that is not closed, an end without one, and what stands outside of its block."""
    opened: list[_Tag] = []
    for tag in _tags(text):
        word = tag.word
        if word in ("else", "elif"):
            if not any(one.word in ("if", "for") for one in opened):
                raise _FoundError(f"`{word}` stands outside of an `if`", tag.at, tag.at + len(word))
        elif word.startswith("end"):
            _check_end(text, tag, opened)
            opened.pop()
        elif word in BLOCKS and not (word == "set" and not _SET_BLOCK.match(text, tag.start, tag.end)):
            opened.append(tag)
        elif word not in KEYWORDS:
            hint = did_you_mean(word, KEYWORDS)
            raise _FoundError(f"there is no tag `{word}`{hint}", tag.at, tag.at + len(word))
    if opened:
        last = opened[-1]
        end = len(text.rstrip())
        message = f"this `{last.word}` is not closed: `{{% end{last.word} %}}` is missing"
        raise _FoundError(message, last.start, last.end, (("the template ends here", max(end - 1, 0)),))


def _check_end(text: str, tag: _Tag, opened: list[_Tag]) -> None:
    word, span = tag.word, (tag.at, tag.at + len(tag.word))
    closes = word.removeprefix("end")
    if opened and closes == opened[-1].word:
        return
    last = opened[-1] if opened else None
    if closes not in BLOCKS:
        wanted = f"end{last.word}" if last else ""
        hint = f": write `{wanted}`" if wanted else did_you_mean(word, KEYWORDS)
        related = ((f"the `{last.word}` that is open", last.start),) if last else ()
        raise _FoundError(f"there is no tag `{word}`{hint}", *span, related)
    if not any(one.word == closes for one in opened):
        apart = re.search(rf"\{{[ \t]+%(?=[-+]?\s*{closes}\b)", text[: tag.start])
        if apart is not None:
            raise _FoundError("nothing may stand between `{` and `%`: write `{%`", *apart.span())
    if last is None:
        raise _FoundError(f"`{word}` closes nothing: no `{closes}` is open", *span)
    line = text.count("\n", 0, last.start) + 1
    if any(one.word == closes for one in opened):
        message = f"this `{last.word}` is not closed: `{{% end{last.word} %}}` is missing before `{word}`"
        raise _FoundError(message, last.start, last.end, ((f"`{word}` is here", tag.start),))
    message = f"`{word}` does not close the `{last.word}` of line {line}: write `end{last.word}`"
    raise _FoundError(message, *span, ((f"the `{last.word}` is opened here", last.start),))


_APART = re.compile(r"%\s+\}$")
_MISREAD = (
    # (what stands there, words, what to write)
    (re.compile(r"&&"), "`&&` is written `and` in templates", "and"),
    (re.compile(r"\|\|"), "`||` is written `or` in templates", "or"),
    (re.compile(r"!(?!=)"), "`!` is written `not` in templates", "not "),
    (re.compile(r"\?"), "unexpected char '?': a choice is written `a if condition else b`", None),
    (re.compile(r"=>"), "`=>` is written `>=` in templates", ">="),
    (re.compile(r"=<"), "`=<` is written `<=` in templates", "<="),
    (re.compile(r"=(?!=)"), "`=` compares nothing: write `==`", "=="),
    (re.compile(r"(?<=else )if\b"), "`else if` is written `elif` in templates", None),
)


def _reworded(message: str, text: str, at: int, environment: Environment) -> tuple[str, int, int, str | None]:
    """Message, start, end and fix for what Jinja2 says of the token at `at`."""
    if unknown := _UNKNOWN.search(message):
        known = FILTERS if unknown[1] == "filter" else environment.tests
        name = unknown[2]
        found = re.compile(rf"\b{re.escape(name)}\b").search(text, at)
        start = found.start() if found else at
        meant = near(name, known)
        hint = f" Did you mean '{meant}'?" if meant else ""
        return f"{message}{hint}", start, start + len(name), meant or None
    if _UNKNOWN_TAG.search(message):
        return message, at, at + _width(text, at), None
    if message.startswith("block '") and "defined twice" in message:
        name = message.split("'")[1]
        start = text.find(name, at)
        return message, start, start + len(name), None
    if message.startswith("expected token 'name', got '|'") and text[at - 1 : at] == "|":
        at -= 1
    if "'end of statement block'" in message and re.search(r"\{%[-+]?\s*set\s+[\w.]+\s*\Z", text[:at]):
        return "`=` is missing: {% set NAME = VALUE %}", at, at + _width(text, at), None
    for pattern, words, replacement in _MISREAD:
        if message.startswith(("unexpected char", "expected token", "unexpected '", "Expected an expr")) and (
            found := pattern.match(text, at)
        ):
            start = text.rindex("else", 0, at) if "elif" in words else at
            return words, start, found.end(), "elif" if "elif" in words else replacement
    if "'end of print statement'" in message or "'end of statement block'" in message:
        tokens = {"end of print statement": "`}}`", "end of statement block": "`%}`"}
        for jinja, sign in tokens.items():
            message = message.replace(f"'{jinja}'", sign)
    message = re.sub(r" at \d+$", "", message)
    return message, at, at + _width(text, at), None


def _width(text: str, at: int) -> int:
    match = re.compile(r"\w+|[{}%#]{2}|\S").match(text, at)
    return len(match[0]) if match else 1
