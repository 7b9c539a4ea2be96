"""The noise floor, and that below it nothing is FAST or SLOW: simulated pairs of equals, and of kernels 2 % apart."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from ckwatch.bench.stats.comparison import SpeedVerdict, compare, compare_interleaved
from ckwatch.bench.stats.noise_floor import jitter_us, resolution_us, step_us
from ckwatch.bench.stats.summary import summarize

Draws = Callable[[object], random.Random]
Pair = tuple[list[float], list[float]]
FAST, SLOW, SAME, UNSURE = SpeedVerdict.FAST, SpeedVerdict.SLOW, SpeedVerdict.SAME, SpeedVerdict.UNSURE

TRIALS, BLOCKS, LENGTH = 200, 24, 10
SIGMA = 0.002


def heavy_tails(source: random.Random, _at: float) -> float:
    return 1 + 0.003 * abs(source.gauss(0, 1)) + (0.05 * source.paretovariate(1.5) if source.random() < 0.1 else 0.0)


def drift(source: random.Random, at: float) -> float:
    return (1 + 0.06 * at) * (1 + SIGMA * source.gauss(0, 1))


def waves(source: random.Random, at: float) -> float:
    return (1 + 0.02 * math.sin(12 * at)) * (1 + SIGMA * source.gauss(0, 1))


def plain(source: random.Random, _at: float) -> float:
    return 1 + SIGMA * source.gauss(0, 1)


def taken(
    source: random.Random,
    noise: Callable[[random.Random, float], float],
    *,
    time_us: float = 150.0,
    slower: float = 1.0,
    step: float = 0.0,
    modes: tuple[float, ...] = (1.0,),
) -> Pair:
    """Times in blocks ABBA ABBA …, ours `slower` times theirs; a timer with steps of `step`; a clock that now and then
    goes over to another of its `modes`."""
    ours: list[float] = []
    theirs: list[float] = []
    mode = source.choice(modes)
    for block in range(2 * BLOCKS):
        is_ours = block % 4 in (0, 3)
        mode = source.choice(modes) if source.random() < 0.2 else mode
        for sample in range(LENGTH):
            value = time_us * (slower if is_ours else 1.0) * mode
            value *= noise(source, (block + sample / LENGTH) / (2 * BLOCKS))
            (ours if is_ours else theirs).append(max(1, round(value / step)) * step if step else value)
    return ours, theirs


def verdicts(source: random.Random, make: Callable[[random.Random], Pair]) -> tuple[Counter[str], Counter[str]]:
    """Of many pairs: in turns, and as if they had been taken apart."""
    turns: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for _ in range(TRIALS):
        ours, theirs = make(source)
        floor_us = max(step_us(ours), step_us(theirs))
        turns[compare_interleaved(ours, theirs, BLOCKS, floor_us=floor_us).verdict] += 1
        apart[compare(summarize(ours), summarize(theirs), floor_us=floor_us).verdict] += 1
    return turns, apart


EQUALS: dict[str, Callable[[random.Random], Pair]] = {
    "heavy tails": lambda source: taken(source, heavy_tails),
    "a drift of 6 %": lambda source: taken(source, drift),
    "waves of 2 %": lambda source: taken(source, waves),
    "a clock with two modes": lambda source: taken(source, plain, modes=(1.0, 1.08)),
    "a timer of half a microsecond": lambda source: taken(source, plain, time_us=8.24, step=0.5),
    "between two steps of the timer": lambda source: taken(source, plain, time_us=8.25, step=0.5),
    "closer than a step of the timer": lambda source: taken(source, plain, time_us=8.24, step=0.5, slower=1.004),
    "a coarse timer, a long kernel": lambda source: taken(source, plain, step=0.5),
}


@pytest.mark.parametrize("name", EQUALS)
def test_of_a_hundred_pairs_of_equals_at_most_one_is_fast_or_slow(draws: Draws, name: str) -> None:
    for found in verdicts(draws(name), EQUALS[name]):
        assert found[FAST] + found[SLOW] <= TRIALS // 100, found


DIFFERENT: dict[str, Callable[[random.Random, float], Pair]] = {
    "heavy tails": lambda source, slower: taken(source, heavy_tails, slower=slower),
    "a drift of 6 %": lambda source, slower: taken(source, drift, slower=slower),
    "waves of 2 %": lambda source, slower: taken(source, waves, slower=slower),
    "a timer of half a microsecond": lambda source, slower: taken(source, plain, step=0.5, slower=slower),
    "a timer of a microsecond": lambda source, slower: taken(source, plain, step=1.0, slower=slower),
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize(("slower", "expected"), [(1.02, SLOW), (1 / 1.02, FAST)])
def test_two_percent_above_100_microseconds_are_found(
    draws: Draws, name: str, slower: float, expected: SpeedVerdict
) -> None:
    turns, apart = verdicts(draws(f"{name} {slower}"), lambda source: DIFFERENT[name](source, slower))
    assert turns[expected] >= 0.95 * TRIALS, turns
    wrong = FAST if expected is SLOW else SLOW
    assert turns[wrong] + apart[wrong] == 0


def test_a_difference_below_the_floor_is_none() -> None:
    ours, theirs = [10.4] * BLOCKS, [10.0] * BLOCKS
    assert compare_interleaved(ours, theirs, BLOCKS).verdict is SLOW
    assert compare_interleaved(ours, theirs, BLOCKS, floor_us=0.5).verdict is SAME
    assert compare(summarize(ours), summarize(theirs)).verdict is SLOW
    assert compare(summarize(ours), summarize(theirs), floor_us=0.5).verdict is SAME


@pytest.mark.parametrize(
    ("ours", "theirs", "clock_ratio", "verdict"),
    [
        (108.0, 100.0, 1.0, SLOW),
        (108.0, 100.0, 1 / 1.08, UNSURE),  # ours had the lower clock
        (92.0, 100.0, 1.09, UNSURE),
        (80.0, 100.0, 1.09, FAST),
        (120.0, 100.0, 1.01, SLOW),
    ],
)
def test_what_clocks_explain_is_no_difference(
    ours: float, theirs: float, clock_ratio: float, verdict: SpeedVerdict
) -> None:
    found = compare(summarize([ours] * 20), summarize([theirs] * 20), clock_ratio=clock_ratio)
    assert found.verdict is verdict
    assert found.close is (verdict is UNSURE)  # both are timed in turns then


@pytest.mark.parametrize(
    ("times", "resolution"),
    [([1.0, 1.5, 3.0, 1.0], 0.5), ([2.0, 2.0], 0.0), ([10.0, 10.0001, 10.032], 0.032), ([], 0.0)],
)
def test_resolution(times: list[float], resolution: float) -> None:
    assert resolution_us(times) == pytest.approx(resolution, abs=1e-3)


def test_jitter() -> None:
    assert jitter_us([1.0, 1.0, 1.0, 1.0]) == 0.0
    assert jitter_us([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="no times"):
        jitter_us([])


@pytest.mark.parametrize(
    ("times", "step"),
    [
        ([8.0] * 10 + [8.5] * 10, 0.5),
        ([8.0] * 10 + [40.0], 0.0),  # a stall is no step
        ([8.0 + 0.01 * number for number in range(20)], 0.0),  # nothing repeats itself
        ([8.0, 8.5, 8.0], 0.0),  # too few
    ],
)
def test_steps_of_a_timer(times: list[float], step: float) -> None:
    assert step_us(times) == pytest.approx(step)
