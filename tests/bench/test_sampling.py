"""The timing loop on a fake device: what lies between the events, whose turn it is, what is left out, when it ends."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ckwatch.bench.guarded_memory import GuardedBuffer
from ckwatch.bench.job import Precision
from ckwatch.bench.report import FailureKind, Samples, StopReason
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.sampling import BLOCK_LAUNCHES, PAIRED_BLOCKS, WARM_UP_LIMIT, ContestantRunner, Sampler, rounds
from ckwatch.bench.stats.comparison import SpeedVerdict, compare_interleaved
from ckwatch.model.roofline import CacheState
from fakes.fake_runtime import FakeRuntime

PRECISION = Precision(warm_up_s=0.05, minimum_s=0.0, budget_s=2.0, minimum_samples=20, maximum_samples=4000)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # noise of a test


class Track:
    """A fake device and the contestants on it. `turns` has the names in the order of their blocks."""

    def __init__(self, *names: str, precision: Precision = PRECISION, **runtime: object) -> None:
        self.runtime = FakeRuntime(**runtime)  # type: ignore[arg-type]
        self.turns: list[str] = []
        self.stages: list[tuple[str, str]] = []
        flush = self.runtime.allocate(1 << 10)
        self.sampler = Sampler(
            self.runtime,
            precision,
            GuardedBuffer("flush", flush, 1 << 10),
            lambda stage, name: self.stages.append((stage, name)),
            self.runtime.seconds,
        )
        self.runners = [ContestantRunner(name, self.launch, self.turn(name)) for name in names or ("a",)]

    def launch(self) -> None:
        self.runtime.log.append("launch")

    def turn(self, name: str) -> Callable[[], None]:
        return lambda: self.turns.append(name)

    def sample(self, cache: CacheState, clock_mhz: float | None = None) -> list[Samples]:
        self.turns.clear()
        self.runtime.log.clear()
        return self.sampler.sample(self.runners, cache, clock_mhz)


def blocks(log: list[str]) -> list[list[str]]:
    """The log between each gate and the next. What is read of a block comes after the next one was begun."""
    found: list[list[str]] = []
    for entry in log:
        if entry == "gate":
            found.append([])
        found[-1].append(entry)
    return found


def _put(block: list[str]) -> list[str]:
    """Work on the stream, and the gate."""
    return block[: block.index("open") + 1]


def test_the_device_never_waits_for_the_host() -> None:
    track = Track()
    track.sample(CacheState.COLD)
    _, *timed = blocks(track.runtime.log)  # the first tells how long a launch takes
    after = [block[block.index("open") + 1 :] for block in timed]
    assert after[0] == [], "nothing is waited for before two blocks are there"
    assert all(found == ["reading", "wait"] for found in after[1:-1])
    assert after[-1] == ["reading", "wait", "synchronize"], "what is in flight at the end has ended"


def test_cold_launches_have_a_flush_before_their_events() -> None:
    track = Track()
    (samples,) = track.sample(CacheState.COLD)
    assert set(samples.times_us) == {20.0}
    for block in blocks(track.runtime.log):
        launches = block.count("launch")
        assert _put(block) == ["gate", *["fill", "begin", "launch", "end"] * launches, "open"]
    assert set(track.runtime.fills) == {1 << 10}


def test_hot_launches_come_after_one_that_does_not_count() -> None:
    track = Track()
    (samples,) = track.sample(CacheState.HOT)
    assert set(samples.times_us) == {10.0}
    for block in blocks(track.runtime.log):
        launches = block.count("launch") - 1
        assert _put(block) == ["gate", "launch", *["begin", "launch", "end"] * launches, "open"]
        assert launches <= BLOCK_LAUNCHES


def test_slow_launches_are_blocks_of_one() -> None:
    track = Track(cost_us=lambda _cold: 30_000.0)
    (samples,) = track.sample(CacheState.COLD)
    assert len(samples.times_us) == samples.blocks
    assert len(samples.times_us) == 20


def test_contestants_go_there_and_back() -> None:
    track = Track("a", "b", "c")
    found = track.sample(CacheState.COLD)
    # each has a first block that only tells how long a launch takes; the last was begun and is not needed
    turns = track.turns[3:-1]
    taken = ["".join(turns[at : at + 6]) for at in range(0, len(turns), 6)]
    assert all(sorted(one) == sorted("aabbcc") and one == one[::-1] for one in taken)
    assert {samples.blocks for samples in found} == {len(turns) // 3}
    assert found[0].blocks >= PAIRED_BLOCKS
    assert {len(samples.times_us) % samples.blocks for samples in found} == {0}


def test_each_place_of_a_round_is_as_often_one_contestants_as_the_others() -> None:
    taken = ["".join(one) for one in itertools.islice(rounds("ab", seeded(1)), 200)]
    pairs = Counter(zip(taken[::2], taken[1::2], strict=True))
    assert set(pairs) == {("abba", "baab"), ("baab", "abba")}
    assert min(pairs.values()) > 30, "lots decide which comes first"
    firsts = Counter(one[0] for one in itertools.islice(rounds("abc", seeded(1)), 600))
    assert min(firsts.values()) > 150
    assert next(rounds("a", seeded(1))) == ("a",)


@pytest.mark.parametrize("place", range(4))
def test_what_a_place_in_a_round_costs_is_no_difference(place: int) -> None:
    """With ABBA all the time one contestant alone had the cost, and of equals every measurement said FAST or SLOW."""
    for seed in range(8):
        rng = seeded(seed)
        track = Track("ours", "theirs")
        track.sampler.lots = seeded(100 + seed)

        def cost(_cold: bool, track: Track = track, rng: random.Random = rng) -> float:
            return rng.gauss(100, 0.2) * (1.03 if (len(track.turns) - 3) % 4 == place else 1.0)

        track.runtime.cost_us = cost
        ours, theirs = track.sample(CacheState.HOT)
        found = compare_interleaved(ours.times_us, theirs.times_us, ours.blocks)
        assert found.verdict not in {SpeedVerdict.FAST, SpeedVerdict.SLOW}, seed


@pytest.mark.parametrize(
    ("changes", "cost", "stop"),
    [
        ({}, lambda _rng: 10.0, StopReason.PRECISE),
        ({}, lambda rng: rng.gauss(100, 0.5), StopReason.PRECISE),
        ({"relative_error": 1e-9}, lambda rng: rng.gauss(100, 3), StopReason.STEADY_NOISE),
        ({"relative_error": 1e-9, "budget_s": 0.001}, lambda rng: rng.gauss(100, 3), StopReason.BUDGET),
        ({"relative_error": 1e-9, "maximum_samples": 60}, lambda rng: rng.gauss(100, 3), StopReason.BUDGET),
    ],
)
def test_why_it_ends(changes: dict[str, Any], cost: Callable[[random.Random], float], stop: StopReason) -> None:
    rng = seeded(3)
    track = Track(precision=replace(PRECISION, **changes), cost_us=lambda _cold: cost(rng))
    (samples,) = track.sample(CacheState.HOT)
    assert samples.stop is stop


def test_the_budget_is_for_all_together() -> None:
    """One with short turns does not make the others go on, and has blocks as long as theirs."""
    rng = seeded(9)
    precision = replace(PRECISION, relative_error=1e-9, budget_s=0.2, minimum_samples=2000)
    track = Track("short", "long", precision=precision)
    track.runtime.cost_us = lambda _cold: rng.gauss(1, 0.1) * (10.0 if track.turns[-1] == "short" else 2000.0)
    begin = track.runtime.seconds()
    short, long = track.sample(CacheState.HOT)
    assert (short.stop, long.stop) == (StopReason.BUDGET, StopReason.BUDGET)
    assert 0.4 <= track.runtime.seconds() - begin < 0.5
    assert (len(short.times_us), short.blocks) == (len(long.times_us), long.blocks)


def test_samples_below_the_clock_floor_are_left_out_for_all() -> None:
    readings = iter([2000.0] * 2 + [2000.0, 1400.0, 2000.0, 2000.0] + [1990.0] * 1000)
    track = Track("a", "b", clock_mhz=lambda: next(readings))
    a, b = track.sample(CacheState.COLD, 2000.0)
    assert a.discarded == b.discarded > 0
    assert a.blocks == b.blocks
    assert set(a.clocks_mhz) | set(b.clocks_mhz) == {1990.0}
    assert len(a.clocks_mhz) == len(a.times_us)


def test_a_clock_that_never_comes_back() -> None:
    track = Track(clock_mhz=lambda: 700.0)
    with pytest.raises(BenchmarkError, match="stayed below 75% of the 2000 MHz") as caught:
        track.sample(CacheState.COLD, 2000.0)
    assert caught.value.kind is FailureKind.BROKEN


def test_no_clock_no_floor() -> None:
    (samples,) = Track(clock_mhz=lambda: None).sample(CacheState.COLD, None)
    assert (samples.discarded, samples.clocks_mhz) == (0, ())


@pytest.mark.parametrize("time_us", [0.0, -1.0])
def test_a_launch_takes_time(time_us: float) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Track(cost_us=lambda _cold: time_us).sample(CacheState.HOT)
    assert caught.value.kind is FailureKind.IMPOSSIBLE


def test_a_failing_launch_opens_the_gate() -> None:
    track = Track()

    def fail() -> None:
        raise BenchmarkError(FailureKind.ERROR_CODE, "7")

    with pytest.raises(BenchmarkError, match="7"):
        track.sampler.sample([ContestantRunner("a", fail)], CacheState.HOT, None)
    assert not track.runtime.gated
    assert track.stages[-1] == ("timing, hot cache", "a")


def test_the_warm_up_lasts_until_the_clock_is_steady() -> None:
    track = Track("a", "b")
    clocks = iter([*(500.0 + 5 * step for step in range(300)), *[2000.0] * 100_000])
    track.runtime.clock_mhz = lambda: next(clocks)
    warm = track.sampler.warm_up(track.runners)
    assert (warm.clock_mhz, warm.steady) == (2000.0, True)
    assert warm.seconds >= PRECISION.warm_up_s
    assert {name for _, name in track.stages} == {"a", "b"}
    assert "fill" not in track.runtime.log
    assert track.runtime.log[-1] == "synchronize"


def test_the_warm_up_for_a_cold_cache_flushes() -> None:
    track = Track()
    track.sampler.warm_up(track.runners, CacheState.COLD)
    assert track.runtime.log.count("fill") == track.runtime.log.count("launch")


def test_the_warm_up_takes_its_time_though_all_is_steady() -> None:
    track = Track()
    warm = track.sampler.warm_up(track.runners)
    assert (warm.clock_mhz, warm.steady) == (None, True)
    assert PRECISION.warm_up_s <= warm.seconds < 2 * PRECISION.warm_up_s


def test_a_warm_up_without_end_is_ended() -> None:
    rng = seeded(5)
    track = Track(clock_mhz=lambda: rng.uniform(500, 2000))
    warm = track.sampler.warm_up(track.runners)
    assert not warm.steady
    assert PRECISION.warm_up_s * WARM_UP_LIMIT <= warm.seconds < PRECISION.warm_up_s * (WARM_UP_LIMIT + 1)


@pytest.mark.parametrize(
    ("slower", "verdict"), [(1.02, SpeedVerdict.SLOW), (1.0, SpeedVerdict.SAME), (0.97, SpeedVerdict.FAST)]
)
def test_taking_turns_tells_a_small_difference_under_drift(slower: float, verdict: SpeedVerdict) -> None:
    """The clock falls by 10 % meanwhile: apart, the second would look slower in any case."""
    rng = seeded(11)
    track = Track("ours", "theirs")

    def cost(_cold: bool) -> float:
        factor = slower if track.turns[-1] == "ours" else 1.0
        return 100 * factor * (1 + track.runtime.seconds()) * rng.gauss(1, 0.007)

    track.runtime.cost_us = cost
    ours, theirs = track.sample(CacheState.COLD)
    assert compare_interleaved(ours.times_us, theirs.times_us, ours.blocks).verdict is verdict


@pytest.mark.parametrize(
    ("cache", "between"),
    [(CacheState.COLD, ["fill", "flush instructions", "begin"]), (CacheState.HOT, ["flush instructions", "begin"])],
)
def test_instruction_caches_are_flushed_before_each_event_pair(cache: CacheState, between: list[str]) -> None:
    track = Track()
    sampler = Sampler(
        track.runtime,
        PRECISION,
        GuardedBuffer("flush", track.runtime.allocate(1 << 10), 1 << 10),
        lambda _stage, _name: None,
        track.runtime.seconds,
        flush_instructions=lambda: track.runtime.log.append("flush instructions"),
    )
    track.runtime.log.clear()
    sampler.sample(track.runners, cache, None)
    log = track.runtime.log
    begun = [at for at, entry in enumerate(log) if entry == "begin"]
    assert begun
    assert all(log[at - len(between) + 1 : at + 1] == between for at in begun)
    assert log.count("flush instructions") == len(begun)
