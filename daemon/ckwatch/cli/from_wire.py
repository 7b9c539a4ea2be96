"""Diagnostics as the daemon sends them, in the form that is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.model.diagnostic import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import Position, Span

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire import values as wire


def diagnostic_of(found: wire.Diagnostic) -> Diagnostic:
    """The same diagnostic; whether it is stale is left to the caller."""
    return Diagnostic(
        severity=Severity(found.severity),
        source=_source(found.source),
        code=found.code,
        message=found.message,
        span=span_of(found.span),
        related=tuple(Related(one.message, None if one.span is None else span_of(one.span)) for one in found.related),
        detail=found.detail,
        fixes=tuple(Fix(span_of(fix.span), fix.text) for fix in found.fixes),
        units=found.units,
        unit_count=found.unit_count,
        approximate=found.approximate,
    )


def span_of(found: wire.Span) -> Span:
    """The same span."""
    start, end = found.start, found.end
    return Span(found.path, Position(start.line, start.column), Position(end.line, end.column))


def _source(name: str) -> Source:
    try:
        return Source(name)
    except ValueError:  # of a newer daemon
        return Source.HOST
