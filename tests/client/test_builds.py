"""Outcomes of builds."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.client.builds import BuildResult, UnitResult, unit_result
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.wire.state import BuildLine
from fakes.fake_engine import unit_of


def diagnostic(message: str, path: str = "/a", line: int = 0, severity: Any = "error") -> Diagnostic:
    place = Position(line=line, column=0)
    return Diagnostic(
        severity=severity, source=Source.CLANG, code="c", message=message, span=Span(path=path, start=place, end=place)
    )


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        (BuildLine(event="unit", id="k/i@a", unit=unit_of()), True),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(outcome="checked")), True),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(outcome="checked", errors=1)), False),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(outcome="failed", errors=1)), False),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(outcome="faulted")), False),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(outcome=None)), False),
        (BuildLine(event="unit", id="k/i@a", unit=unit_of(), problem="cancelled"), False),
        (BuildLine(event="unit", id="k/i@a", problem="removed"), False),
    ],
)
def test_which_units_are_well(line: BuildLine, ok: bool) -> None:
    result = BuildResult((unit_result(line),))
    assert result.units[0].id == "k/i@a"
    assert result.ok is ok
    assert bool(result.failed) is not ok


def test_equal_messages_are_one() -> None:
    same = [diagnostic("m", line=5), diagnostic("w", severity=Severity.WARNING)]
    result = BuildResult(
        (
            UnitResult("u1", None, (same[0], diagnostic("only", "/b"))),
            UnitResult("u2", None, tuple(same)),
            UnitResult("u3", None),
        )
    )
    assert {
        path: [(found.message, found.units, found.unit_count) for found in all_found]
        for path, all_found in result.diagnostics.items()
    } == {"/a": [("w", ("u2",), 3), ("m", ("u1", "u2"), 3)], "/b": [("only", ("u1",), 3)]}
    assert [found.message for found in result.units[1].diagnostics if found.severity == "error"] == ["m"]
    errors = (result.units[1].errors, 0 if result.units[1].unit is None else result.units[1].unit.errors)
    assert list(map(type, errors)) == [int, int], "a result and its unit count errors alike"
    assert (errors[0], result.units[1].first_error) == (1, result.units[1].diagnostics[0])
