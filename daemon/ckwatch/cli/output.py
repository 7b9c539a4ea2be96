"""What a command prints: diagnostics with their source lines, text, rows in columns, or JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import Position, Span

if TYPE_CHECKING:  # the wire types load pydantic
    from rich.console import Console

    from ckwatch.wire import state as wire


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


class SourceCache:
    """Files as they were when they were first asked for, until they are forgotten."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[str, ...]] = {}

    def read_line(self, path: str, line: int) -> str | None:
        """Line `line` (zero-based) of the file at `path`; None if there is none."""
        lines = self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = _read(path)
        return lines[line] if 0 <= line < len(lines) else None

    def forget(self) -> None:
        """Read the files anew the next time."""
        self._lines.clear()


def _read(path: str) -> tuple[str, ...]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


JSON_SCHEMA = 1
"""Grows when a field changes its meaning or goes away; new fields may appear without that."""


class Output:
    """Standard output in the form that the options ask for: text for people, or one JSON object per line."""

    def __init__(self, options: argparse.Namespace, root: Path | None = None) -> None:
        self.json = bool(getattr(options, "json", False))
        self.details = bool(getattr(options, "details", False))
        self.root = str(root) if root else None
        self._color: str = options.color
        self._sources = SourceCache()

    @cached_property
    def console(self) -> Console:
        """The terminal; loaded when something is printed for people."""
        from rich.console import Console

        terminal = {"always": True, "never": False}.get(self._color)
        return Console(force_terminal=terminal, no_color=self._color == "never" or None, soft_wrap=True)

    def line(self, **fields: Any) -> None:
        """Print one JSON object."""
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics, or one object of the event `diagnostic` for each."""
        if self.json:
            for diagnostic in diagnostics:
                self.line(event="diagnostic", **diagnostic_to_json(diagnostic))
        elif diagnostics:
            from ckwatch.cli.diagnostic_text import print_diagnostics

            print_diagnostics(self.console, diagnostics, self._sources.read_line, self.root, detail=self.details)

    def text(self, text: str, style: str = "") -> None:
        """Print a line for people; nothing with `--json`."""
        if not self.json:
            self.console.print(text, style=style, markup=False, highlight=False)


def diagnostic_to_json(diagnostic: Diagnostic) -> dict[str, Any]:
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
    return {"path": span.path, "start": _position_to_json(span.start), "end": _position_to_json(span.end)}


def _position_to_json(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column}


GAP = "  "

VERDICT_STYLES = {"FAST": "green", "SLOW": "red", "SAME": "", "UNSURE": "yellow"}


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """A line for each row, its cells as wide as the widest of their column; those of the columns `right` at the right.

    Rows may have different numbers of cells; columns without a word are left out, and no line ends in blanks.
    """
    from rich.cells import cell_len  # most commands need nothing of rich

    columns = max((len(row) for row in rows), default=0)
    widths = [max((cell_len(row[at]) for row in rows if at < len(row)), default=0) for at in range(columns)]

    def padded(at: int, cell: str) -> str:
        blanks = " " * (widths[at] - cell_len(cell))
        return blanks + cell if at in right else cell + blanks

    return [GAP.join(padded(at, cell) for at, cell in enumerate(row) if widths[at]).rstrip() for row in rows]
