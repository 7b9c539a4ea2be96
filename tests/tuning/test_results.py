"""The best for each shape, and how sure it is."""

from __future__ import annotations

import pytest

from cases.tuning_spaces import evaluated, record
from ckwatch.tuning.results import EvaluationStatus


def test_the_fastest_measured_instance_is_the_best() -> None:
    run = record(
        evaluated(1, {"a": 1}, {"s": 12.0}),
        evaluated(2, {"a": 2}, {"s": 10.0}),
        evaluated(3, {"a": 3}, {"s": EvaluationStatus.WRONG}),
    )
    best = run.best("s")
    assert best is not None
    assert (best.instance, best.median_us, best.runner_up, best.runner_up_us) == ("i2", 10.0, "i1", 12.0)
    assert (best.low_us, best.high_us) == pytest.approx((9.9, 10.1))
    assert best.confidence == pytest.approx(1.0)
    assert run.best("t") is None
    assert run.times() == {"s": {"i1": 12.0, "i2": 10.0}}


@pytest.mark.parametrize(("other", "expected"), [(10.0, 0.5), (10.1, 0.917), (10.5, 1.0)])
def test_confidence_follows_the_intervals(other: float, expected: float) -> None:
    best = record(evaluated(1, {}, {"s": 10.0}), evaluated(2, {}, {"s": other})).best("s")
    assert best is not None
    assert best.confidence == pytest.approx(expected, abs=0.005)


def test_a_single_instance_is_compared_with_none() -> None:
    best = record(evaluated(1, {}, {"s": 10.0})).best("s")
    assert best is not None
    assert (best.confidence, best.runner_up) == (None, None)


def test_without_intervals_the_faster_one_is_taken_as_faster() -> None:
    run = record(evaluated(1, {}, {"s": 10.0}, spread=0.0), evaluated(2, {}, {"s": 11.0}, spread=0.0))
    best = run.best("s")
    assert best is not None
    assert best.confidence == 1.0
