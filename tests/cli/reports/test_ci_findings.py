"""A report of `ckwatch ci` in the formats of other programs."""

from __future__ import annotations

import json
from typing import Any

from ckwatch.cli.ci.formats import formatted
from ckwatch.cli.ci.report import CiReport, CiUnit, Presence, Revision
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span
from ckwatch.wire.unit_changes import ChangeVerdict, UnitChange, UnitOutcome, change_summary

PLACE = span("/repo/kernels/k.kernel.toml", 7, 0, 7, 5)


def unit(name: str, verdict: ChangeVerdict, presence: Presence = "kept", *reasons: str, fails: bool = False) -> CiUnit:
    outcome = UnitOutcome(outcome="built")
    change = UnitChange(unit=name, verdict=verdict, reasons=reasons, figures=(), before=outcome, after=outcome)
    found: tuple[Diagnostic, ...] = ()
    if fails:
        words = "; ".join([verdict.value, *reasons])
        found = (Diagnostic(Severity.ERROR, Source.PERFORMANCE, f"ci/{verdict}", words, PLACE, units=(name,)),)
    return CiUnit(
        id=name, place=PLACE, presence=presence, change=change, because=("t.hip.j2",), diagnostics=found, fails=fails
    )


UNITS = (
    unit("k/a@gfx942", ChangeVerdict.SPILLS, "kept", "0 → 12 registers spilled", fails=True),
    unit("k/b@gfx942", ChangeVerdict.UNKNOWN, "kept", "out of memory"),
    unit("k/c@gfx942", ChangeVerdict.SKIPPED, "kept", "by a rule"),
    unit("k/d@gfx942", ChangeVerdict.REMOVED, "removed"),
    unit("l/e@gfx942", ChangeVerdict.SAME),
)
REPORT = CiReport(
    workspace="/repo/kernels",
    repository="/repo",
    base=Revision(name="main", commit="1" * 40),
    head=Revision(name="HEAD", commit="2" * 40),
    changed=("t.hip.j2",),
    units=UNITS,
    unaffected=3,
    diagnostics=tuple(found for one in UNITS for found in one.diagnostics),
    summary=change_summary([one.change for one in UNITS]),
    fail_on=("spills",),
    exit_status=1,
)


def report(name: str) -> str:
    return formatted(REPORT, name, lambda _path, _line: None)


def test_what_fails_is_an_annotation_at_its_instance() -> None:
    first, *_ = report("github").splitlines()
    assert first.startswith(
        "::error file=kernels/k.kernel.toml,line=8,endLine=8,col=1,endColumn=6,title=ckwatch ci/spills::"
    )
    assert "5 of 8 units affected" in report("github")


def test_units_are_cases_but_for_those_that_are_gone() -> None:
    text = report("junit")
    assert '<testsuites name="ckwatch ci" tests="4" failures="1" errors="1"' in text
    assert '<failure message="new spills; 0 &#8594; 12 registers spilled">' in text
    assert '<error message="not known; out of memory">' in text
    assert '<skipped message="skipped; by a rule">' in text
    assert "k/d" not in text
    assert "made from t.hip.j2" in text


def test_sarif_and_code_quality() -> None:
    (run,) = json.loads(report("sarif"))["runs"]
    results: list[dict[str, Any]] = run["results"]
    assert [one["ruleId"] for one in results] == ["ci/spills"]
    assert (run["invocations"][0]["exitCode"], run["automationDetails"]["id"]) == (1, "ckwatch/ci/")
    (found,) = json.loads(report("gitlab"))
    assert found["location"]["path"] == "kernels/k.kernel.toml"
