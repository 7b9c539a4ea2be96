"""Places in files as clients get them."""

from __future__ import annotations

from ckwatch.model import text
from ckwatch.wire.state import Position, Span

# Shared by all objects: a set for each would double the memory of thousands of units.
_SPAN_FIELDS = set(Span.model_fields)
_POSITION_FIELDS = set(Position.model_fields)


def position_to_wire(given: text.Position) -> Position:
    """A place in a text."""
    return Position.model_construct(_POSITION_FIELDS, line=given.line, column=given.column)


def span_to_wire(given: text.Span) -> Span:
    """A place in a file."""
    start, end = position_to_wire(given.start), position_to_wire(given.end)
    return Span.model_construct(_SPAN_FIELDS, path=given.path, start=start, end=end)
