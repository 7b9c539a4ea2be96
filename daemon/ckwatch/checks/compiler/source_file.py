"""Diagnostics of a source file that a user wrote and compiles as it is, without templates and instances."""

from __future__ import annotations

from collections.abc import Iterable

from ckwatch.checks.clang_output import ClangMessage, ClangSeverity, MessageKind, position_in
from ckwatch.checks.compiler.diagnose import code_of, without_summaries
from ckwatch.checks.compiler.joining import RELATED_LIMIT
from ckwatch.checks.places import ReadLine, extent
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.text import Position, Span

_SOURCES = {MessageKind.LINKER: Source.LINKER}


def source_file_diagnostics(messages: Iterable[ClangMessage], path: str, read_line: ReadLine) -> list[Diagnostic]:
    """Diagnostics of a compile of `path`, each once: the passes for host and device repeat them.

    What has no place (a linker's message) stands at the file's beginning. Notes and remarks alone are left out.
    """
    found: dict[tuple[Span, str], Diagnostic] = {}
    for message in without_summaries(messages):
        if not (message.is_error or message.severity is ClangSeverity.WARNING):
            continue
        span = _span(message, read_line) or Span(path, Position(0, 0), Position(0, 0))
        related = [Related(note.text, _span(note, read_line)) for note in message.notes]
        one = Diagnostic(
            severity=Severity.ERROR if message.is_error else Severity.WARNING,
            source=_SOURCES.get(message.kind, Source.CLANG),
            code=code_of(message),
            message=message.text,
            span=span,
            related=tuple(related[:RELATED_LIMIT]),
        )
        found.setdefault((span, message.text), one)
    return list(found.values())


def _span(message: ClangMessage, read_line: ReadLine) -> Span | None:
    if message.position is None or not message.path:
        return None

    def line_at(line: int) -> str | None:
        return read_line(message.path, line)

    start, end = extent(line_at, message.position, message.ranges)
    caret = position_in(line_at(message.position.line - 1), message.position)
    return Span(message.path, start, end) if end > start else Span(message.path, caret, caret)
