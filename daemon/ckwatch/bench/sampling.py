"""The timing loop: samples of launches, with the contestants taking turns.

A turn is a block of launches of one contestant, put on the stream behind a closed gate, with an event pair around
each, so that the host's own time is in none of them. Contestants take turns in rounds there and back, ABBA: whatever
drifts affects all of them alike. After each round comes its mirror, BAAB, and lots decide which of the two is first:
what a place does to its block, such as the first one's after the host has looked at the samples, it does to all
contestants alike, too. Where the clock can be read, it is read while a block runs; a round with a block at a dropped
clock is discarded for all.

Cold: before each event pair at least twice the last-level cache is written. Hot: a block begins with a launch that is
not counted, so that the caches hold what this contestant's launch leaves. Instruction caches are flushed by a kernel of
ours before each event pair where that is asked for; else they hold what the launch before left.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field
from typing import TypeVar

from ckwatch.bench.guarded_memory import GuardedBuffer
from ckwatch.bench.job import Precision
from ckwatch.bench.report import FailureKind, Samples, StopReason
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceEvent, DeviceRuntime, Launch
from ckwatch.bench.stats.stopping import StoppingRule, is_steady
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState

T = TypeVar("T")

BLOCK_LAUNCHES = 50
"""At most, so that no stream's queue is ever full behind a closed gate."""

PAIRED_BLOCKS = 24
"""With several contestants at least so many of each, for `ckwatch.bench.stats.comparison`."""

WARM_UP_LIMIT = 8
"""A clock that is not steady after so many times the warm-up is taken as it is."""

AHEAD = 2
"""Blocks that are on the stream or running at a time."""

_SETTLED = 60  # blocks that `steady` is shown
_FLUSH_VALUES = (0x00, 0x55)


_PendingBlock = list[tuple[DeviceEvent, DeviceEvent]]
"""The events of a block that is on the stream."""


@dataclass(slots=True)
class ContestantRunner:
    """A contestant as the timing loop sees it. Outside of what is timed, `turn` is called before its launches, and
    `restore` before each of them: it puts on the stream what gives in-out tensors their first content back."""

    name: str
    launch: Launch
    turn: Callable[[], None] = lambda: None
    restore: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The result of the warm-up: the clock that it reached, None if that cannot be read."""

    clock_mhz: float | None
    steady: bool
    seconds: float


@dataclass(slots=True)
class _Block:
    times_us: list[float]
    clock_mhz: float | None


@dataclass(slots=True)
class _Series:
    """One contestant in one cache state."""

    runner: ContestantRunner
    stopping: StoppingRule
    elapsed_s: float = 0.0
    times_us: list[float] = field(default_factory=list)
    clocks_mhz: list[float] = field(default_factory=list)
    discarded: int = 0
    blocks: int = 0
    stop: StopReason | None = None


@dataclass(slots=True)
class Sampler:
    """The timing loop on one device. Every method raises BenchmarkError for what a launch or the device does.

    `flush` is memory of at least twice the last-level cache; `at(stage, contestant)` gets what is done.
    `flush_instructions` is launched before each launch that is timed, where instruction caches are to be empty.
    `slowed` counts of all `blocks` those during which the device was slowed down, by the reason. `lots` draws whose
    turn is first.
    """

    runtime: DeviceRuntime
    precision: Precision
    flush: GuardedBuffer
    at: Callable[[str, str], None]
    clock: Callable[[], float] = time.monotonic
    flush_instructions: Launch | None = None
    blocks: int = 0
    slowed: Counter[str] = field(default_factory=Counter)
    lots: random.Random = field(default_factory=random.Random)
    _events: list[_PendingBlock] = field(default_factory=lambda: [[] for _ in range(AHEAD)])
    _begun: int = 0
    _flushes: int = 0

    def warm_up(self, runners: Sequence[ContestantRunner], cache: CacheState = CacheState.HOT) -> WarmUp:
        """Keep the device busy as `sample` will, for `warm_up_s` and until its clock, or the launches' time, is steady.

        A flush takes less power than a kernel: each cache state has a clock of its own.
        """
        begin = self.clock()
        limit_s = self.precision.warm_up_s * WARM_UP_LIMIT
        clocks: list[float] = []
        times: list[float] = []
        settled = False
        launches = self._launches(runners, cache, "warming up")
        with closing(self._blocks(itertools.cycle(runners), launches, cache, "warming up")) as blocks:
            for runner, block, _ in blocks:
                if block.clock_mhz is not None:
                    clocks.append(block.clock_mhz)
                if runner is runners[0]:
                    times.append(sorted(block.times_us)[len(block.times_us) // 2])
                elapsed_s = self.clock() - begin
                if elapsed_s >= self.precision.warm_up_s:
                    settled = is_steady((clocks or times)[-_SETTLED:])
                    if settled or elapsed_s >= limit_s:
                        break
        last = sorted(clocks[-10:])
        return WarmUp(last[len(last) // 2] if last else None, settled, self.clock() - begin)

    def sample(self, runners: Sequence[ContestantRunner], cache: CacheState, clock_mhz: float | None) -> list[Samples]:
        """Samples of each contestant, in the order of `runners`; `clock_mhz` is the clock that the warm-up reached.
        Raises BenchmarkError (BROKEN) when the clock was below its floor all the time."""
        stage = f"timing, {cache} cache"
        launches = self._launches(runners, cache, stage)
        series = {id(runner): _Series(runner, StoppingRule(self.precision)) for runner in runners}
        floor = self.precision.clock_floor * clock_mhz if clock_mhz else 0.0
        turns = itertools.chain.from_iterable(rounds(runners, self.lots))
        # a half of a round would leave a pair without its mirror
        length = 1 if len(runners) == 1 else 2 * len(runners)
        ended: list[tuple[_Series, _Block]] = []
        with closing(self._blocks(turns, launches, cache, stage)) as blocks:
            for runner, block, took_s in blocks:
                one = series[id(runner)]
                one.elapsed_s += took_s
                ended.append((one, block))
                if len(ended) == length:
                    _take_round(ended, floor)
                    ended.clear()
                    if self._enough(list(series.values())):
                        break
        found = list(series.values())
        if not found[0].times_us:
            raise BenchmarkError(
                FailureKind.BROKEN,
                f"the device's clock stayed below {self.precision.clock_floor:.0%} of the {clock_mhz:.0f} MHz of the "
                "warm-up: no sample can be used",
                "Something slows the device down: heat, a power limit, or other work on it.",
            )
        return [
            Samples(
                cache=cache,
                times_us=tuple(one.times_us),
                clocks_mhz=tuple(one.clocks_mhz) if len(one.clocks_mhz) == len(one.times_us) else (),
                discarded=one.discarded,
                stop=one.stop or StopReason.BUDGET,
                blocks=one.blocks,
            )
            for one in found
        ]

    def _launches(self, runners: Sequence[ContestantRunner], cache: CacheState, stage: str) -> int:
        """How many launches a block has: the same for all, since medians of unlike blocks are unlike under noise."""
        times_us = []
        for runner in runners:
            self.at(stage, runner.name)
            begin = self.clock()
            block = self._end(self._begin(runner, 3, cold=cache is CacheState.COLD))
            # A flush belongs to the launch that it comes before: the host's clock has both.
            host_us = (self.clock() - begin) * 1e6 / (3 if cache is CacheState.COLD else 4)
            times_us.append(max(host_us, sorted(block.times_us)[1]))
        return _launches(self.precision.block_s, sum(times_us) / len(times_us))

    def _enough(self, series: Sequence[_Series]) -> bool:
        # All end together, so that they share their time: the one with the shortest turns does not prolong it.
        elapsed_s = sum(one.elapsed_s for one in series) / len(series)
        for one in series:
            verdict = one.stopping.verdict(elapsed_s)
            too_few = len(series) > 1 and one.blocks < PAIRED_BLOCKS and verdict is not StopReason.BUDGET
            one.stop = None if too_few else verdict
        return all(one.stop is not None for one in series)

    def _blocks(
        self, turns: Iterable[ContestantRunner], launches: int, cache: CacheState, stage: str
    ) -> Generator[tuple[ContestantRunner, _Block, float]]:
        """Blocks in these endless turns, with the host's seconds since the one before; none is left on the stream when
        this is closed.

        The next block is on the stream before the last one ends: a device that has to wait gets faster.
        """
        begun: list[tuple[ContestantRunner, _PendingBlock]] = []
        last_s = self.clock()
        try:
            for runner in turns:
                self.at(stage, runner.name)
                begun.append((runner, self._begin(runner, launches, cold=cache is CacheState.COLD)))
                if len(begun) < AHEAD:
                    continue
                first, events = begun.pop(0)
                self.at(stage, first.name)
                block = self._end(events)
                now_s = self.clock()
                yield first, block, now_s - last_s
                last_s = now_s
        except GeneratorExit:
            self.runtime.synchronize()
            raise

    def _begin(self, runner: ContestantRunner, launches: int, *, cold: bool) -> _PendingBlock:
        """Put a block on the stream. Its events are used again by the block after the next ones."""
        runtime = self.runtime
        events = self._events[self._begun % AHEAD]
        self._begun += 1
        while len(events) < launches:
            events.append((runtime.event(), runtime.event()))
        pairs = events[:launches]
        runner.turn()
        with runtime.gate():
            if not cold:
                runner.restore()
                runner.launch()
            for begin, end in pairs:
                runner.restore()
                if cold:
                    self._flush_caches()
                if self.flush_instructions is not None:
                    self.flush_instructions()
                runtime.record(begin)
                runner.launch()
                runtime.record(end)
        return pairs

    def _end(self, pairs: _PendingBlock) -> _Block:
        """Wait for a block and read its times."""
        runtime = self.runtime
        reading = runtime.reading()
        runtime.wait(pairs[-1][1])
        self.blocks += 1
        self.slowed.update(reading.throttled_by)
        times_us = [runtime.elapsed_us(begin, end) for begin, end in pairs]
        if min(times_us) <= 0:
            raise BenchmarkError(FailureKind.IMPOSSIBLE, f"a launch took {min(times_us):g} us")
        return _Block(times_us, reading.clock_mhz)

    def _flush_caches(self) -> None:
        self._flushes += 1
        value = _FLUSH_VALUES[self._flushes % len(_FLUSH_VALUES)]
        self.runtime.fill(self.flush.address, value, self.flush.size_bytes)


def rounds(contestants: Sequence[T], lots: random.Random) -> Iterator[tuple[T, ...]]:
    """Rounds of turns without end: one contestant's alone, else there and back in an order that is drawn, then the
    other way round. Of two contestants each two rounds are ABBA BAAB or BAAB ABBA."""
    order = list(contestants)
    while True:
        lots.shuffle(order)
        back = order[::-1]
        yield from [(*order,)] if len(order) == 1 else [(*order, *back), (*back, *order)]


def _take_round(ended: Sequence[tuple[_Series, _Block]], floor: float) -> None:
    dropped = any(block.clock_mhz is not None and block.clock_mhz < floor for _, block in ended)
    for series, block in ended:
        if dropped:
            series.discarded += len(block.times_us)
            continue
        series.blocks += 1
        series.times_us += block.times_us
        series.stopping.add(block.times_us)
        if block.clock_mhz is not None:
            series.clocks_mhz += [block.clock_mhz] * len(block.times_us)


def _launches(block_s: float, time_us: float) -> int:
    return max(1, min(BLOCK_LAUNCHES, round(block_s * 1e6 / max(time_us, 1e-3))))
