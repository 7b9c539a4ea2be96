"""JUnit XML as Jenkins, GitLab and others read it: a test case for each unit, in suites by kernels.

Errors in files that belong to no unit, such as `ckwatch.toml`, are the test cases of a suite of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from xml.etree import ElementTree

from ckwatch.cli.reports.findings import Findings, UnitCase, visible
from ckwatch.model.diagnostics import Diagnostic, Severity

FILES = "files"


def report(findings: Findings) -> str:
    """A `testsuites` element with a suite for each kernel, and one for files with mistakes."""
    suites: dict[str, list[UnitCase]] = defaultdict(list)
    for unit in findings.units:
        suites[unit.unit.partition("/")[0]].append(unit)
    files: dict[str, list[Diagnostic]] = defaultdict(list)
    for one in findings.diagnostics:
        if not one.units and one.severity is Severity.ERROR:
            files[findings.shown(one.span.path)].append(one)
    for path, found in files.items():
        suites[FILES].append(UnitCase(unit=path, failed=found[0].message, diagnostics=tuple(found)))
    every = [unit for units in suites.values() for unit in units]
    root = ElementTree.Element("testsuites", {"name": findings.command, **_counts(every, findings.seconds)})
    for name, units in suites.items():
        counts = _counts(units, sum(unit.seconds for unit in units))
        skipped = str(sum(bool(unit.skipped) for unit in units))
        suite = ElementTree.SubElement(root, "testsuite", {"name": visible(name), **counts, "skipped": skipped})
        for unit in units:
            _add_case(findings, suite, name, unit)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root).decode()}\n'


def _counts(units: Sequence[UnitCase], seconds: float) -> dict[str, str]:
    return {
        "tests": str(len(units)),
        "failures": str(sum(bool(unit.failed) for unit in units)),
        "errors": str(sum(bool(unit.faulted) for unit in units)),
        "time": f"{seconds:.3f}",
    }


def _add_case(findings: Findings, suite: ElementTree.Element, kernel: str, unit: UnitCase) -> None:
    name = visible(unit.unit.removeprefix(f"{kernel}/"))
    case = ElementTree.SubElement(
        suite, "testcase", {"name": name, "classname": visible(kernel), "time": f"{unit.seconds:.3f}"}
    )
    texts = {"failure": unit.failed, "error": unit.faulted, "skipped": unit.skipped}
    shown = "\n".join(_lines(findings, unit.diagnostics))
    for element, text in texts.items():
        if text:
            made = ElementTree.SubElement(case, element, {"message": visible(text)})
            made.text = visible(shown or text)
            shown = ""
    if shown or unit.more:
        out = ElementTree.SubElement(case, "system-out")
        out.text = visible("\n".join(filter(None, [shown, unit.more])))


def _lines(findings: Findings, diagnostics: Sequence[Diagnostic]) -> list[str]:
    lines = []
    for one in diagnostics:
        place = f"{findings.shown(one.span.path)}:{one.span.start}"
        lines += [f"{place}: {one.severity.value}: {one.message} [{one.code}]"]
        lines += [f"    {note}" for note in findings.notes(one)]
    return lines
