"""Verdicts about two states of a unit, and sums over units, from values alone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import VerdictName
from ckwatch.model.verification import ProblemOutcome
from ckwatch.prediction.predict import Prediction
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.unit_changes import TimedChange, TimedChanges, UnitChange, UnitOutcome, change_summary, unit_change
from fakes.fake_verifications import problem_of, verification_of
from helpers.each_row import each_row
from helpers.kernel_reports import kernel, loop, report

RIGHT = verification_of()
WRONG = verification_of(problems=(problem_of(outcome=ProblemOutcome.WRONG, message="element 3 is 7"),))


def built(time_us: float | None = None, **fields: Any) -> UnitOutcome:
    """A unit with one kernel, unless `fields` say otherwise."""
    shapes = () if time_us is None else (ShapePrediction(shape="big", prediction=predicted(time_us)),)
    values: dict[str, Any] = {"outcome": "built", "report": report(kernel()), "shapes": shapes}
    return UnitOutcome(**(values | fields))


def predicted(time_us: float) -> Prediction:
    return Prediction(part="MI300X", cache=CacheState.COLD, time_us=time_us)


def of(*kernels: Any, **fields: Any) -> UnitOutcome:
    return built(report=report(*kernels), **fields)


FAILED = UnitOutcome(outcome="failed", problem="no type")
FAULTED = UnitOutcome(outcome="faulted", problem="out of memory")
SKIPPED = UnitOutcome(outcome="skipped", problem="128 % 96")


@each_row(
    ("before", "after", "verdict", "reasons"),
    [
        (built(), built(), "same", []),
        (built(), FAILED, "broken", ["no type"]),
        (FAILED, FAILED, "same", ["it compiles with neither: no type"]),
        (FAILED, built(), "fixed", ["it did not compile: no type"]),
        (built(), FAULTED, "unknown", ["out of memory"]),
        (FAULTED, FAILED, "unknown", ["out of memory"]),
        (SKIPPED, SKIPPED, "skipped", ["128 % 96"]),
        (built(), SKIPPED, "skipped", ["128 % 96"]),
        (built(verification=RIGHT), built(verification=WRONG), "wrong", [WRONG.summary]),
        (built(), built(verification=WRONG), "wrong", [WRONG.summary]),
        (built(verification=WRONG), built(verification=RIGHT), "fixed", [RIGHT.summary]),
        (built(verification=WRONG), built(verification=WRONG), "same", [f"wrong before and after: {WRONG.summary}"]),
        (built(verification=RIGHT), built(not_verified="no model"), "unknown", ["it is not verified: no model"]),
        (of(kernel(vgpr_spills=2)), of(kernel(vgpr_spills=2, sgpr_spills=1)), "spills", ["2 → 3 registers spilled"]),
        (of(kernel(vgpr_spills=2)), of(kernel()), "better", []),
        (built(), built(report=None), "unknown", ["its code object cannot be read"]),
        (of(kernel(2)), of(kernel(1)), "worse", []),
        (of(kernel(vgprs=189)), of(kernel(vgprs=170)), "changed", []),
        (of(kernel(2, scratch_bytes=4)), of(kernel(1, vgprs=100)), "changed", []),
        (of(kernel(with_loop=loop())), of(kernel(with_loop=loop(clocks=1100.0))), "changed", []),
        (built(100.0), built(100.5), "same", []),
        (built(100.0), built(110.0), "worse", []),
        (built(100.0), built(90.0), "better", []),
    ],
)  # fmt: skip
def test_verdicts(before: UnitOutcome, after: UnitOutcome, verdict: str, reasons: list[str]) -> None:
    found = unit_change("k/one@gfx942", before, after)
    assert (found.verdict, list(found.reasons)) == (verdict, reasons)


def test_predicted_times_are_figures() -> None:
    found = unit_change("k/one@gfx942", built(100.0), built(110.0))
    assert [(str(one), one.worse) for one in found.figures] == [
        ("predicted time on big 100.0 µs → 110.0 µs (+10.0 %)", True)
    ]


def timed(*verdicts: str, **fields: Any) -> TimedChanges:
    """Timings with these verdicts; no figure here was measured."""
    rows = [
        TimedChange(
            shape="big", cache="cold", device="hip:0", verdict=cast("VerdictName", one),
            ratio={"SLOW": 1.1, "FAST": 0.9}.get(one, 1.0), before_us=10.0, after_us=11.0,
        )
        for one in verdicts
    ]  # fmt: skip
    return TimedChanges(timings=tuple(rows), **fields)


FEWER_WAVES = of(kernel(1))


@each_row(
    ("after", "seen", "verdict"),
    [
        (built(), timed("SAME"), "same"),
        (built(), timed("SLOW"), "slower"),
        (built(), timed("FAST", "SAME", "UNSURE"), "better"),
        (built(), timed("FAST", "SLOW"), "slower"),
        (FEWER_WAVES, timed("FAST"), "better"),
        (FEWER_WAVES, timed("SAME"), "changed"),
        (FEWER_WAVES, timed("UNSURE"), "worse"),
        (FEWER_WAVES, timed(why_not="no hip device"), "worse"),
        (of(kernel(2, vgpr_spills=1)), timed("FAST"), "spills"),
        (built(), timed("SAME", failure="big on hip:0: it crashed"), "wrong"),
    ],
)
def test_timings_decide_over_what_is_predicted(after: UnitOutcome, seen: TimedChanges, verdict: str) -> None:
    found = unit_change("k/one@gfx942", of(kernel(2)), after, timed=seen)
    assert found.verdict == verdict
    if seen.failure:
        assert found.reasons == (seen.failure,)


def test_timings_that_differ_are_figures() -> None:
    found = unit_change("k/one@gfx942", built(), built(), timed=timed("SLOW", "SAME"))
    assert [(str(one), one.worse) for one in found.figures] == [
        ("time on big, cold cache, hip:0 10.00 µs → 11.00 µs (+10.0 %, SLOW)", True)
    ]


def changes(*pairs: tuple[UnitOutcome, UnitOutcome]) -> list[UnitChange]:
    return [unit_change(f"k/{number}@gfx942", *pair) for number, pair in enumerate(pairs)]


def test_sums_are_over_units_that_both_have() -> None:
    found = change_summary(
        changes(
            (of(kernel(vgprs=100)), of(kernel(vgprs=110))),
            (of(kernel(vgprs=60)), of(kernel(vgprs=50, vgpr_spills=4))),
            (of(kernel(vgprs=500)), FAILED),
            (built(100.0, report=None), built(50.0, report=None)),
            (built(100.0, report=None), built(200.0, report=None)),
        )
    )
    assert found.verdicts == {"broken": 1, "spills": 1, "worse": 1, "changed": 1, "better": 1}
    assert list(found.verdicts) == ["broken", "spills", "worse", "changed", "better"]
    assert found.is_certainly_worse
    assert found.predicted_ratio == pytest.approx(1.0)
    vgpr, spilled = (next(one for one in found.figures if one.name == name) for name in ("VGPR", "spilled VGPR"))
    assert (vgpr.before, vgpr.after, vgpr.grew, vgpr.shrank) == (160, 160, 1, 1)
    assert (spilled.before, spilled.after, spilled.grew, spilled.shrank) == (0, 4, 1, 0)
    assert "scratch" not in {one.name for one in found.figures}


def test_verified_units_are_counted_on_both_sides() -> None:
    right, wrong = built(verification=RIGHT), built(verification=WRONG)
    found = change_summary(changes((right, right), (right, wrong), (right, FAILED), (wrong, right)))
    (verified,) = (one for one in found.figures if one.name == "verified units")
    assert (verified.before, verified.after, verified.grew, verified.shrank) == (3, 2, 1, 2)


def test_nothing_to_sum() -> None:
    found = change_summary([])
    assert (found.verdicts, found.figures, found.predicted_ratio, found.is_certainly_worse) == ({}, (), None, False)
