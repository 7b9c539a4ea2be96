"""Finds the span of a compiler message: in the template for rendered text, in the header otherwise."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangRange, position_in
from ckwatch.model.diagnostics import Related
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import Origin, SiteKind, SourceMap
from ckwatch.model.text import Position, Span

ReadLine = Callable[[str, int], str | None]
"""The text of a file's line (numbered from zero, without its line end), None when there is no such line or file."""

_TOKEN = re.compile(r"\w+|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|::|->|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|\S")

_NAMED = re.compile(r"/\*\s*(\w+)\s*\*/[^,]*$")
_INVOCATION = re.compile(r"[A-Za-z_]\w*\s*\(")


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A template span, how it came to be there, and the parameter names that stand at it.

    `names` is empty unless the place was printed by an expression; then `calls` are the calls of macros around it, the
    innermost first.
    """

    span: Span
    chain: tuple[Related, ...] = ()
    names: tuple[str, ...] = ()
    approximate: bool = False
    calls: tuple[Span, ...] = ()


class RenderedFile:
    """The rendered text of a unit, as the compiler saw it at `path`."""

    def __init__(self, path: str, source_map: SourceMap) -> None:
        self.path = posixpath.normpath(path)
        self.source_map = source_map
        self.lines = source_map.text.split("\n")

    def is_at(self, path: str) -> bool:
        """Return True if `path` is the rendered file."""
        return bool(path) and posixpath.normpath(path) == self.path

    def line(self, number: int) -> str | None:
        """The text of the line with the zero-based `number`."""
        return self.lines[number].rstrip("\r") if 0 <= number < len(self.lines) else None

    def place(self, message: ClangMessage) -> SourcePlace | None:
        """Return the source place of a message in this file; None if it is elsewhere or the text is empty."""
        if message.position is None or not self.is_at(message.path):
            return None
        start, end = extent(self.line, message.position, message.ranges)
        place = self.place_of(start, end)
        behind = position_in(self.line(message.position.line - 1), message.position) == end > start
        return place if place is None or not behind else self.end_of_expression(place, end)

    def end_of_expression(self, place: SourcePlace, end: Position) -> SourcePlace:
        """Return the place where something is missing behind `end`: the end of the expression, if one printed the text
        before it."""
        offset = self.source_map.lines.offset(end)
        segment = self.source_map.segment_at(max(offset - 1, 0))
        last = place.span.end
        if segment is None or segment.verbatim or segment.end != offset or segment.site.kind is not SiteKind.EXPRESSION:
            return place
        return replace(place, span=Span(place.span.path, Position(last.line, max(last.column - 1, 0)), last))

    def place_of_line(self, number: int) -> SourcePlace | None:
        """Return the source place of the zero-based rendered line, without its indentation."""
        text = self.line(number)
        if text is None:
            return None
        indent = len(text) - len(text.lstrip())
        return self.place_of(Position(number, indent), Position(number, max(len(text.rstrip()), indent)))

    def place_of(self, start: Position, end: Position) -> SourcePlace | None:
        """Return the source place of a rendered range."""
        origin = self.source_map.origin_of_span(start, end)
        if origin is None:
            return None
        related = list(_chain(origin))
        if origin.site.kind is SiteKind.EXPRESSION:
            text = (self.line(start.line) or "").strip()
            related.insert(0, Related(f"rendered as: {text}", None))
            named = _NAMED.search((self.line(start.line) or "")[: start.column])
            names = dict.fromkeys([*origin.names, *([named[1]] if named else [])])
            calls = tuple(step.site.span for step in origin.chain if step.site.kind is SiteKind.CALL)
            return SourcePlace(origin.span, tuple(related), tuple(names), not origin.exact, calls)
        return SourcePlace(origin.span, tuple(related), (), not origin.exact)

    def call_of(self, place: ClangPosition) -> SourcePlace | None:
        """The outermost macro call whose output begins at a place in this file; None where template text begins."""
        offset = self.source_map.lines.offset(position_in(self.line(place.line - 1), place))
        origin = self.source_map.origin_of_range(offset, offset + 1)
        before = self.source_map.origin_of_range(offset - 1, offset) if offset else None
        around = {} if before is None else dict.fromkeys(step.site for step in before.chain)
        calls = [step.site for step in origin.chain if step.site not in around] if origin is not None else []
        outermost = next((site for site in reversed(calls) if site.kind is SiteKind.CALL), None)
        if origin is None or outermost is None:
            return None
        text = (self.line(place.line - 1) or "").strip()
        return SourcePlace(outermost.span, (Related(f"rendered as: {text}", None), *_chain(origin)))

    def zero_at(self, place: ClangPosition) -> tuple[str, ...]:
        """The names in the expression that printed the zero behind the operator at a place, or that the constant behind
        it begins with; () where none did."""
        text = self.source_map.text
        offset = self.source_map.lines.offset(position_in(self.line(place.line - 1), place))
        divisor = re.compile(r"[/%]=?(?:\s|\(|/\*.*?\*/)*(?P<word>\w+)").match(text, offset)
        if divisor is None:
            return ()
        start = divisor.start("word")
        if re.match(r"[A-Za-z_]", divisor["word"]):
            constant = re.search(rf"\bconst(?:expr)?\b[^;{{}}=()]*\b{divisor['word']}\s*[={{(]\s*(?P<value>0)\b", text)
            start = -1 if constant is None else constant.start("value")
        elif re.fullmatch(r"0[uUlL]*", divisor["word"]) is None:
            return ()
        segment = self.source_map.segment_at(start) if start >= 0 else None
        return () if segment is None or segment.verbatim else segment.site.names

    def place_at(self, start: int, end: int) -> SourcePlace | None:
        """Return the source place of the characters [`start`, `end`) of the rendered text."""
        lines = self.source_map.lines
        return self.place_of(lines.position(start), lines.position(end))

    def printed_at(self, message: ClangMessage) -> str | None:
        """Return the text that an expression printed at the place of a message in this file; None for template text."""
        if message.position is None or not self.is_at(message.path):
            return None
        at = position_in(self.line(message.position.line - 1), message.position)
        offset = self.source_map.lines.offset(at)
        segment = self.source_map.segment_at(offset)
        if segment is None or segment.verbatim or not segment.start <= offset < segment.end:
            return None
        return self.source_map.text[segment.start : segment.end]

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
    to the whole invocation. Of a member that is called, the range begins behind its object. At a line's end or in white
    space (a missing semicolon) it is the character before.
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
        of_member = start < caret and caret_line is not None and caret_line[: caret.column].endswith((".", "->"))
        return (caret if of_member else start), end
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
    found = []
    for link in origin.chain:
        if (text := _LINKS.get(link.site.kind)) is not None:
            label = link.site.label
            if link.site.kind is SiteKind.LOOP and link.iteration >= 0:
                text = f"in round {link.iteration + 1} of the loop `{label}`"
            elif label:
                text = f"{text}: `{label}`"
            found.append(Related(text, link.site.span))
    return found


_LINKS = {
    SiteKind.INCLUDE: "included here",
    SiteKind.EXTENDS: "extended here",
    SiteKind.LOOP: "in the loop",
    SiteKind.BLOCK: "in the block",
    SiteKind.CALL: "called here",
    SiteKind.FILTER: "filtered here",
}
