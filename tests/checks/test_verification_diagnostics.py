"""Findings of an emulator as diagnostics: at the instance, and at the line of the template or header."""

from __future__ import annotations

import pytest

from ckwatch.checks.verification_diagnostics import diagnostics_once, verification_diagnostics
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.text import span
from ckwatch.model.verification import STOPS, FindingKind, ProblemOutcome, Verification
from fakes.fake_verifications import finding_of, problem_of, verification_of

UNIT = "k/one@gfx942"
INSTANCE = span("/ws/k.kernel.toml", 4, 0, 4, 3)
LINE = span("/ws/templates/k.hip.j2", 40, 0, 40, 9)
OTHER = span("/ck/block.hpp", 10, 0, 10, 0)
WRONG = problem_of("ragged", outcome=ProblemOutcome.WRONG, message="37 of 99 elements are wrong")


def shown(found: Verification, *, placed: bool = True) -> list[tuple[str, str, int, Severity]]:
    made = verification_diagnostics(found, UNIT, INSTANCE, placed=placed)
    assert {one.source for one in made} <= {Source.VERIFY, Source.REFERENCE}
    assert {one.units for one in made} <= {(UNIT,)}
    return [(one.code, one.span.path, one.span.start.line, one.severity) for one in made]


def related(one: Diagnostic) -> list[str]:
    return [each.message for each in one.related]


def test_nothing_is_said_of_what_is_right() -> None:
    refused = problem_of("odd sizes", outcome=ProblemOutcome.REFUSED)
    assert shown(verification_of(problems=(problem_of(), refused))) == []


def test_a_finding_stands_at_the_instance_and_at_its_line() -> None:
    found = verification_of(
        finding_of(place=LINE, other_place=OTHER, other_instruction="ds_write_b32 v0, v1", count=12)
    )
    code = "verify/out-of-bounds-read"
    here, there = (code, INSTANCE.path, 4, Severity.ERROR), (code, LINE.path, 40, Severity.ERROR)
    assert shown(found) == [here, there]
    assert shown(found, placed=False) == [here], "its line is one of another text"
    first, second = verification_diagnostics(found, UNIT, INSTANCE)
    assert first.message == "emulated gfx942, ragged: reads 4 bytes beyond the end of X (4,096 bytes)"
    assert related(first) == [
        "workgroup (1, 0, 0), wave 2, lane 17",
        "by buffer_load_dword v1, v2, s[0:3], 0 offen",
        "the other instruction: ds_write_b32 v0, v1",
    ]
    assert [one.span for one in first.related] == [None, LINE, OTHER]
    assert (related(second)[-1], second.related[-1].span) == ("in this instance", INSTANCE)
    for word in ("and 11 times more", "0x1940: buffer_load_dword", "4 bytes", "problem: ragged", "in k"):
        assert word in first.detail


def test_a_path_that_was_not_taken_has_no_shape_and_no_wave() -> None:
    possible = finding_of(kind=FindingKind.MISSING_WAIT, message="uses v1", workgroup=None, wave=None, lane=None)
    (one,) = verification_diagnostics(verification_of(possible), UNIT, INSTANCE)
    assert (one.message, one.severity) == ("emulated gfx942: uses v1", Severity.ERROR)
    assert related(one) == ["not executed"]
    assert "ragged" not in one.detail


def test_a_wrong_result_names_the_first_shape() -> None:
    (one,) = verification_diagnostics(verification_of(problems=(problem_of(), WRONG, WRONG)), UNIT, INSTANCE)
    assert one.code == "verify/wrong-result"
    assert one.message == (
        "emulated gfx942, ragged (M=128 N=128 K=64): 37 of 99 elements are wrong (wrong on 2 of 3 shapes)"
    )
    assert one.detail.count("\n") == 1


def test_what_explains_or_stops_the_emulator_is_no_error() -> None:
    for kind in (FindingKind.NON_FINITE, FindingKind.UNKNOWN_INSTRUCTION):
        found = verification_of(finding_of(kind=kind, code_address=None, instruction=None, lane=None, address=None))
        assert shown(found) == [(f"verify/{kind.value}", INSTANCE.path, 4, Severity.INFORMATION)]
    lost = problem_of(outcome=ProblemOutcome.NOT_VERIFIED, message="the worker was killed")
    assert shown(verification_of(problems=(lost,))) == [("verify/not-verified", INSTANCE.path, 4, Severity.INFORMATION)]


@pytest.mark.parametrize("kind", [*STOPS, FindingKind.EMULATOR_CRASHED])
def test_what_ends_a_launch_is_an_error(kind: FindingKind) -> None:
    found = verification_of(finding_of(kind=kind))
    assert shown(found) == [(f"verify/{kind.value}", INSTANCE.path, 4, Severity.ERROR)]
    assert bool(found.mistakes) == (kind in STOPS), "a mistake of ours is none of the kernel"


@pytest.mark.parametrize("kind", [*STOPS])
def test_what_ends_a_launch_is_one_error(kind: FindingKind) -> None:
    endless = finding_of(kind=kind, problem=WRONG.name)
    found = verification_of(endless, problems=(problem_of(), WRONG))
    assert [one[0] for one in shown(found)] == [f"verify/{kind.value}"]
    assert [one.code for one in diagnostics_once(found, UNIT, INSTANCE)] == [f"verify/{kind.value}"]


def test_an_instance_is_not_flooded() -> None:
    lines = [span(LINE.path, number, 0, number, 4) for number in range(20)]
    found = verification_of(*(finding_of(code_address=number, place=line) for number, line in enumerate(lines)))
    made = verification_diagnostics(found, UNIT, INSTANCE)
    assert len([one for one in made if one.span == INSTANCE]) == 9
    assert made[8].message == "emulated gfx942: and 12 more findings"
    assert len([one for one in made if one.span in lines]) == 20


def test_the_instructions_of_one_line_are_one_mistake() -> None:
    found = verification_of(*(finding_of(code_address=number, place=LINE) for number in range(20)))
    made = verification_diagnostics(found, UNIT, INSTANCE)
    assert [one.span for one in made] == [INSTANCE, LINE]
    assert related(made[1])[0] == "workgroup (1, 0, 0), wave 2, lane 17; 19 more instructions of this line"
    assert len(diagnostics_once(found, UNIT, INSTANCE)) == 1


def test_in_a_list_each_finding_stands_once() -> None:
    found = verification_of(finding_of(place=LINE), finding_of(code_address=4), problems=(problem_of(), WRONG))
    assert [(one.code, one.span) for one in diagnostics_once(found, UNIT, INSTANCE)] == [
        ("verify/wrong-result", INSTANCE),
        ("verify/out-of-bounds-read", LINE),
        ("verify/out-of-bounds-read", INSTANCE),
    ]


def test_mistakes_of_a_reference_stand_at_their_lines() -> None:
    unknown = problem_of(outcome=ProblemOutcome.NOT_COMPARED, message="reference.py:4: ValueError: no")
    raised = ReferenceMistake(
        kind=MistakeKind.RAISES, message="ValueError: no", path="/ws/reference.py", line=4, problem="exact"
    )
    found = verification_of(problems=(unknown,), reference_mistakes=(raised,))
    expected = ("reference/raises", "/ws/reference.py", 3, Severity.ERROR)
    assert shown(found) == shown(found, placed=False) == [expected]
    (one,) = diagnostics_once(found, UNIT, INSTANCE)
    assert related(one) == ["on exact", "in this instance"]
    elsewhere = ReferenceMistake(kind=MistakeKind.RAISES, message="there is no file", problem="exact")
    assert shown(verification_of(problems=(unknown,), reference_mistakes=(elsewhere,))) == []
