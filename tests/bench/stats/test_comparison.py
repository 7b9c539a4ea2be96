"""Comparison of two timings."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from ckwatch.bench.stats.comparison import SpeedVerdict, centre_and_interval, compare, compare_interleaved
from ckwatch.bench.stats.summary import TimeSummary

Draws = Callable[[object], random.Random]
FAST, SLOW, SAME, UNSURE = SpeedVerdict.FAST, SpeedVerdict.SLOW, SpeedVerdict.SAME, SpeedVerdict.UNSURE


def measured(median: float, minimum: float, q3: float, error: float = 0.001) -> TimeSummary:
    return TimeSummary(
        count=50, median_us=median, minimum_us=minimum, q1_us=median, q3_us=q3, relative_error=error, noise=0.01
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "close"),
    [
        (measured(90, 89, 91), measured(100, 99, 101), FAST, False),
        (measured(110, 109, 111), measured(100, 99, 101), SLOW, False),
        (measured(98, 97.9, 98.1), measured(100, 99.9, 100.1), FAST, True),
        (measured(102, 101.9, 102.1), measured(100, 99.9, 100.1), SLOW, True),
        (measured(100, 99, 101), measured(100.3, 99.4, 101), SAME, False),
        (measured(100.6, 100.5, 100.7), measured(100.05, 100, 100.1), UNSURE, True),  # disjoint, not by the threshold
        (measured(110, 99, 120), measured(100, 95, 112), UNSURE, True),
        (measured(100, 80, 150, error=0.05), measured(100, 80, 150, error=0.05), UNSURE, True),
    ],
)
def test_intervals(ours: TimeSummary, theirs: TimeSummary, verdict: SpeedVerdict, close: bool) -> None:
    found = compare(ours, theirs)
    assert (found.verdict, found.close) == (verdict, close)
    assert found.ratio == pytest.approx(ours.median_us / theirs.median_us)


@pytest.mark.parametrize(("ours", "theirs", "verdict"), [(1, 2, FAST), (2, 1, SLOW)])
def test_the_other_way_round_it_is_the_opposite(ours: int, theirs: int, verdict: SpeedVerdict) -> None:
    assert compare(measured(ours, ours, ours), measured(theirs, theirs, theirs)).verdict is verdict


def test_the_threshold_is_the_caller_s() -> None:
    ours, theirs = measured(102, 101.9, 102.1), measured(100, 99.9, 100.1)
    assert compare(ours, theirs, threshold=0.03).verdict is SAME


Clock = Callable[[float], float]
"""The time that a launch takes, by the part of the measurement that is over."""

CLOCKS: dict[str, Clock] = {
    "even": lambda _: 1.0,
    "falls by 5 %": lambda at: 1 + 0.05 * at,
    "waves of 2 %": lambda at: 1 + 0.02 * math.sin(12 * at),
    "falls at first": lambda at: 1 + 0.04 * (1 - math.exp(-6 * at)),
    "a jump of 3 %": lambda at: 1.03 if at > 0.37 else 1.0,
}


def interleaved(
    source: random.Random, slower: float, noise: float, clock: Clock, blocks: int, length: int
) -> tuple[list[float], list[float]]:
    """Times of ours (`slower` times theirs) and theirs, in blocks ABBA ABBA …; one sample of 100 stalls."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(2 * blocks):
        is_ours = number % 4 in (0, 3)
        for sample in range(length):
            at = (number + sample / length) / (2 * blocks)
            stall = source.uniform(4, 20) if source.random() < 0.01 else 1.0
            time = 100 * (slower if is_ours else 1.0) * clock(at) * (1 + noise * source.gauss(0, 1)) * stall
            (ours if is_ours else theirs).append(time)
    return ours, theirs


TRIALS = 60
ENOUGH = math.ceil(TRIALS * 19 / 20)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("noise", [0.002, 0.005, 0.01])
@pytest.mark.parametrize(("slower", "expected"), [(1.0, SAME), (1.02, SLOW), (1 / 1.02, FAST)])
def test_at_least_19_of_20_trials_are_right(
    draws: Draws, clock: str, noise: float, slower: float, expected: SpeedVerdict
) -> None:
    source = draws(f"{clock} {noise} {expected}")
    trials = [interleaved(source, slower, noise, CLOCKS[clock], blocks=24, length=10) for _ in range(TRIALS)]
    found = Counter(compare_interleaved(ours, theirs, 24).verdict for ours, theirs in trials)
    assert found[expected] >= ENOUGH, found


@pytest.mark.parametrize("slower", [1.0, 1.02])
def test_what_is_wrong_is_not_said_with_much_noise(draws: Draws, slower: float) -> None:
    source = draws(5)
    trials = [interleaved(source, slower, 0.05, CLOCKS["waves of 2 %"], blocks=24, length=5) for _ in range(TRIALS)]
    found = Counter(compare_interleaved(ours, theirs, 24).verdict for ours, theirs in trials)
    wrong = FAST if slower > 1 else SLOW
    assert found[UNSURE] > TRIALS // 2, found
    assert found[wrong] <= TRIALS // 20, found


@pytest.mark.parametrize("blocks", [1, 2, 5, 11, 21])
def test_too_few_blocks_decide_nothing(blocks: int) -> None:
    found = compare_interleaved([200.0] * blocks, [100.0] * blocks, blocks)
    assert (found.verdict, found.close) == (UNSURE, True)
    assert found.ratio == pytest.approx(2.0)


def test_an_even_drift_cancels() -> None:
    # A1 B1 B2 A2 …: every block takes 1 % of the first longer than the one before
    order = [number for number in range(48) if number % 4 in (0, 3)], [n for n in range(48) if n % 4 in (1, 2)]
    ours, theirs = ([100.0 + number for number in numbers] for numbers in order)
    found = compare_interleaved(ours, theirs, 24)
    assert found.verdict is SAME
    assert found.ratio == pytest.approx(1.0, abs=2e-4)


@pytest.mark.parametrize(("ours", "theirs", "blocks"), [([1.0], [1.0], 2), ([], [], 1), ([1.0], [1.0], 0)])
def test_fewer_samples_than_blocks(ours: list[float], theirs: list[float], blocks: int) -> None:
    with pytest.raises(ValueError, match="blocks"):
        compare_interleaved(ours, theirs, blocks)


def test_times_are_above_zero() -> None:
    with pytest.raises(ValueError, match="above 0"):
        compare_interleaved([0.0] * 12, [1.0] * 12, 12)


def test_few_samples_decide_nothing() -> None:
    ours, theirs = measured(110, 109, 111), measured(100, 99, 101)
    for count, verdict in ((9, UNSURE), (10, SLOW)):
        found = compare(replace(ours, count=count), theirs)
        assert (found.verdict, found.close) == (verdict, count < 10)
        assert compare(ours, replace(theirs, count=count)).verdict is verdict


def test_of_a_thousand_comparisons_of_equals_at_most_one_is_wrong(draws: Draws) -> None:
    """Noise that is much louder than the threshold, which then hides no mistake."""
    source = draws("equals")
    signs = [[source.gauss(0, 0.2) for _ in range(4 * 11)] for _ in range(4000)]
    wrong = 0
    for noise in signs:
        times = [100 * math.exp(one) for one in noise]
        wrong += compare_interleaved(times[::2], times[1::2], 22).verdict in (FAST, SLOW)
    assert wrong <= 12, "with a rate of 1 in 1,000, more than 12 of 4,000 are seen once in 4,000 times"


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # exact critical values of the signed rank test at 5 %, two-sided: n = 6: 0, n = 9: 5
        ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 1.0, 32.0),
        ([float(2**at) for at in range(9)], 4.0, 132.0),
    ],
)
def test_intervals_of_the_signed_rank_test(values: list[float], low: float, high: float) -> None:
    found_low, centre, found_high = centre_and_interval(values)
    assert (found_low, found_high) == (low, high)
    assert found_low < centre < found_high


@pytest.mark.parametrize("count", [6, 10, 20])
def test_the_interval_holds_the_truth_in_95_of_100(draws: Draws, count: int) -> None:
    source = draws(count)
    intervals = [centre_and_interval([source.gauss(0, 1) for _ in range(count)]) for _ in range(1000)]
    assert 935 <= sum(low <= 0 <= high for low, _, high in intervals) <= 985
