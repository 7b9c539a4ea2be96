"""The formats of a report: a table from their names to what writes them, each a pure function of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from ckwatch.cli.reports import FORMATS as OTHER_PROGRAMS
from ckwatch.cli.reports import report as report_to

if TYPE_CHECKING:
    from ckwatch.checks.places import ReadLine
    from ckwatch.cli.ci.report import CiReport
    from ckwatch.cli.reports.findings import Findings

FORMATS: Mapping[str, str] = {
    "text": "texts:text",
    "markdown": "texts:markdown",
    "json": "texts:json_text",
    **OTHER_PROGRAMS,
}
"""`MODULE:FUNCTION` of this package by the format's name. Functions take a `CiReport` and return the whole text. Those
for other programs are `ckwatch.cli.reports`, and take its findings."""


def formatted(report: CiReport, name: str, read_line: ReadLine) -> str:
    """Return the report in a format of `FORMATS`; `read_line` reads sources for those that need them."""
    if name in OTHER_PROGRAMS:
        findings: Callable[[CiReport, ReadLine], Findings] = import_module("ckwatch.cli.ci.findings").findings
        return report_to(findings(report, read_line), name)
    module, _, function = FORMATS[name].partition(":")
    write: Callable[[CiReport], str] = getattr(import_module(f"ckwatch.cli.ci.{module}"), function)
    return write(report)
