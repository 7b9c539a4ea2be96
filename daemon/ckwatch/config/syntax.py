"""TOML text that may be broken: its values, and every syntax error instead of the first one only.

`tomllib` stops at the first error. To find the others, a broken text is cut into sections at the lines that look like
table headers; in each, the statement in error is blanked and the section parsed again. Blanking keeps every other
character where it is, so that places found in the mended text hold in the text itself. A section whose header is
broken is dropped, since its keys would land in another table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ckwatch.model.text import Position
from ckwatch.sourcemap import LineIndex

ERRORS_PER_SECTION = 8
ERRORS_PER_FILE = 50
REPEATED_TABLES = 10
STATEMENT_LINES = 64
"""How far back the start of a broken statement is looked for."""

HEADER = re.compile(r"[ \t]*\[{1,2}[ \t]*[A-Za-z_][\w.\- \t]*\]{0,2}[ \t]*(#[^\n]*)?\r?\n?\Z")
STATEMENT = re.compile(r"[ \t]*([\w-]+|\"[^\"\n]*\"|'[^'\n]*')([ \t]*\.[ \t]*[\w\"'-]+)*[ \t]*=(?!=)")
AT_LINE = re.compile(r"^(?P<message>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)$", re.DOTALL)
AT_END = re.compile(r"^(?P<message>.*) \(at end of document\)$", re.DOTALL)
WORD = re.compile(r"[\w+-][\w.+:-]*")
REPEATS = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine")


@dataclass(frozen=True, slots=True)
class SyntaxMistake:
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


@dataclass(frozen=True, slots=True)
class Parsed:
    """`values` of `text`, which is the text that was given with each broken statement blanked."""

    values: dict[str, Any]
    text: str
    mistakes: tuple[SyntaxMistake, ...]


@dataclass(frozen=True, slots=True)
class _Failure:
    message: str
    position: Position


def parse(text: str) -> Parsed:
    """The values of a TOML text and all its syntax errors. Raises nothing on bad text."""
    outcome = _attempt(text)
    if isinstance(outcome, dict):
        return Parsed(outcome, text, ())
    mistakes: list[SyntaxMistake] = []
    sections: list[str] = []
    offset = 0
    for section in _sections(text):
        if len(mistakes) < ERRORS_PER_FILE:
            mended, found = _mend(section, offset)
            sections.append(mended)
            mistakes += found
        else:
            sections.append(blank(section))
        offset += len(section)
    values = _join(sections, mistakes)
    mistakes.sort(key=lambda mistake: mistake.start)
    return Parsed(values, "".join(sections), tuple(mistakes))


def blank(text: str) -> str:
    """`text` with a space for each character that is no line end."""
    return re.sub(r"[^\r\n]", " ", text)


def _attempt(text: str) -> dict[str, Any] | _Failure:
    try:
        return tomllib.loads(text)
    except RecursionError:
        return _Failure("arrays or tables are nested too deeply", _deepest(text))
    except ValueError as error:
        if found := AT_LINE.match(str(error)):
            return _Failure(found["message"], Position(int(found["line"]) - 1, int(found["column"]) - 1))
        end = LineIndex(text).position(len(text))
        if found := AT_END.match(str(error)):
            return _Failure(found["message"], end)
        number = re.search(r"[0-9_]{4000,}", text)
        return _Failure(
            "an integer with thousands of digits", LineIndex(text).position(number.start() if number else 0)
        )


def _deepest(text: str) -> Position:
    run = max(re.finditer(r"[\[{]{2,}", text), key=lambda found: found.end() - found.start(), default=None)
    return LineIndex(text).position(run.start() if run else 0)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _sections(text: str) -> Iterator[str]:
    start = at = 0
    for line in _lines(text):
        if HEADER.match(line) and at > start:
            yield text[start:at]
            start = at
        at += len(line)
    if at > start:
        yield text[start:at]


def _mend(section: str, base: int) -> tuple[str, list[SyntaxMistake]]:
    """The section without its broken statements, and what is wrong with them."""
    mistakes: list[SyntaxMistake] = []
    lines = _lines(section)
    begun = bool(lines) and HEADER.match(lines[0]) is not None
    headless = False
    for _ in range(ERRORS_PER_SECTION):
        text = "".join(lines)
        failure = _attempt(text)
        if isinstance(failure, dict):
            return (blank(section) if headless else text), mistakes
        at = min(failure.position.line, len(lines) - 1)
        first = _statement_start(lines, at)
        if first is None:
            mistakes.append(_describe(text, failure, at, base))
            break
        mistakes.append(_describe(text, failure, first, base))
        headless = headless or (begun and first == 0)
        for index in range(first, _statement_end(lines, first, at)):
            lines[index] = blank(lines[index])
    return blank(section), mistakes


def _statement_start(lines: list[str], at: int) -> int | None:
    """The line at which the statement that fails at line `at` begins: all before it parses."""
    for first in range(at, max(at - STATEMENT_LINES, -1), -1):
        if first == 0 or isinstance(_attempt("".join(lines[:first])), dict):
            return first
    return None


def _statement_end(lines: list[str], first: int, at: int) -> int:
    """One past the last line to blank."""
    line = lines[first]
    opened = sum(line.count(sign) for sign in "[{") - sum(line.count(sign) for sign in "]}")
    if first == at and opened <= 0 and '"""' not in line and "'''" not in line:
        return first + 1
    for index in range(max(at, first + 1), len(lines)):
        if STATEMENT.match(lines[index]):
            return index
    return len(lines)


def _describe(text: str, failure: _Failure, first: int, base: int) -> SyntaxMistake:
    """What to tell about a statement that begins at line `first` and fails at `failure.position`."""
    index = LineIndex(text)
    offset = index.offset(failure.position)
    start, line_end = index.starts[first], text.find("\n", index.starts[first])
    line = text[start : line_end if line_end >= 0 else len(text)].rstrip("\r")
    key = STATEMENT.match(line)
    if failure.message.startswith(REPEATS):
        name = line[: key.end() - 1].strip() if key else line.split("#")[0].strip()
        begin = start + len(line) - len(line.lstrip())
        return SyntaxMistake(f"`{name}` is given twice", base + begin, base + begin + len(name), repeated=True)
    if failure.position.line > first or failure.message == "Unclosed array":
        return _unclosed(line, key, failure.message, base + start, base + offset)
    offset = min(offset, start + len(line))
    word = WORD.match(text, offset, start + len(line))
    end = word.end() if word else min(offset + 1, start + len(line))
    wrong = text[offset:end]
    message, replacement = failure.message, None
    if message == "Invalid value":
        message, replacement = _invalid_value(wrong)
    elif message.startswith("Expected newline or end of document"):
        message = f"unexpected `{wrong}` after the value"
    elif message.startswith("Illegal character"):
        message = "the string is not closed on this line" if "\\n" in message or "\\r" in message else message
    else:
        message = message[:1].lower() + message[1:]
    return SyntaxMistake(message, base + offset, base + end, replacement=replacement)


def _unclosed(line: str, key: re.Match[str] | None, message: str, start: int, noticed: int) -> SyntaxMistake:
    """An array or string that goes on past its line: the place is where it is opened."""
    value = key.end() if key else 0
    while value < len(line) and line[value] in " \t":
        value += 1
    if message == "Unclosed array":
        message = "the array is not closed, or a comma is missing in it"
    elif message == 'Expected "\'"':
        message = "the string is not closed on this line"
    elif "'''" in message or '"""' in message or message.startswith("Unterminated"):
        message = "the string is not closed"
    else:
        message = message[:1].lower() + message[1:]
    end = len(line.rstrip())
    return SyntaxMistake(message, start + min(value, end), start + end, noticed)


def _invalid_value(wrong: str) -> tuple[str, str | None]:
    if wrong in ("True", "False"):
        return f"`{wrong}` is written `{wrong.lower()}` in TOML", wrong.lower()
    if WORD.fullmatch(wrong):
        return f"`{wrong}` is no TOML value; a string needs quotes", f'"{wrong}"'
    if not wrong.strip() or wrong == "#":
        return "the value is missing", None
    return f"`{wrong}` is no TOML value", None


def _join(sections: list[str], mistakes: list[SyntaxMistake]) -> dict[str, Any]:
    """The values of all sections together; tables declared twice are reported and dropped."""
    for _ in range(REPEATED_TABLES):
        text = "".join(sections)
        failure = _attempt(text)
        if isinstance(failure, dict):
            return failure
        index = LineIndex(text)
        offset = max(min(index.offset(failure.position), len(text) - 1), 0)
        which, base = 0, 0
        while which < len(sections) - 1 and base + len(sections[which]) <= offset:
            base += len(sections[which])
            which += 1
        section = sections[which]
        line = section.count("\n", 0, offset - base)
        mistakes.append(
            _describe(section, _Failure(failure.message, LineIndex(section).position(offset - base)), line, base)
        )
        lines = _lines(section)
        if line == 0 or line >= len(lines):
            sections[which] = blank(section)
        else:
            lines[line] = blank(lines[line])
            sections[which] = "".join(lines)
    sections[:] = [blank(section) for section in sections]
    return {}
