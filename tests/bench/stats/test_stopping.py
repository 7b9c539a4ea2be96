"""When a measurement has enough samples, and when a warm-up is over."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ckwatch.bench.job import Precision
from ckwatch.bench.report import StopReason
from ckwatch.bench.stats.stopping import StoppingRule, is_steady
from helpers.each_row import each_row

Draws = Callable[[object], random.Random]
PRECISION = Precision(minimum_s=0.1, budget_s=3.0, minimum_samples=20, maximum_samples=5000, relative_error=0.005)


def normal(count: int, noise: float, seed: int = 1) -> list[float]:
    source = random.Random(seed)  # noqa: S311  # reproducible by intention
    return [100 * (1 + noise * source.gauss(0, 1)) for _ in range(count)]


@each_row(
    ("count", "noise", "elapsed_s", "expected"),
    [
        (0, 0.0, 0.05, None),
        (0, 0.0, 3.0, StopReason.BUDGET),
        (1, 0.0, 3.5, StopReason.BUDGET),
        (19, 0.0, 1.0, None),  # too few samples
        (20, 0.0, 0.05, None),  # too early
        (20, 0.0, 0.1, StopReason.PRECISE),
        (100, 0.01, 0.2, StopReason.PRECISE),
        (30, 0.05, 0.2, None),
        (30, 0.05, 3.0, StopReason.BUDGET),
        (100, 0.01, 3.0, StopReason.PRECISE),  # the better reason
        (5000, 0.9, 0.05, StopReason.BUDGET),
    ],
)
def test_verdicts(count: int, noise: float, elapsed_s: float, expected: StopReason | None) -> None:
    stopping = StoppingRule(PRECISION)
    stopping.add(normal(count, noise))
    assert stopping.count == count
    assert stopping.verdict(elapsed_s) is expected


def until_it_stops(stopping: StoppingRule, times: list[float], batch: int = 10) -> StopReason | None:
    for at in range(0, len(times), batch):
        stopping.add(times[at : at + batch])
        if (stop := stopping.verdict(0.2)) is not None:
            return stop
    return None


def test_large_noise_ends_when_it_no_longer_changes() -> None:
    stopping = StoppingRule(replace(PRECISION, relative_error=0.0001))
    assert until_it_stops(stopping, normal(5000, 0.05)) is StopReason.STEADY_NOISE
    assert 80 <= stopping.count < 2000


def test_growing_noise_does_not_end_it(draws: Draws) -> None:
    source = draws(3)
    times = [100 * (1 + at / 2000 * source.gauss(0, 1)) for at in range(1000)]
    assert until_it_stops(StoppingRule(replace(PRECISION, relative_error=0.0001)), times) is None


@each_row("seed", range(10))
def test_precise_means_that_the_median_is(seed: int) -> None:
    stopping = StoppingRule(PRECISION)
    times = normal(5000, 0.03, seed)
    assert until_it_stops(stopping, times) in (StopReason.PRECISE, StopReason.STEADY_NOISE)
    taken = sorted(times[: stopping.count])
    assert taken[len(taken) // 2] == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        ([2100.0] * 29, False),
        ([2100.0] * 30, True),
        ([1000.0] * 100 + [2100.0] * 30, True),
        ([1000.0] * 10 + [2100.0] * 20, False),
        ([1000.0 + 20 * at for at in range(60)], False),  # still rising
        ([2100.0, 2100.0, 2090.0] * 10, True),
        ([2100.0] * 29 + [500.0], True),  # one that stalled
        ([0.0] * 30, True),
    ],
)
def test_steady(values: list[float], expected: bool) -> None:
    assert is_steady(values) is expected


def test_a_window_can_be_chosen() -> None:
    values = [10.0, 10.2, 10.0, 10.2]
    assert not is_steady(values, window=1, windows=4)
    assert is_steady(values, window=1, windows=4, tolerance=0.02)
    assert is_steady(values, window=2, windows=2)


@pytest.mark.parametrize(
    ("limit_us", "count", "expected"),
    [
        (None, 5000, StopReason.BUDGET),
        (90.0, 9, None),  # too few to be certain of anything
        (90.0, 30, StopReason.SLOWER),
        (99.9, 30, None),
        (110.0, 30, None),
    ],
)
def test_what_is_certainly_slower_is_given_up(limit_us: float | None, count: int, expected: StopReason | None) -> None:
    rule = StoppingRule(replace(PRECISION, limit_us=limit_us))
    rule.add(normal(count, 0.03))
    assert rule.verdict(0.01) is expected


def test_it_is_hardly_ever_wrong_to_give_up() -> None:
    wrong = 0
    for seed in range(300):
        rule = StoppingRule(replace(PRECISION, limit_us=100.0))
        rule.add(normal(100, 0.05, seed))
        wrong += rule.verdict(0.01) is StopReason.SLOWER
    assert wrong <= 3
