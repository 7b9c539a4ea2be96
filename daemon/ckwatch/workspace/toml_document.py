"""Reads a TOML file into values and positions: every key and value has an exact span, and every error is reported.

Values come from `tomllib`, positions from `ckwatch.workspace.toml`, both of the same text.

`tomllib` stops at the first error. To find the others, a broken text is cut into sections at the lines that look like
table headers; in each, the statement in error is blanked and the section parsed again. Blanking keeps every other
character where it is, so that places found in the repaired text hold in the text itself. A section whose header is
broken is dropped, since its keys would land in another table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.workspace.toml import (
    KEY_PARTS_LIMIT,
    KEYS_LIMIT,
    MARKS_LIMIT,
    KeyPart,
    TomlPair,
    TomlTable,
    TomlValue,
    long_keys,
    parse_toml,
    readable_end,
    surplus_keys,
)
from ckwatch.workspace.toml_mistakes import mistake_in

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


@dataclass(frozen=True, slots=True)
class ParsedValues:
    """`values` of `text`, which is the text that was given with each broken statement blanked, as far as it is read."""

    values: dict[str, Any]
    text: str
    problems: tuple[SyntaxProblem, ...]


@dataclass(frozen=True, slots=True)
class _Failure:
    message: str
    position: Position


def parse_values(text: str, arrays: frozenset[str] = frozenset()) -> ParsedValues:
    """The values of a TOML text and all its syntax errors; `arrays` are names of tables that stand in double brackets.

    Raises nothing on bad text.
    """
    problems: list[SyntaxProblem] = []
    end = readable_end(text)
    if end < len(text):
        message = f"the file has too many lines, keys and values; what follows the first {MARKS_LIMIT:,} is not read"
        shown = text[end : end + 80].partition("\n")[0]
        problems.append(SyntaxProblem(message, end, end + len(shown)))
        text = text[:end] + blank(shown)
    for around, parts in long_keys(text):
        message = f"the key has {len(parts)} parts; at most {KEY_PARTS_LIMIT} are allowed"
        problems.append(SyntaxProblem(message, parts[0].start, parts[-1].end))
        text = _without(text, around.start, around.end)
    for pair, end in surplus_keys(text):
        message = f"the table has too many keys; at most {KEYS_LIMIT:,} are allowed"
        problems.append(SyntaxProblem(message, pair.start, pair.key_end))
        text = _without(text, pair.start, end)
    outcome = _attempt(text)
    if isinstance(outcome, dict):
        return ParsedValues(outcome, text, tuple(problems))
    if json := re.match(r"\s*\{", text):
        problem = SyntaxProblem("this is JSON, and not TOML: write `key = value` lines", json.end() - 1, json.end())
        return ParsedValues({}, blank(text), (problem,))
    for start, end, name in _single_brackets(text, arrays):
        # the keys below cannot be given to the table that is meant
        problems.append(SyntaxProblem(f"write [[{name}]]: there may be several", start, end, replacement=f"[[{name}]]"))
        following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, end)
        stop = following.start() if following else len(text)
        text = _without(text, start, stop)
    sections: list[str] = []
    offset = 0
    for section in _sections(text):
        if len(problems) < ERRORS_PER_FILE:
            fixed, found = _fix(section, offset)
            sections.append(fixed)
            problems += found
        else:
            sections.append(blank(section))
        offset += len(section)
    values = _join(sections, problems)
    problems.sort(key=lambda problem: problem.start)
    return ParsedValues(values, "".join(sections), tuple(problems))


def _single_brackets(text: str, arrays: frozenset[str]) -> list[tuple[int, int, str]]:
    """(start, end, name) of headers in single brackets whose tables stand in double brackets."""
    header = re.compile(r"^[ \t]*(\[[ \t]*([\w-]+)[ \t]*\])[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
    return [(one.start(1), one.end(1), one[2]) for one in header.finditer(text) if one[2] in arrays]


def blank(text: str) -> str:
    """`text` with a space for each character that is not a line end."""
    return re.sub(r"[^\r\n]+", lambda found: " " * len(found[0]), text)


def _without(text: str, start: int, end: int) -> str:
    return text[:start] + blank(text[start:end]) + text[end:]


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


def _fix(section: str, base: int) -> tuple[str, list[SyntaxProblem]]:
    """The section without its broken statements, and what is wrong with them."""
    problems: list[SyntaxProblem] = []
    lines = _lines(section)
    begun = bool(lines) and HEADER.match(lines[0]) is not None
    headless = False
    for _ in range(ERRORS_PER_SECTION):
        text = "".join(lines)
        failure = _attempt(text)
        if isinstance(failure, dict):
            return (blank(section) if headless else text), problems
        at = min(failure.position.line, len(lines) - 1)
        first = _statement_start(lines, at)
        if first is None:
            problems.append(_describe(text, failure, at, base))
            break
        problems.append(_describe(text, failure, first, base))
        headless = headless or (begun and first == 0)
        for index in range(first, _statement_end(lines, first, at)):
            lines[index] = blank(lines[index])
    return blank(section), problems


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


def _describe(text: str, failure: _Failure, first: int, base: int) -> SyntaxProblem:
    """The problem of a statement that begins at line `first` and fails at `failure.position`."""
    index = LineIndex(text)
    offset = index.offset(failure.position)
    start, line_end = index.starts[first], text.find("\n", index.starts[first])
    line = text[start : line_end if line_end >= 0 else len(text)].rstrip("\r")
    key = STATEMENT.match(line)
    if failure.message.startswith(REPEATS):
        name = line[: key.end() - 1].strip() if key else line.split("#")[0].strip()
        begin = start + len(line) - len(line.lstrip())
        return SyntaxProblem(f"`{name}` is given twice", base + begin, base + begin + len(name), repeated=True)
    too_deep = failure.message.startswith("arrays or tables")
    mistake = None if too_deep else mistake_in(text[start:])
    if mistake is None and (failure.position.line > first or failure.message == "Unclosed array"):
        return _unclosed(line, key, failure.message, base + start, base + offset)
    if mistake is not None:
        begin, end = base + start + mistake.start, base + start + mistake.end
        noticed = base + offset if failure.position.line > first else None
        return SyntaxProblem(mistake.message, begin, end, noticed, replacement=mistake.replacement)
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
    return SyntaxProblem(message, base + offset, base + end, replacement=replacement)


def _unclosed(line: str, key: re.Match[str] | None, message: str, start: int, noticed: int) -> SyntaxProblem:
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
    return SyntaxProblem(message, start + min(value, end), start + end, noticed)


def _invalid_value(wrong: str) -> tuple[str, str | None]:
    if wrong in ("True", "False"):
        return f"`{wrong}` is written `{wrong.lower()}` in TOML", wrong.lower()
    if WORD.fullmatch(wrong):
        return f"`{wrong}` is not a TOML value; a string needs quotes", f'"{wrong}"'
    if not wrong.strip() or wrong == "#":
        return "the value is missing", None
    return f"`{wrong}` is not a TOML value", None


def _join(sections: list[str], problems: list[SyntaxProblem]) -> dict[str, Any]:
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
        problems.append(
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


ARRAYS = frozenset(("instance", "shape", "sweep"))
"""Tables of a kernel file that stand in double brackets."""

KeyPath = tuple[str | int, ...]
"""Keys of tables and indices of arrays, from the top: `("instance", 2, "MPerBlock")`."""

_DOCUMENTS_KEPT = 64
_LARGE_CHARACTERS = 500_000
"""A document takes up to a hundred times its text."""


class _Place:
    """Offsets of a key and its value; a table's value is its header. `span` is the value's, kept once it was asked for.

    `array`: an array of tables, whose headers stand one below the other.
    """

    __slots__ = ("array", "children", "end", "key", "span", "start")

    def __init__(self, key: tuple[int, int] | None, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.array = False
        self.children: dict[str | int, _Place] | None = None
        self.span: Span | None = None

    def inner(self) -> dict[str | int, _Place]:
        """The children, to be added to."""
        if self.children is None:
            self.children = {}
        return self.children


class TomlDocument:
    """A TOML file. `values` is empty where nothing could be read; it is shared and must not be changed."""

    def __init__(self, path: str, text: str, source: Source) -> None:
        parsed = parse_values(text, ARRAYS if source is Source.KERNEL_FILE else frozenset())
        self.path = path
        self.text = text
        self.source = source
        self.values: dict[str, Any] = parsed.values
        self._top = _Place(None, 0, 0)
        file = parse_toml(parsed.text, cached=False)  # a daemon reads thousands of files, and most of them once
        self._lines = file.lines
        for table in file.tables:
            self._add_table(table)
        self.diagnostics = tuple(self._syntax_diagnostic(problem, text) for problem in parsed.problems)

    def __contains__(self, path: KeyPath) -> bool:
        """Return True if something is written at `path`."""
        return self._find(path)[1]

    def span_of(self, path: KeyPath) -> Span:
        """Return the place of the value at `path`; of a table its header; if nothing is there, of the nearest enclosing
        table."""
        place = self._find(path)[0]
        if place.span is None:
            place.span = self._span(place.start, place.end)
        return place.span

    def key_span_of(self, path: KeyPath) -> Span:
        """Return the place of the key at `path`; of an array's element the element."""
        place, found = self._find(path)
        return self._span(*place.key) if found and place.key is not None else self._span(place.start, place.end)

    def span_within(self, path: KeyPath, start: int, end: int) -> Span:
        """Characters [`start`, `end`) of the string at `path`; the whole value where the string holds escapes."""
        whole = self.span_of(path)
        begin, stop = self._lines.offset(whole.start), self._lines.offset(whole.end)
        written = self.text[begin:stop]
        if whole.start.line != whole.end.line or "\\" in written or written[:3] in ('"""', "'''"):
            return whole
        first = min(begin + 1 + start, stop)
        return Span(self.path, self._lines.position(first), self._lines.position(min(begin + 1 + end, stop)))

    @property
    def beginning(self) -> Span:
        """The empty span at the start of the file."""
        return Span(self.path, Position(0, 0), Position(0, 0))

    def _find(self, path: KeyPath) -> tuple[_Place, bool]:
        place = self._top
        for step in path:
            inner = place.children.get(step) if place.children is not None else None
            if inner is None:
                return place, False
            place = inner
        return place, True

    def _span(self, start: int, end: int) -> Span:
        return Span(self.path, self._lines.position(start), self._lines.position(end))

    def _add_table(self, table: TomlTable) -> None:
        shift = table.shift
        place = self._top
        for part in table.block.keys:
            within = place.inner()
            if place.array:
                within = within[len(within) - 1].inner()
            found = within.get(part.name)
            if found is None:
                found = within[part.name] = _Place(_bounds(part, shift), table.start, table.header_end)
            place = found
        if table.block.double:
            element = _Place(place.key, table.start, table.header_end)
            place.array = True
            elements = place.inner()
            elements[len(elements)] = element
            place = element
        for pair in table.block.pairs:
            _add_pair(place, pair, shift)

    def _syntax_diagnostic(self, problem: SyntaxProblem, text: str) -> Diagnostic:
        span = Span(self.path, self._lines.position(problem.start), self._lines.position(problem.end))
        related: tuple[Related, ...] = ()
        code = "syntax"
        if problem.repeated:
            code = "duplicate-key"
            related = self._first_of(problem, text)
        elif problem.noticed is not None:
            position = self._lines.position(problem.noticed)
            related = (Related("noticed here", Span(self.path, position, position)),)
        fixes = (Fix(span, problem.replacement),) if problem.replacement is not None else ()
        return Diagnostic(
            Severity.ERROR, self.source, f"{self.source.value}/{code}", problem.message, span, related, fixes=fixes
        )

    def _first_of(self, problem: SyntaxProblem, text: str) -> tuple[Related, ...]:
        """Return the first of two equal keys or tables: the nearest same text before it."""
        written = text[problem.start : problem.end]
        section = text.rfind("\n[", 0, problem.start) + 1
        sought = re.compile(rf"^[ \t]*({re.escape(written)})[ \t]*(?=[=#\r\n]|$)", re.MULTILINE)
        within = 0 if written.startswith("[") else section
        first = sought.search(text, within, problem.start)
        if first is None:
            return ()
        span = Span(self.path, self._lines.position(first.start(1)), self._lines.position(first.end(1)))
        return (Related("first given here", span),)


def _bounds(part: KeyPart, shift: int) -> tuple[int, int]:
    return (part.start + shift, part.end + shift)


def _add_pair(place: _Place, pair: TomlPair, shift: int) -> None:
    value = pair.value
    if value is None or not pair.keys:
        return
    for part in pair.keys[:-1]:
        within = place.inner()
        found = within.get(part.name)
        if found is None:
            found = within[part.name] = _Place(_bounds(part, shift), part.start + shift, value.end + shift)
        place = found
    last = pair.keys[-1]
    place.inner().setdefault(last.name, _place_of(value, _bounds(last, shift), shift))


def _place_of(value: TomlValue, key: tuple[int, int] | None, shift: int) -> _Place:
    place = _Place(key, value.start + shift, value.end + shift)
    if value.items:
        place.children = {index: _place_of(item, None, shift) for index, item in enumerate(value.items)}
    for pair in value.pairs:
        _add_pair(place, pair, shift)
    return place


def document_of(path: str, text: str, source: Source) -> TomlDocument:
    """The document of a text; recent ones are kept, so that a language server parses only what changed."""
    return TomlDocument(path, text, source) if len(text) > _LARGE_CHARACTERS else _kept_document(path, text, source)


@lru_cache(maxsize=_DOCUMENTS_KEPT)
def _kept_document(path: str, text: str, source: Source) -> TomlDocument:
    return TomlDocument(path, text, source)
