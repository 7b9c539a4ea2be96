"""Finds the span of a compiler message: in the template for rendered text, in the header otherwise."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangRange, position_in
from ckwatch.model.diagnostics import Related
from ckwatch.model.source_map import Origin, OriginStep, SiteKind, SourceMap
from ckwatch.model.text import Position, Span

ReadLine = Callable[[str, int], str | None]
"""The text of a file's line (numbered from zero, without its line end), None when there is no such line or file."""

_TOKEN = re.compile(r"\w+|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|::|->|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|\S")

_NAMED = re.compile(r"/\*\s*(\w+)\s*\*/[^,]*$")
_INVOCATION = re.compile(r"[A-Za-z_]\w*\s*\(")


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A template span, how it came to be there, and the parameter names that stand at it.

    `names` is empty unless the place was printed by an expression.
    """

    span: Span
    chain: tuple[Related, ...] = ()
    names: tuple[str, ...] = ()
    approximate: bool = False


class RenderedFile:
    """The rendered text of a unit, as the compiler saw it at `path`."""

    def __init__(self, path: str, source_map: SourceMap) -> None:
        self.path = posixpath.normpath(path)
        self.source_map = source_map
        self.lines = source_map.text.split("\n")

    def is_at(self, path: str) -> bool:
        """Whether `path` is the rendered file."""
        return bool(path) and posixpath.normpath(path) == self.path

    def line(self, number: int) -> str | None:
        """The text of the line with the zero-based `number`."""
        return self.lines[number].rstrip("\r") if 0 <= number < len(self.lines) else None

    def place(self, message: ClangMessage) -> SourcePlace | None:
        """Where a message in this file was made; None when it is somewhere else or the text is empty."""
        if message.position is None or not self.is_at(message.path):
            return None
        start, end = extent(self.line, message.position, message.ranges)
        return self.place_of(start, end)

    def place_of_line(self, number: int) -> SourcePlace | None:
        """Where the zero-based rendered line came from, without its indentation."""
        text = self.line(number)
        if text is None:
            return None
        indent = len(text) - len(text.lstrip())
        return self.place_of(Position(number, indent), Position(number, max(len(text.rstrip()), indent)))

    def place_of(self, start: Position, end: Position) -> SourcePlace | None:
        """Where a rendered range came from."""
        origin = self.source_map.origin_of_span(start, end)
        if origin is None:
            return None
        related = list(_chain(origin))
        if origin.site.kind is SiteKind.EXPRESSION:
            text = (self.line(start.line) or "").strip()
            related.insert(0, Related(f"rendered as: {text}", None))
            named = _NAMED.search((self.line(start.line) or "")[: start.column])
            names = dict.fromkeys([*origin.names, *([named[1]] if named else [])])
            return SourcePlace(origin.span, tuple(related), tuple(names), not origin.exact)
        return SourcePlace(origin.span, tuple(related), (), not origin.exact)

    def exact_span(self, start: Position, end: Position) -> Span | None:
        """The template span of a rendered range that is template text throughout, None when it is not."""
        lines = self.source_map.lines
        first, last = lines.offset(start), lines.offset(end)
        segment = self.source_map.segment_at(max(first - 1, 0) if first == last else first)
        if segment is None or not segment.verbatim or not segment.exact:
            return None
        if first < segment.start or last > segment.end:
            return None
        if first == last:
            probe = self.source_map.origin_of_range(max(first - 1, segment.start), first)
            if probe is None:
                return None
            at = probe.span.end if first > segment.start else segment.position
            return Span(probe.span.path, at, at)
        origin = self.source_map.origin_of_range(first, last)
        return None if origin is None else origin.span

    def argument_place(self, name: str) -> Span | None:
        """The template span that prints the instance parameter `name`.

        It is what follows the comment `/* name */`, with which rendered text names its template arguments, else the
        first expression that mentions it.
        """
        text = self.source_map.text
        for comment in re.finditer(rf"/\*\s*{re.escape(name)}\s*\*/[ \t]*", text):
            origin = self.source_map.origin_of_range(comment.end(), comment.end() + 1)
            if origin is not None:
                return origin.span
        for segment in self.source_map.segments:
            if not segment.verbatim and segment.end > segment.start and name in segment.site.names:
                return segment.site.span
        return None


def extent(
    line_at: Callable[[int], str | None], place: ClangPosition, ranges: tuple[ClangRange, ...]
) -> tuple[Position, Position]:
    """The range to underline: the smallest of clang's ranges that holds the caret, else the token at the caret.

    A range that begins at a call in front of the caret is not taken: clang widens what stands in a macro's argument
    to the whole invocation. At a line's end or in white space (a missing semicolon) it is the character before.
    """
    caret_line = line_at(place.line - 1)
    caret = position_in(caret_line, place)
    holding = []
    for found in ranges:
        start = position_in(line_at(found.start.line - 1), found.start)
        end = position_in(line_at(found.end.line - 1), found.end)
        if start <= caret < end and not _is_invocation(line_at(start.line), start, caret):
            holding.append((end.line - start.line, end.column - start.column, start, end))
    if holding:
        _, _, start, end = min(holding)
        return start, end
    if caret_line is None:
        return caret, caret
    token = _TOKEN.match(caret_line, caret.column)
    if token:
        return caret, Position(caret.line, token.end())
    return Position(caret.line, max(caret.column - 1, 0)), caret


def _is_invocation(line: str | None, start: Position, caret: Position) -> bool:
    return start < caret and line is not None and _INVOCATION.match(line, start.column) is not None


def source_span(read_line: ReadLine, message: ClangMessage) -> Span | None:
    """The span of a message in the file that it names, None when it has no position."""
    if message.position is None:
        return None
    start, end = extent(lambda number: read_line(message.path, number), message.position, message.ranges)
    return Span(message.path, start, max(start, end))


def _chain(origin: Origin) -> list[Related]:
    return [Related(_link_text(link), link.site.span) for link in origin.chain if link.site.kind in _LINKS]


_LINKS = {
    SiteKind.INCLUDE: "included here",
    SiteKind.EXTENDS: "extended here",
    SiteKind.LOOP: "in the loop",
    SiteKind.BLOCK: "in the block",
    SiteKind.CALL: "called here",
    SiteKind.FILTER: "filtered here",
}


def _link_text(link: OriginStep) -> str:
    label = link.site.label
    if link.site.kind is SiteKind.LOOP and link.iteration >= 0:
        return f"in round {link.iteration + 1} of the loop `{label}`"
    text = _LINKS[link.site.kind]
    return f"{text}: `{label}`" if label else text
