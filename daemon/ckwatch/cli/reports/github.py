"""Workflow commands that GitHub shows as annotations of a pull request's files: `::error file=…,line=…::message`.

GitHub shows ten annotations of each kind and step, so no more are written; a line says how many others there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.cli.reports.findings import LEVELS, Findings, visible
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic

SHOWN = 10
"""Annotations of each kind that GitHub shows for a step."""

CHARACTERS = 4000
"""Of an annotation's text."""

KINDS: Mapping[str, str] = {"error": "error", "warning": "warning", "note": "notice"}


def report(findings: Findings) -> str:
    """A command for each annotation, the worst first, then a line about the run."""
    lines = []
    for level, kind in KINDS.items():
        found = [one for one in findings.diagnostics if LEVELS[one.severity] == level]
        lines += [_command(findings, kind, one) for one in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{count(len(found) - SHOWN, f'more {level}')} without an annotation")
    lines.append(_escaped(visible(findings.summary)))
    return "\n".join(lines) + "\n"


def _command(findings: Findings, kind: str, one: Diagnostic) -> str:
    span, path = one.span, findings.relative(one.span.path)
    text = "\n".join((one.message, *findings.notes(one)))
    properties: dict[str, object] = {}
    if path is None:
        text = f"{findings.shown(span.path)}:{span.start}: {text}"
    else:
        start, end = span.start, max(span.start, span.end)
        properties = {"file": path, "line": start.line + 1, "endLine": end.line + 1}
        if start.line == end.line:  # columns are refused for several lines
            properties |= {"col": start.column + 1, "endColumn": end.column + 1}
    properties["title"] = f"ckwatch {one.code}"
    written = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    text = text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
    return f"::{kind} {written}::{_escaped(visible(text))}"


def _escaped(text: str) -> str:
    """The text of a command, of which no line can begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(visible(text)).replace(":", "%3A").replace(",", "%2C")
