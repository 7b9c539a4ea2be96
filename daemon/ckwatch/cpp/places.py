"""Places of the file that is asked about, and those of the text that clangd has: one class for each kind of file.

Every position of a question goes through `forward`, and every place of an answer through `own`, `exact` or `location`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit

from ckwatch.cpp.mappings import Forwarding, NotForwardedError, RenderedSource, SourcePiece
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range, Span
from ckwatch.wire.cpp import RENDERED


@dataclass(frozen=True, slots=True)
class Location:
    """A range in the text that has this URI."""

    uri: str
    range: Range

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Location:
        """From a `Location` or `LocationLink`."""
        if "targetUri" in given:
            return cls(given["targetUri"], range_from(given["targetSelectionRange"]))
        return cls(given["uri"], range_from(given["range"]))

    @property
    def json(self) -> dict[str, Any]:
        """As a `Location`."""
        return {"uri": self.uri, "range": range_to_lsp(self.range)}


@dataclass(eq=False)
class Places:
    """Of the text that clangd has as `uri`, which is the unit's rendered source.

    As it is, this is for questions about that source itself.
    """

    uri: str
    unit: str
    source: RenderedSource
    is_read_only: Callable[[str], bool]

    takes_names_only: ClassVar[bool] = False
    """True if what is completed is a name without arguments."""

    leads_to_templates: ClassVar[bool] = False
    """True if places of clangd's text are shown in the templates that they come from."""

    def forward(self, position: Position, need: Forwarding) -> list[Position]:  # noqa: ARG002  # all is forwarded here
        """Places in clangd's text of a place of the file; several where it stands there several times. Raises
        NotForwardedError."""
        return [position]

    def produced(self, position: Position) -> str:  # noqa: ARG002  # nothing is produced here
        """The part of clangd's text that an expression or value wrote."""
        return ""

    def own(self, rendered: Range, need: Forwarding) -> Range | None:  # noqa: ARG002  # as above
        """The range of the asked file that a range of clangd's text comes from, if any."""
        return rendered

    def typed(self, rendered: Range, cursor: Position) -> tuple[Range, str]:  # noqa: ARG002  # as above
        """The range that a completion replaces, and what stands before it in clangd's text and belongs to the same
        name. Raises NotForwardedError."""
        return rendered, ""

    def exact(self, uri: str, changed: Range) -> Span:
        """Return the template's place of a change to clangd's text. Raises NotForwardedError where a template does not
        have that text exactly once, or must not be changed."""
        if uri != self.uri:
            raise NotForwardedError(f"{path_of(uri) or 'another rendered source'} would have to be changed too")
        span = self.source.exact(*self._offsets(changed))
        if self.is_read_only(span.path):
            raise NotForwardedError(f"{span.path} comes with ckwatch and is not changed")
        return span

    def in_template(self, changed: Range, text: str) -> str:
        """Return the template's new text in place of `changed`, with the characters beside it."""
        before, behind = self.source.around(*self._offsets(changed))
        return f"{before}{text}{behind}"

    def location(self, found: Location) -> Location | None:
        """A place that clangd names, in a template where it comes from one; None if it is in no file."""
        if found.uri != self.uri:
            return found if path_of(found.uri) is not None else None
        span = self.source.origin(*self._offsets(found.range)) if self.leads_to_templates else None
        if span is None:
            return Location(f"{RENDERED}{self.unit}", found.range)
        return Location(uri_of(span.path), Range(span.start, span.end))

    def _offsets(self, rendered: Range) -> tuple[int, int]:
        lines = self.source.lines
        return lines.offset(rendered.start), lines.offset(rendered.end)


@dataclass(eq=False)
class TemplatePlaces(Places):
    """For questions about a template, which a unit's text is made of."""

    path: str
    leads_to_templates: ClassVar[bool] = True

    def forward(self, position: Position, need: Forwarding) -> list[Position]:
        return [self.source.lines.position(at) for at in self.source.offsets(self.path, position, need)]

    def produced(self, position: Position) -> str:
        piece = self.source.piece_at(self.source.lines.offset(position))
        return "" if piece is None or piece.verbatim else self.source.text[piece.start : piece.end]

    def own(self, rendered: Range, need: Forwarding) -> Range | None:
        start, end = self._offsets(rendered)
        if need is Forwarding.NAVIGATION:
            span = self.source.origin(start, end)
        else:
            try:
                span = self.source.exact(start, end, need)
            except NotForwardedError:
                return None
        return span.range if span is not None and span.path == self.path else None

    def typed(self, rendered: Range, cursor: Position) -> tuple[Range, str]:
        start, end = self._offsets(rendered)
        at = self.source.lines.offset(cursor)
        piece = self.source.piece_at(at - 1)
        begin = start
        if piece is not None and start < at:  # what an expression wrote before it is left as it is
            begin = max(start, piece.start) if piece.verbatim else at
        span = self.source.exact(begin, max(at, begin, end), Forwarding.COMPLETION)
        if span.path != self.path:
            raise NotForwardedError("what is typed is in another file")
        return span.range, self.source.text[start:begin]


@dataclass(eq=False)
class KernelFilePlaces(Places):
    """For questions about the values of an instance in its kernel file."""

    path: str
    values: Mapping[str, tuple[Span, ParameterValue]]
    takes_names_only: ClassVar[bool] = True
    leads_to_templates: ClassVar[bool] = True

    def forward(self, position: Position, need: Forwarding) -> list[Position]:
        name, span, value = self._value_at(position)
        pieces = self.source.written_by(name, value)
        if not pieces:
            raise NotForwardedError(f"no expression of the template writes {name} by itself")
        offset = position.column - span.start.column - 1
        if _is_plain(span, value) and self._text(pieces[0]) == value:
            return [self.source.lines.position(pieces[0].start + min(max(offset, 0), len(value)))]
        if need is not Forwarding.NAVIGATION:
            raise NotForwardedError(f"the template writes {name} in words of its own")
        found = [at for piece in pieces if (at := self.source.name_in(piece)) is not None]
        return [self.source.lines.position(at) for at in found]

    def produced(self, position: Position) -> str:
        piece = self.source.piece_at(self.source.lines.offset(position))
        return "" if piece is None else self._text(piece)

    def own(self, rendered: Range, need: Forwarding) -> Range | None:
        start, end = self._offsets(rendered)
        for piece, span, value in self._written:
            if not piece.start <= start <= end <= piece.end:
                continue
            if _is_plain(span, value) and self._text(piece) == value:
                first = span.start.column + 1 - piece.start
                return Range(Position(span.start.line, first + start), Position(span.start.line, first + end))
            return span.range if need is Forwarding.NAVIGATION else None
        return None

    @cached_property
    def _written(self) -> list[tuple[SourcePiece, Span, ParameterValue]]:
        """The first place of each value."""
        found = []
        for name, (span, value) in self.values.items():
            found += [(piece, span, value) for piece in self.source.written_by(name, value)[:1]]
        return found

    def typed(self, rendered: Range, cursor: Position) -> tuple[Range, str]:  # noqa: ARG002  # values are whole names
        found = self.own(rendered, Forwarding.COMPLETION)
        if found is None:
            raise NotForwardedError("what is typed is not the whole of a value")
        return found, ""

    def _value_at(self, position: Position) -> tuple[str, Span, ParameterValue]:
        for name, (span, value) in self.values.items():
            if span.range.holds(position):
                return name, span, value
        raise NotForwardedError("no value of this instance stands here")

    def _text(self, piece: SourcePiece) -> str:
        return self.source.text[piece.start : piece.end]


class HeaderPlaces(Places):
    """For questions about a header, which clangd reads from disk."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.unit = ""

    def exact(self, uri: str, changed: Range) -> Span:  # noqa: ARG002  # whatever it is
        raise NotForwardedError("headers are not changed")

    def location(self, found: Location) -> Location | None:
        return found if path_of(found.uri) is not None else None


def _is_plain(span: Span, value: ParameterValue) -> bool:
    """Return True if a string stands in the file verbatim, between quotes."""
    return isinstance(value, str) and span.end.column - span.start.column == len(value) + 2 and "\\" not in value


MEMORY_FOLDER = "/ckwatch-in-memory"
"""Begins the paths of texts that only clangd has; there is no such folder."""


def path_of(uri: str) -> str | None:
    """The path of a file's URI; None for other schemes and texts of ours."""
    parts = urlsplit(uri)
    return None if parts.scheme != "file" or in_memory(uri) else unquote(parts.path)


def in_memory(uri: str) -> bool:
    """Return True for the URI of a text that clangd gets from us."""
    return memory_path(uri).startswith(f"{MEMORY_FOLDER}/")


def memory_path(uri: str) -> str:
    """The path as clangd names it of a text in its memory."""
    return unquote(urlsplit(uri).path)


def uri_of(path: str) -> str:
    """The URI of a file."""
    return f"file://{quote(os.fsencode(path))}"


def range_from(given: Mapping[str, Any]) -> Range:
    """A range of the protocol, whose columns are code points here."""
    return Range(_position_from(given["start"]), _position_from(given["end"]))


def _position_from(given: Mapping[str, Any]) -> Position:
    return Position(given["line"], given["character"])


def to_lsp(position: Position) -> dict[str, Any]:
    """A place as clangd gets it."""
    return {"line": position.line, "character": position.column}


def range_to_lsp(given: Range) -> dict[str, Any]:
    """A range as clangd gets it."""
    return {"start": to_lsp(given.start), "end": to_lsp(given.end)}
