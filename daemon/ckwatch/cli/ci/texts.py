"""A report as text, as Markdown for a pull request's comment, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from ckwatch.cli.change_report import change_lines, markdown_report, tally
from ckwatch.cli.ci.report import CiReport
from ckwatch.cli.diagnostic_text import diagnostic_text
from ckwatch.cli.output import SCHEMA, Output, fields_of, to_plain
from ckwatch.cli.styled_text import StyledText
from ckwatch.model.amounts import count

TITLE = "What this change does to kernels"


def print_report(output: Output, report: CiReport) -> None:
    """Print a report for people, with the source lines of what is wrong."""
    output.diagnostics(report.diagnostics)
    for line in _lines(report):
        output.styled(line)


def text(report: CiReport) -> str:
    """Return a report as text without styles and source lines."""
    found = (diagnostic_text(one, lambda _path, _line: None, report.workspace) for one in report.diagnostics)
    return "".join(f"{line}\n" for line in (*found, *_lines(report)))


def _lines(report: CiReport) -> Iterator[StyledText]:
    yield from change_lines([one.change for one in report.units], report.summary)
    for line in timing_lines(report):
        yield StyledText((line, ""))
    for note in report.notes:
        yield StyledText((f"note: {note}", "yellow"))
    yield StyledText((f"base: {report.base}", ""))
    yield StyledText((f"head: {report.head}", ""))
    yield StyledText((summary_line(report), ""))


def timing_lines(report: CiReport) -> list[str]:
    """`timed in turns on hip:0: 8 comparisons, 1 SLOW, 7 SAME`, for each device."""
    found: dict[str, Counter[str]] = {}
    for one in report.units:
        for row in () if one.change.timed is None else one.change.timed.timings:
            found.setdefault(row.device, Counter())[row.verdict] += 1
    return [
        ", ".join(
            [
                f"timed in turns on {device}: {count(verdicts.total(), 'comparison')}",
                *(f"{verdicts[name]} {name}" for name in ("SLOW", "FAST", "SAME", "UNSURE") if verdicts[name]),
            ]
        )
        for device, verdicts in found.items()
    ]


def summary_line(report: CiReport) -> str:
    """`3 of 20 units affected: new spills: 1, the same: 2; 1 new error in kernel files`."""
    units = len(report.units)
    words = f"{units} of {count(units + report.unaffected, 'unit')} affected"
    words += f": {tally(report.summary)}" if units else ""
    mistakes = f"; {count(report.new_mistakes, 'new error')} in kernel files" if report.new_mistakes else ""
    return words + mistakes


def markdown(report: CiReport) -> str:
    """Return a report that fits a comment, however many units it has."""
    facts = [f"base: {report.base}", f"head: {report.head}", summary_line(report)]
    facts += [*timing_lines(report), *report.notes]
    changes = [one.change for one in report.units]
    return markdown_report(TITLE, facts, changes, report.summary, root=report.repository)


def json_text(report: CiReport) -> str:
    """Return a report as one JSON object."""
    return json.dumps({"schema": SCHEMA} | fields_of(report), ensure_ascii=False, default=to_plain) + "\n"
