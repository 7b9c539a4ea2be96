"""A series of times as a few numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from ckwatch.bench.stats.summary import median, median_error, quantile, summarize

Draws = Callable[[object], random.Random]


def test_of_known_times() -> None:
    found = summarize([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (found.count, found.median_us, found.minimum_us, found.q1_us, found.q3_us) == (5, 3.0, 1.0, 2.0, 4.0)
    assert found.noise == pytest.approx(2.0 / 1.3489795 / 3.0)


def test_one_time_has_no_known_error() -> None:
    found = summarize([7.0])
    assert (found.median_us, found.minimum_us, found.q3_us, found.noise) == (7.0, 7.0, 7.0, 0.0)
    assert math.isinf(found.relative_error)


def test_no_times_have_no_summary() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarize([])
    with pytest.raises(ValueError, match="no samples"):
        median([])


@pytest.mark.parametrize("part", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 33])
def test_quantiles_are_numpy_s(draws: Draws, part: float, count: int) -> None:
    values = sorted(draws(count).uniform(1, 2) for _ in range(count))
    assert quantile(values, part) == pytest.approx(float(np.quantile(values, part)))


@pytest.mark.parametrize("count", [20, 100, 400])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two modes"])
def test_the_error_of_the_median_is_what_repetitions_show(draws: Draws, count: int, kind: str) -> None:
    source = draws(f"{kind} {count}")
    kinds: dict[str, Callable[[], float]] = {
        "normal": lambda: source.gauss(100, 1),
        "skewed": lambda: 100 + source.expovariate(1),
        "two modes": lambda: source.gauss(100 if source.random() < 0.7 else 104, 0.5),
    }
    draw = kinds[kind]
    runs = [sorted(draw() for _ in range(count)) for _ in range(400)]
    medians = [median(run) for run in runs]
    claimed = float(np.mean([median_error(run) for run in runs]))
    assert claimed == pytest.approx(float(np.std(medians)), rel=0.2)


def test_rare_stalls_change_nothing(draws: Draws) -> None:
    source = draws(1)
    times = [source.gauss(100, 1) for _ in range(200)]
    stalled = [time * 15 if at % 40 == 7 else time for at, time in enumerate(times)]
    calm, disturbed = summarize(times), summarize(stalled)
    assert disturbed.median_us == pytest.approx(calm.median_us, rel=0.002)
    assert disturbed.noise == pytest.approx(calm.noise, rel=0.2)
