"""A lexer for Jinja2 that knows columns.

Jinja2's tokens and syntax tree carry a line number and no column. Here that number is a `LocatedLine`: an `int` that
also knows the offset and column. The parser copies it from token to node untouched, so every node knows its exact place
without a parser of our own. Positions refer to the source with its newlines normalised to `\\n`, as Jinja2 reads it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from jinja2 import Environment, TemplateSyntaxError
from jinja2.lexer import Lexer, newline_re

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import declarations
from ckwatch.model.text import LineIndex, Position, Span

_WORD = re.compile(r"\w+")


class LocatedLine(int):
    """A one-based line number that knows its offset (in code points) and zero-based column."""

    offset: int
    column: int

    @classmethod
    def at(cls, position: Position, offset: int) -> LocatedLine:
        """The line number of a zero-based `position`."""
        self = cls(position.line + 1)
        self.offset = offset
        self.column = position.column
        return self


@dataclass(frozen=True, slots=True)
class SourceTag:
    """A `{{ … }}` or `{% … %}` with the names and string constants in it."""

    start: int
    end: int
    body: str
    names: tuple[tuple[str, int], ...]
    is_variable: bool


class LocatingLexer(Lexer):
    """Jinja2's lexer with `LocatedLine` line numbers.

    It remembers the tokens of the last template: they are wanted for the tags and then by the parser, and finding them
    takes as long as parsing.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._last: tuple[str, list[tuple[int, str, str]]] = ("", [])

    def tokeniter(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> Iterator[tuple[int, str, str]]:
        """Yield (line, type, text) as Jinja2 does. Between two tokens only stripped white space can be missing."""
        if state is not None:
            yield from self._tokens(source, name, filename, state)
        elif source and source == self._last[0]:
            yield from self._last[1]
        else:
            tokens = []
            for token in self._tokens(source, name, filename, state):
                tokens.append(token)
                yield token
            self._last = (source, tokens)

    def _tokens(
        self, source: str, name: str | None, filename: str | None, state: str | None
    ) -> Iterator[tuple[int, str, str]]:
        text = normalise(source)
        lines = LineIndex(text)
        at = 0
        try:
            for _, kind, value in super().tokeniter(source, name, filename, state):
                found = text.find(value, at)
                if found < 0:
                    found = at
                yield LocatedLine.at(lines.position(found), found), kind, value
                at = found + len(value)
        except TemplateSyntaxError as error:
            error.lineno = LocatedLine.at(lines.position(at), at)
            raise


def normalise(source: str) -> str:
    """`source` with `\\n` for every newline."""
    return newline_re.sub("\n", source)


class TemplateSource:
    """A template's text with its tags, for turning offsets into spans."""

    def __init__(self, path: str, source: str, lexer: Lexer) -> None:
        self.path = path
        self.text = normalise(source)
        self.lines = LineIndex(self.text)
        self.tags = tuple(_tags(self.text, lexer.tokeniter(source, None, path)))
        self.mentioned = frozenset(name for tag in self.tags for name, _ in tag.names)
        self.declared = declarations(path, self.text)
        self._starts = [tag.start for tag in self.tags]

    @cached_property
    def words(self) -> Counter[str]:
        """How often each word stands in the text, comments and what is no template code included."""
        return Counter(_WORD.findall(self.text))

    def tag_at(self, offset: int) -> SourceTag | None:
        """The tag around `offset`, if there is one."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0 and offset < self.tags[index].end:
            return self.tags[index]
        return None

    def span(self, start: int, end: int) -> Span:
        """The span of [start, end)."""
        return Span(self.path, self.lines.position(start), self.lines.position(end))

    def line_span(self, line: int) -> Span:
        """The visible part of zero-based `line`."""
        start = self.lines.offset(Position(line, 0))
        end = self.lines.offset(Position(line, 1 << 30))
        text = self.text[start:end]
        return self.span(start + len(text) - len(text.lstrip()), start + len(text.rstrip()))


def _tags(text: str, tokens: Iterator[tuple[int, str, str]]) -> Iterator[SourceTag]:
    start = -1
    names: list[tuple[str, int]] = []
    is_variable = False
    for line, kind, value in tokens:
        offset = line.offset if isinstance(line, LocatedLine) else 0
        if kind in ("variable_begin", "block_begin"):
            start, names, is_variable = offset, [], kind == "variable_begin"
        elif kind == "name":
            names.append((value, offset))
        elif kind == "string":
            names.append((value[1:-1], offset))
        elif kind in ("variable_end", "block_end") and start >= 0:
            end = offset + len(value.rstrip()) if value.strip() else offset + len(value)
            yield SourceTag(start, end, text[start:end].strip("{}%-+ \t\n"), tuple(names), is_variable)
            start = -1
