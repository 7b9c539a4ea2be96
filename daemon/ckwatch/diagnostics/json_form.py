"""The JSON of a diagnostic, for `--json`. Keys are only ever added.

Lines and columns count from zero and columns in Unicode code points; ends are exclusive. `related` and `fixes` are
always there, `span` of a related entry may be null. The rest of a message's words is in `detail`.
"""

from __future__ import annotations

from typing import Any

from ckwatch.model.diagnostic import Diagnostic
from ckwatch.model.text import Position, Span


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain JSON values."""
    return {
        "severity": diagnostic.severity.value,
        "source": diagnostic.source.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "span": span_to_json(diagnostic.span),
        "related": [
            {"message": entry.message, "span": None if entry.span is None else span_to_json(entry.span)}
            for entry in diagnostic.related
        ],
        "detail": diagnostic.detail,
        "fixes": [{"span": span_to_json(fix.span), "text": fix.text} for fix in diagnostic.fixes],
        "units": list(diagnostic.units),
        "unit_count": diagnostic.unit_count,
        "approximate": diagnostic.approximate,
    }


def span_to_json(span: Span) -> dict[str, Any]:
    """`{"path", "start": {"line", "column"}, "end": {"line", "column"}}`, zero-based."""
    return {"path": span.path, "start": _position(span.start), "end": _position(span.end)}


def _position(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column}
