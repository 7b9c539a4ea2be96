"""Source maps: where each character of a rendered file came from.

Rendered text is a run of segments. A segment is either *verbatim* (template text copied character by character, so
that every position maps to line and column) or *produced* (what an expression printed, which maps to the expression's
span). Each segment hangs in a chain of frames: the includes, macro calls, loops, blocks and captures that were open
when it was written, innermost first. The chain is what a person needs to see "in macro `store` called at line 40, in
the second round of the loop at line 38".

A segment is *approximate* where text passed through something that rearranges it (a filter such as `wordwrap`, string
formatting): its span is then that of the printing expression or of everything that went in, and says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Span, advance


class SiteKind(StrEnum):
    """The kind of text at a site in a template."""

    TEXT = "text"
    EXPRESSION = "expression"
    INCLUDE = "include"
    EXTENDS = "extends"
    LOOP = "loop"
    BLOCK = "block"
    CALL = "call"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a template that produces text.

    `label` is what a person calls it: the expression's source, the included file, `for x in xs`. `names` are the
    variables and string constants that the expression mentions: they lead from `{{ MPerBlock }}` or
    `{{ template_argument("MPerBlock") }}` to the instance's parameter.
    """

    kind: SiteKind
    span: Span
    label: str
    names: tuple[str, ...] = ()
    row: tuple[Any, ...] = field(init=False, compare=False, repr=False)
    """The site as plain values, made once: maps are packed far more often than sites are made."""

    def __post_init__(self) -> None:
        start, end = self.span.start, self.span.end
        places = (start.line, start.column, end.line, end.column)
        object.__setattr__(self, "row", (self.kind.value, self.span.path, *places, self.label, self.names))


@dataclass(frozen=True, slots=True)
class SiteFrame:
    """A site that was open while text was written; `parent` indexes `SourceMap.frames`, -1 at the top.

    `iteration` counts the rounds of a loop from zero; -1 elsewhere.
    """

    site: Site
    parent: int
    iteration: int = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """Characters [`start`, `end`) of the rendered text.

    `verbatim` segments begin at `position` in the site's file and go on character by character.
    """

    start: int
    end: int
    site: Site
    frame: int
    position: Position
    verbatim: bool
    exact: bool = True


@dataclass(frozen=True, slots=True)
class OriginStep:
    """One step of an origin's chain."""

    site: Site
    iteration: int = -1


@dataclass(frozen=True, slots=True)
class Origin:
    """The template span behind a rendered range, and how it got there (`chain`, innermost first)."""

    span: Span
    site: Site
    chain: tuple[OriginStep, ...]
    exact: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Variables named at the origin and along its chain, innermost first, without repeats."""
        found = dict.fromkeys(self.site.names)
        for link in self.chain:
            found.update(dict.fromkeys(link.site.names))
        return tuple(found)


class SourceMap:
    """The map of one rendered text. Segments are sorted, do not overlap, and cover the text."""

    def __init__(self, text: str, segments: Sequence[Segment], frames: Sequence[SiteFrame]) -> None:
        self.text = text
        self.segments = tuple(segments)
        self.frames = tuple(frames)
        self._starts = [segment.start for segment in self.segments]
        self._lines: LineIndex | None = None

    def __reduce__(self) -> tuple[type[SourceMap], tuple[str, tuple[Segment, ...], tuple[SiteFrame, ...]]]:
        return (SourceMap, (self.text, self.segments, self.frames))

    @property
    def lines(self) -> LineIndex:
        """Offsets and positions of the rendered text."""
        if self._lines is None:
            self._lines = LineIndex(self.text)
        return self._lines

    @property
    def exact(self) -> bool:
        """True when no segment is approximate."""
        return all(segment.exact for segment in self.segments)

    def segment_at(self, offset: int) -> Segment | None:
        """The segment that holds the character at `offset`; the last one for the end of the text."""
        if not self.segments:
            return None
        return self.segments[max(bisect_right(self._starts, offset) - 1, 0)]

    def origin(self, position: Position) -> Origin | None:
        """Return the origin of the character at `position`; None in an empty text."""
        offset = self.lines.offset(position)
        return self.origin_of_range(offset, offset + 1)

    def origin_of_span(self, start: Position, end: Position) -> Origin | None:
        """Return the origin of the characters between two rendered positions."""
        first = self.lines.offset(start)
        return self.origin_of_range(first, max(self.lines.offset(end), first + 1))

    def origin_of_range(self, start: int, end: int) -> Origin | None:
        """Return the origin of [start, end): the first segment's, extended over those of the same file and frame."""
        segment = self.segment_at(start)
        if segment is None:
            return None
        span = self._span_within(segment, start, end)
        last = segment
        exact = segment.exact
        for following in self._following(segment):
            if following.start >= end:
                break
            if following.frame != segment.frame or following.site.span.path != segment.site.span.path:
                break
            last = following
            exact = exact and following.exact
        if last is not segment:
            tail = self._span_within(last, last.start, end)
            if tail.end > span.start:
                span = Span(span.path, span.start, tail.end)
        return Origin(span, segment.site, self.chain(segment.frame), exact)

    def chain(self, frame: int) -> tuple[OriginStep, ...]:
        """The frames from `frame` outwards."""
        links = []
        while frame >= 0:
            entry = self.frames[frame]
            links.append(OriginStep(entry.site, entry.iteration))
            frame = entry.parent
        return tuple(links)

    def _following(self, segment: Segment) -> Iterator[Segment]:
        index = bisect_right(self._starts, segment.start)
        while index < len(self.segments):
            yield self.segments[index]
            index += 1

    def _span_within(self, segment: Segment, start: int, end: int) -> Span:
        if not segment.verbatim:
            return segment.site.span
        begin = max(start, segment.start)
        stop = min(max(end, begin), segment.end)
        first = advance(segment.position, self.text[segment.start : begin])
        return Span(segment.site.span.path, first, advance(first, self.text[begin:stop]))
