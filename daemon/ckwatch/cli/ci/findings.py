"""A report as the findings that other programs' formats are made from."""

from __future__ import annotations

from ckwatch.checks.places import ReadLine
from ckwatch.cli.change_report import VERDICTS, what_changed
from ckwatch.cli.ci.report import CiReport, CiUnit
from ckwatch.cli.ci.texts import summary_line
from ckwatch.cli.reports.findings import Findings, UnitCase


def findings(report: CiReport, read_line: ReadLine) -> Findings:
    """Return what a report has found; the units that it affects are the cases, but for those that are gone."""
    return Findings(
        command="ckwatch ci",
        folder=report.repository,
        diagnostics=report.diagnostics,
        units=tuple(_case(one) for one in report.units if one.presence != "removed" or one.fails),
        exit_status=report.exit_status,
        summary=summary_line(report),
        read_line=read_line,
        seconds=report.seconds,
    )


def _case(one: CiUnit) -> UnitCase:
    words = "; ".join([VERDICTS[one.verdict][2], *one.change.reasons])
    changed = [*what_changed(one.change), *(f"made from {path}" for path in one.because)]
    return UnitCase(
        unit=one.id,
        failed=words if one.fails else "",
        faulted=words if one.verdict == "unknown" and not one.fails else "",
        skipped=words if one.verdict == "skipped" and not one.fails else "",
        more="\n".join(changed),
        diagnostics=one.diagnostics,
    )
