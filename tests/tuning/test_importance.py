"""Importance of parameters, the best so far, parallel coordinates, failures."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from cases.tuning_spaces import evaluated, record
from ckwatch.tuning.importance import (
    FailureReason,
    best_so_far,
    failure_reasons,
    importance_of,
    parallel_coordinates,
    parameter_importance,
)
from ckwatch.tuning.results import EvaluationStatus

GRID: list[dict[str, Any]] = [
    {"a": a, "b": b, "c": c, "d": 1} for a, b, c in itertools.product((1, 2, 4), (1, 2), ("x", "y"))
]


def test_shares_of_a_product_are_those_of_its_factors() -> None:
    found = parameter_importance(GRID, [10.0 * one["a"] * 2 ** (one["b"] - 1) for one in GRID])
    shares = {one.parameter: one.share for one in found}
    # log2 has the variances 2/3 and 1/4: parts of 8/11 and 3/11, less what 2 and 1 degrees of 11 explain by chance
    assert shares["a"] == pytest.approx(1 - 11 / 9 * 3 / 11)
    assert shares["b"] == pytest.approx(1 - 11 / 10 * 8 / 11)
    assert (shares["c"], "d" in shares) == (0.0, False)
    assert [(one.parameter, one.points, one.values) for one in found[:1]] == [("a", 12, 3)]


def test_chance_explains_nothing() -> None:
    rng = random.Random(1)
    points = [{"a": rng.randrange(20), "b": rng.randrange(2)} for _ in range(100)]
    assert all(one.share < 0.1 for one in parameter_importance(points, [1 + rng.random() for _ in points]))


def test_shapes_are_compared_each_with_itself() -> None:
    times = {"small": 1.0, "large": 1000.0}
    points = [evaluated(at, one, {shape: us * one["b"] for shape, us in times.items()}) for at, one in enumerate(GRID)]
    assert importance_of(record(*points, shapes=("small", "large")))[0].share == pytest.approx(1.0)


def test_no_points_and_equal_times_have_no_importance() -> None:
    assert parameter_importance([], []) == []
    assert {one.share for one in parameter_importance(GRID, [5.0] * len(GRID))} == {0.0}


def test_only_improvements_are_steps() -> None:
    failed = evaluated(2, {"a": 2}, {"s": EvaluationStatus.WRONG})
    run = record(*(evaluated(at, {"a": at}, {"s": us}) for at, us in ((4, 4.0), (1, 9.0), (3, 9.5))), failed)
    assert [(step.order, step.seconds, step.median_us) for step in best_so_far(run, "s")] == [
        (1, 2.0, 9.0),
        (4, 8.0, 4.0),
    ]
    assert best_so_far(run, "other") == []


def test_parallel_coordinates_have_sorted_axes_and_the_fastest_line_first() -> None:
    run = record(
        evaluated(1, {"a": 8, "p": "x", "same": 1}, {"s": 5.0}),
        evaluated(2, {"a": 2, "p": "y", "same": 1, "q": 3}, {"s": 3.0}),
        evaluated(3, {"a": 4, "p": "y", "same": 1}, {"s": EvaluationStatus.CRASHED}),
    )
    found = parallel_coordinates(run, "s")
    assert [(axis.parameter, axis.values) for axis in found.axes] == [
        ("a", (2, 8)),
        ("p", ("y", "x")),
        ("q", (None, 3)),
    ]
    assert [(line.median_us, line.positions) for line in found.lines] == [(3.0, (0, 0, 1)), (5.0, (1, 1, 0))]


def test_failures_are_counted_by_rule_with_the_first_as_example() -> None:
    wrong, refused = EvaluationStatus.WRONG, EvaluationStatus.REFUSED
    run = record(
        evaluated(1, {"a": 1}, {"s": 5.0, "t": wrong}, reason="differs: 3"),
        evaluated(2, {"a": 2}, {"s": refused}, reason="no LDS: 70000"),
        evaluated(3, {"a": 3}, {"s": refused, "t": refused}, reason="no LDS: 80000"),
    )
    assert failure_reasons(run) == [
        FailureReason(refused, 3, "no LDS: 70000", "i2"),
        FailureReason(wrong, 1, "differs: 3", "i1"),
    ]
    assert failure_reasons(record()) == []
