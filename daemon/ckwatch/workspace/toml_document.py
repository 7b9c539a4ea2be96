"""Reads a TOML file into values and positions: every key and value has an exact span, and every error is reported.

Values come from `tomllib`, positions and statements from `ckwatch.workspace.toml`, all of the same text.

`tomllib` stops at the first error. To find the others, each statement of a broken text (a header, or a key with its
value) is parsed by itself, and blanked where it is broken. Blanking keeps every other character where it is, so that
places found in the repaired text hold in the text itself. A table whose header is broken is dropped, since its keys
would land in another one.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.workspace import toml
from ckwatch.workspace.toml_mistakes import Failure, SyntaxProblem, problem_of_statement

ERRORS_PER_FILE = 50
REPEATS_PER_FILE, REPEATS_PER_TABLE = 20, 8
"""How often a text is parsed again without what was given twice, and after how many of its keys a table is dropped."""

AT_PLACE = re.compile(
    r"(?P<message>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class ParsedValues:
    """`values` of `text`, which is the text that was given with each broken statement blanked, as far as it is read."""

    values: dict[str, Any]
    text: str
    problems: tuple[SyntaxProblem, ...]


def parse_values(text: str, arrays: frozenset[str] = frozenset()) -> ParsedValues:
    """The values of a TOML text and all its syntax errors; `arrays` are names of tables that stand in double brackets.
    Raises nothing on bad text."""
    text, problems = _within_limits(text)
    outcome = _attempt(text)
    if isinstance(outcome, dict):
        return ParsedValues(outcome, text, tuple(problems))
    if json := re.match(r"\s*\{", text):
        problem = SyntaxProblem("this is JSON, and not TOML: write `key = value` lines", json.end() - 1, json.end())
        return ParsedValues({}, blank(text), (problem,))
    repair = _Repair(text, arrays, problems)
    repair.drop_broken()
    values = repair.drop_repeated()
    problems.sort(key=lambda problem: problem.start)
    return ParsedValues(values, repair.text, tuple(problems))


def _within_limits(text: str) -> tuple[str, list[SyntaxProblem]]:
    """The text without what is too much to read, and the problems that report it."""
    problems: list[SyntaxProblem] = []
    end = toml.readable_end(text)
    if end < len(text):
        message = (
            f"the file has too many lines, keys and values; what follows the first {toml.MARKS_LIMIT:,} is not read"
        )
        shown = text[end : end + 80].partition("\n")[0]
        problems.append(SyntaxProblem(message, end, end + len(shown)))
        text = text[:end] + blank(shown)
    for around, parts in toml.long_keys(text):
        message = f"the key has {len(parts)} parts; at most {toml.KEY_PARTS_LIMIT} are allowed"
        problems.append(SyntaxProblem(message, parts[0].start, parts[-1].end))
        text = _without(text, around.start, around.end)
    for pair, end in toml.surplus_keys(text):
        message = f"the table has too many keys; at most {toml.KEYS_LIMIT:,} are allowed"
        problems.append(SyntaxProblem(message, pair.start, pair.key_end))
        text = _without(text, pair.start, end)
    return text, problems


def blank(text: str) -> str:
    """`text` with a space for each character that is not a line end."""
    return re.sub(r"[^\r\n]+", lambda found: " " * len(found[0]), text)


def _without(text: str, start: int, end: int) -> str:
    return text[:start] + blank(text[start:end]) + text[end:]


def _attempt(text: str) -> dict[str, Any] | Failure:
    try:
        return tomllib.loads(text)
    except RecursionError:
        run = max(re.finditer(r"[\[{]{2,}", text), key=lambda found: found.end() - found.start(), default=None)
        return Failure("arrays or tables are nested too deeply", run.start() if run else 0)
    except ValueError as error:
        if found := AT_PLACE.fullmatch(str(error)):
            end = Position(int(found["line"]) - 1, int(found["column"]) - 1) if found["line"] else None
            return Failure(found["message"], len(text) if end is None else LineIndex(text).offset(end))
        number = re.search(r"[0-9_]{4000,}", text)
        return Failure("an integer with thousands of digits", number.start() if number else 0)


class _Statement(NamedTuple):
    """Whole lines [`start`, `end`) of a text: a header, a pair, or what stands between; `table` counts tables."""

    start: int
    end: int
    table: int
    is_header: bool


class _Repair:
    """A broken text, of which more and more is blanked and added to `problems`."""

    def __init__(self, text: str, arrays: frozenset[str], problems: list[SyntaxProblem]) -> None:
        self.text = text
        self._problems = problems
        self._tables = toml.parse_toml(text, cached=False).tables
        self._statements = list(self._read_statements())
        for number, table in enumerate(self._tables):
            if len(table.path) == 1 and table.path[0] in arrays and not table.block.double:
                # the keys below cannot be given to the table that is meant
                name, end = table.path[0], table.header_end
                message = f"write [[{name}]]: there may be several"
                problems.append(SyntaxProblem(message, table.start, end, replacement=f"[[{name}]]"))
                self._drop_table(number)

    def drop_broken(self) -> None:
        """Report and drop each statement that is no TOML by itself."""
        broken: set[int] = set()
        for one in self._statements:
            written = self.text[one.start : one.end]
            if len(self._problems) >= ERRORS_PER_FILE:
                self.text = _without(self.text, self._tables[one.table].start, len(self.text))
                break
            if isinstance(failure := _attempt(written), Failure):
                further = _attempt(self.text[one.start : self._tables[one.table].next])
                failure = (
                    failure if isinstance(further, dict) else further
                )  # it gives up where what is open cannot go on
                self._problems.append(problem_of_statement(written, failure).moved(one.start))
                self.text = _without(self.text, one.start, one.end)
                if one.is_header:
                    broken.add(one.table)
        for number in broken:
            self._drop_table(number)

    def drop_repeated(self) -> dict[str, Any]:
        """Report and drop what is given twice; return the values of the rest."""
        repeats: Counter[int] = Counter()
        for _ in range(REPEATS_PER_FILE):
            failure = _attempt(self.text)
            if isinstance(failure, dict):
                return failure
            offset = min(failure.offset, len(self.text) - 1)
            one = self._statements[bisect_right(self._statements, offset, key=lambda one: one.start) - 1]
            there = Failure(failure.message, offset - one.start)
            self._problems.append(problem_of_statement(self.text[one.start : one.end], there).moved(one.start))
            repeats[one.table] += 1
            if one.is_header or repeats[one.table] == REPEATS_PER_TABLE:
                self._drop_table(one.table)
            else:
                self.text = _without(self.text, one.start, one.end)
        self.text = blank(self.text)
        return {}

    def _drop_table(self, number: int) -> None:
        table = self._tables[number]
        self.text = _without(self.text, table.start, table.next)

    def _read_statements(self) -> Iterator[_Statement]:
        text, at = self.text, 0
        for number, table in enumerate(self._tables):
            places = [(table.start, table.header_end, True)] if number else []
            for start, end, is_header in (*places, *((pair.start, pair.end, False) for pair in table.pairs)):
                begin, stop = text.rfind("\n", 0, start) + 1, text.find("\n", max(end, start))
                if begin > at:
                    yield _Statement(at, begin, number, is_header=False)
                at = stop + 1 if stop >= 0 else len(text)
                yield _Statement(begin, at, number, is_header)
        if at < len(text):
            yield _Statement(at, len(text), len(self._tables) - 1, is_header=False)


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
        self._begin()
        file = toml.parse_toml(parsed.text, cached=False)  # a daemon reads thousands of files, and most of them once
        self._lines = file.lines
        for table in file.tables:
            self._add_table(table)
        self.diagnostics = tuple(self._syntax_diagnostic(problem, text) for problem in parsed.problems)

    def _begin(self) -> None:
        self._top = _Place(None, 0, 0)

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

    def _add_table(self, table: toml.TomlTable) -> None:
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


def _bounds(part: toml.KeyPart, shift: int) -> tuple[int, int]:
    return (part.start + shift, part.end + shift)


def _add_pair(place: _Place, pair: toml.TomlPair, shift: int) -> None:
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


def _place_of(value: toml.TomlValue, key: tuple[int, int] | None, shift: int) -> _Place:
    place = _Place(key, value.start + shift, value.end + shift)
    if value.items:
        place.children = {index: _place_of(item, None, shift) for index, item in enumerate(value.items)}
    for pair in value.pairs:
        _add_pair(place, pair, shift)
    return place


def document_of(path: str, text: str, source: Source) -> TomlDocument:
    """The document of a text; recent ones are kept, so that a language server parses only what changed."""
    return (TomlDocument if len(text) > _LARGE_CHARACTERS else _kept_document)(path, text, source)


_kept_document = lru_cache(maxsize=_DOCUMENTS_KEPT)(TomlDocument)
