"""How often are two measurements of one kernel called different, and how small a true difference is found?

    python -m benchmarks.false_alarms [NOISE …] [--trials 4000]
    python -m benchmarks.false_alarms --device cuda:0 --record FILE.json.xz [--seconds 40]

The first resamples recorded noise. A comparison in turns gets blocks of launches, put together from stretches of random
lengths (the stationary bootstrap of Politis and Romano, which keeps how neighbours depend on each other), half of them
from another run, so that what drifts between runs drifts within a comparison, too. Measurements apart are stretches of
two runs. Beside these rules stand those of scripts around `do_bench`: medians of two runs that differ by more than 1
% or 5 %. Power: the smallest slowdown that nine of ten comparisons notice, by recording. Then blocks stay where they
were recorded, with what their place in a round of four did to them, and with a cost of the first place besides: with
rounds that are ABBA all the time, as ckwatch took them once, and with those by lot.

The second takes such noise: the vendor's GEMM against itself in turns, in sizes of microseconds to a third of a
millisecond, hot and cold, each in several runs with a warm-up of its own. It counts what the rule says of every 24
blocks of each, one comparison after the other, and keeps a part of the blocks for the simulation.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import Any

from benchmarks.reporting import RESULTS, machine
from ckwatch.bench.job import Precision
from ckwatch.bench.sampling import rounds
from ckwatch.bench.stats.comparison import SpeedVerdict, compare, compare_interleaved
from ckwatch.bench.stats.noise_floor import step_us
from ckwatch.bench.stats.summary import median, summarize

NOISE = RESULTS / "noise"
"""Recordings that are simulated with."""

BLOCKS = 24
"""Of each contestant: what `ckwatch bench` takes at least (`PAIRED_BLOCKS`)."""

BLOCK_S = 0.002
"""Of a recording; `ckwatch bench` has 5 ms."""

APART_BLOCKS = round(Precision().minimum_s / BLOCK_S)
"""Of a measurement by itself, which lasts as long as those of `ckwatch bench`."""

STRETCH = 12
"""Mean length of what is taken from one place of a recording, in blocks."""

KEPT = 4
"""Samples of a block that a recording keeps."""

KEPT_BLOCKS = 600
"""Blocks of a run that a recording keeps."""

PROMISED = 1e-3
POWER = 0.9
SLOWDOWNS = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
SIZES = (256, 1024, 2048, 4096)
CPU_SIZES = (64, 128, 256)

DIFFERENT = (SpeedVerdict.FAST, SpeedVerdict.SLOW)


@dataclass(frozen=True, slots=True)
class Series:
    """Runs of one kernel: of each the blocks in the order in which they were taken, of each block some samples in
    microseconds. `clocks_mhz` by run and block; empty where the clock cannot be read."""

    name: str
    runs: tuple[tuple[tuple[float, ...], ...], ...]
    clocks_mhz: tuple[tuple[float, ...], ...] = ()

    def stretch(self, source: random.Random, blocks: int) -> list[tuple[float, ...]]:
        """Consecutive blocks of one run."""
        run = source.choice(self.runs)
        begin = source.randrange(max(len(run) - blocks, 0) + 1)
        return list(run[begin : begin + blocks])

    def patched(self, source: random.Random, blocks: int) -> list[tuple[float, ...]]:
        """As many blocks from several places, the first half of one run and the rest of another."""
        found: list[tuple[float, ...]] = []
        runs = source.sample(self.runs, 2) if len(self.runs) > 1 else [self.runs[0]] * 2
        while len(found) < blocks:
            run = runs[len(found) * 2 >= blocks]
            begin = source.randrange(len(run))
            length = 1 + int(source.expovariate(1 / STRETCH))
            found += run[begin : begin + length]
        return found[:blocks]

    def apart(self, source: random.Random, blocks: int) -> tuple[list[float], list[float], float]:
        """Samples of two measurements, each from a run of its own, and the ratio of their clocks."""
        runs = source.sample(range(len(self.runs)), 2) if len(self.runs) > 1 else [0, 0]
        found, clocks = [], []
        for at in runs:
            run = self.runs[at]
            begin = source.randrange(max(len(run) - blocks, 0) + 1)
            found.append([time for block in run[begin : begin + blocks] for time in block])
            clocks.append(median(self.clocks_mhz[at][begin : begin + blocks]) if self.clocks_mhz else 1.0)
        return found[0], found[1], clocks[0] / clocks[1]


Method = Callable[[Series, random.Random, float], bool]
"""Whether a comparison says that something is slower or faster, when it is slower by this factor."""


Rounds = Callable[[random.Random], Iterator[tuple[bool, ...]]]
"""Rounds of turns without end; True is one of ours."""


def by_lot(lots: random.Random) -> Iterator[tuple[bool, ...]]:
    """Return the rounds of `ckwatch bench`."""
    return rounds((True, False), lots)


def all_alike(_lots: random.Random) -> Iterator[tuple[bool, ...]]:
    """Return rounds that are ABBA all the time."""
    return repeat((True, False, False, True))


def in_turns(series: Series, source: random.Random, slower: float) -> bool:
    """Return whether ckwatch's rule for measurements in turns calls them different."""
    return _differ(series.patched(source, 2 * BLOCKS), by_lot(source), slower)


def in_place(order: Rounds, cost: float) -> Method:
    """Return the same rule for blocks that stay where they were recorded, when the first place of a round costs this
    part of a time."""

    def different(series: Series, source: random.Random, slower: float) -> bool:
        run = source.choice(series.runs)
        begin = source.randrange((len(run) - 2 * BLOCKS) // 4 + 1) * 4
        blocks = [
            tuple(time * (1 if at % 4 else 1 + cost) for time in block)
            for at, block in enumerate(run[begin : begin + 2 * BLOCKS])
        ]
        return _differ(blocks, order(source), slower)

    return different


def _differ(blocks: Sequence[Sequence[float]], order: Iterator[tuple[bool, ...]], slower: float) -> bool:
    width = min(map(len, blocks))
    turns = [*zip(blocks, chain.from_iterable(order), strict=False)]
    ours = [time * slower for block, is_ours in turns if is_ours for time in block[:width]]
    theirs = [time for block, is_ours in turns if not is_ours for time in block[:width]]
    return in_turns_verdict(ours, theirs) in DIFFERENT


def in_turns_verdict(ours: Sequence[float], theirs: Sequence[float], floor_us: float = 0.0) -> SpeedVerdict:
    """The rule for measurements in turns, of which no step of the timer is a difference."""
    floor_us = max(floor_us, step_us(ours), step_us(theirs))
    return compare_interleaved(ours, theirs, BLOCKS, floor_us=floor_us).verdict


def taken_apart(series: Series, source: random.Random, slower: float) -> bool:
    """Return whether ckwatch's rule for measurements that were taken apart calls them different."""
    ours, theirs, clock_ratio = series.apart(source, APART_BLOCKS)
    slow = [time * slower for time in ours]
    floor_us = max(step_us(slow), step_us(theirs))
    found = compare(summarize(slow), summarize(theirs), floor_us=floor_us, clock_ratio=clock_ratio)
    return found.verdict in DIFFERENT


def by_medians(threshold: float) -> Method:
    """Return the rule of a script: medians that differ by more than this part."""

    def different(series: Series, source: random.Random, slower: float) -> bool:
        ours, theirs, _ = series.apart(source, BLOCKS)
        ratio = median(ours) * slower / median(theirs)
        return max(ratio, 1 / ratio) > 1 + threshold

    return different


METHODS: dict[str, Method] = {
    "ckwatch, in turns": in_turns,
    "ckwatch, apart": taken_apart,
    "do_bench medians, 1 %": by_medians(0.01),
    "do_bench medians, 5 %": by_medians(0.05),
}


def interval(count: int, trials: int, deviations: float = 1.959964) -> tuple[float, float]:
    """Wilson's interval of 95 % for a rate."""
    square = deviations**2
    centre = (count + square / 2) / (trials + square)
    away = deviations / (trials + square) * math.sqrt(count * (trials - count) / trials + square / 4)
    return max(centre - away, 0.0), min(centre + away, 1.0)


def rate_words(count: int, trials: int) -> str:
    """`3 of 4000: 0.75 in 1,000 (0.26 to 2.20)`."""
    low, high = interval(count, trials)
    return f"{count} of {trials}: {1e3 * count / trials:.2f} in 1,000 ({1e3 * low:.2f} to {1e3 * high:.2f})"


def power(method: Method, series: Series, source: random.Random, trials: int) -> float | None:
    """Return the smallest slowdown that is noticed in nine of ten comparisons; None where it is larger than all."""
    for slowdown in SLOWDOWNS:
        if sum(method(series, source, 1 + slowdown) for _ in range(trials)) >= POWER * trials:
            return slowdown
    return None


def louder(series: Series, times: float) -> Series:
    """The series with deviations from the run's median that are so many times as large."""
    runs = []
    for run in series.runs:
        middle = median(time for block in run for time in block)
        runs.append(tuple(tuple(max(middle + times * (one - middle), middle / 100) for one in block) for block in run))
    return Series(f"{series.name}, {times:g} × the noise", tuple(runs), series.clocks_mhz)


def read(path: Path) -> list[Series]:
    """The series of a recording."""
    content = json.loads(lzma.decompress(path.read_bytes()))
    return [
        Series(
            f"{content['device']}, {one['name']}",
            tuple(tuple(tuple(at / 1e3 for at in block) for block in run) for run in one["runs_ns"]),
            tuple(map(tuple, one.get("clocks_mhz", ()))),
        )
        for one in content["series"]
    ]


def simulate(series: Sequence[Series], trials: int, seed: int = 1) -> dict[str, Any]:
    """Print and return the rates by method and series, and the power of each method."""
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        source = random.Random(seed)  # noqa: S311
        rates = {one.name: sum(method(one, source, 1.0) for _ in range(trials)) for one in series}
        total = sum(rates.values())
        least = {one.name: power(method, one, source, max(trials // 20, 100)) for one in series}
        found[name] = {"trials": trials * len(series), "alarms": total, "by_series": rates, "power": least}
        shown = ", ".join(sorted("nothing" if one is None else f"{100 * one:g} %" for one in least.values()))
        print(f"{name}: {rate_words(total, trials * len(series))}; notices {shown}", flush=True)
        for one, count in rates.items():
            if count:
                print(f"  {one}: {rate_words(count, trials)}", flush=True)
    return found


COSTS = (0.0, 0.005, 0.01, 0.02)


def simulate_places(series: Sequence[Series], trials: int, seed: int = 1) -> dict[str, Any]:
    """Print and return the rates and the power of both orders of turns, by what the first place of a round costs."""
    long = [one for one in series if min(map(len, one.runs)) >= 2 * BLOCKS]
    found: dict[str, Any] = {}
    for name, order in {"ABBA": all_alike, "by lot": by_lot}.items():
        for cost in COSTS:
            source = random.Random(seed)  # noqa: S311
            method = in_place(order, cost)
            rates = {one.name: sum(method(one, source, 1.0) for _ in range(trials)) for one in long}
            least = {one.name: power(method, one, source, max(trials // 20, 100)) for one in long}
            total = sum(rates.values())
            found[f"{name}, {100 * cost:g} %"] = {
                "trials": trials * len(long), "alarms": total, "by_series": rates, "power": least,
            }  # fmt: skip
            shown = ", ".join(sorted("nothing" if one is None else f"{100 * one:g} %" for one in least.values()))
            rate = rate_words(total, trials * len(long))
            print(f"{name}, the first place costs {100 * cost:g} %: {rate}; notices {shown}", flush=True)
    return found


def record(device: str, seconds: float, path: Path) -> int:
    """Take noise on a device: the exit status, 1 if the rule calls more than one in 1,000 different."""
    from ckwatch.bench.event_noise import noise_floor
    from ckwatch.bench.guarded_memory import GuardedMemory
    from ckwatch.bench.numerics.inputs import make_inputs
    from ckwatch.bench.numerics.storage import in_memory
    from ckwatch.bench.run_job import flush_bytes
    from ckwatch.bench.runtimes.selection import find_all_devices, runtime_module
    from ckwatch.bench.sampling import ContestantRunner, Sampler
    from ckwatch.bench.self_test.worker import library_problem
    from ckwatch.model.errors import CkwatchError
    from ckwatch.model.roofline import CacheState

    facts = next((one for one in find_all_devices().devices if one.name == device), None)
    if facts is None:
        raise CkwatchError(f"there is no device {device}")
    runs = max(2, round(seconds / 5))
    each = Precision(
        minimum_s=seconds / runs, budget_s=seconds / runs, minimum_samples=2, maximum_samples=10**9,
        relative_error=0.0, block_s=BLOCK_S,
    )  # fmt: skip
    kept, verdicts, by_series = [], Counter[str](), {}
    for size in CPU_SIZES if facts.kind == "cpu" else SIZES:
        runtime = runtime_module(facts.kind).open(facts)
        floor_us = noise_floor(runtime).us
        memory = GuardedMemory(runtime)
        problem = library_problem(facts.kind, size, size, size)
        addresses = {one.name: memory.allocate(one.name, one.size_bytes).address for one in problem.buffers}
        for name, elements in make_inputs(problem, 1).items():
            runtime.upload(addresses[name], in_memory(elements, problem.buffer(name).dtype))
        launch = runtime.library(problem, addresses)
        if launch is None:
            raise CkwatchError("the vendor's library is not installed")
        flush = memory.allocate("flush", flush_bytes(facts, facts.last_level_cache_bytes))
        runners = [ContestantRunner("ours", launch), ContestantRunner("theirs", launch)]
        for cache in (CacheState.HOT, CacheState.COLD):
            name, own, taken = f"GEMM of {size}³, {cache}", Counter[str](), []
            ran_at: list[list[float]] = []
            for number in range(runs):
                sampler = Sampler(runtime, each, flush, lambda _stage, _contestant: None, lots=_lots(number))
                warm = sampler.warm_up(runners, cache)
                mine, other = sampler.sample(runners, cache, warm.clock_mhz)
                ours, theirs = ([*_blocks(one.times_us, one.blocks)] for one in (mine, other))
                for at in range(0, min(len(ours), len(theirs)) - BLOCKS + 1, BLOCKS):
                    first, second = (
                        [time for block in side[at : at + BLOCKS] for time in block] for side in (ours, theirs)
                    )
                    own[in_turns_verdict(first, second, floor_us).value] += 1
                taken.append(_in_order(ours, theirs, number)[:KEPT_BLOCKS])
                if mine.clocks_mhz and other.clocks_mhz:
                    clocks = [[*_blocks(one.clocks_mhz, one.blocks)] for one in (mine, other)]
                    ran_at.append([block[0] for block in _in_order(clocks[0], clocks[1], number)[:KEPT_BLOCKS]])
            verdicts += own
            by_series[name] = dict(own)
            runs_ns = [[[round(1e3 * one) for one in block] for block in run] for run in taken]
            kept.append({"name": name, "runs_ns": runs_ns, "clocks_mhz": ran_at})
            shown = median(time for run in taken for block in run for time in block)
            print(f"  {name}: {shown:.2f} us, {dict(own)}", flush=True)
        memory.free()
    content = {"machine": machine(), "device": facts.description, "verdicts": by_series, "series": kept}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9))
    alarms, trials = sum(verdicts[one.value] for one in DIFFERENT), sum(verdicts.values())
    print(f"in turns on {facts.description}: {rate_words(alarms, trials)}; {dict(verdicts)}")
    return int(alarms > PROMISED * trials)


def _blocks(times_us: Sequence[float], blocks: int) -> list[Sequence[float]]:
    edges = [len(times_us) * at // blocks for at in range(blocks + 1)]
    return [times_us[begin:end] for begin, end in pairwise(edges)]


def _lots(run: int) -> random.Random:
    return random.Random(run)  # noqa: S311  # known, to tell the order of blocks from


def _in_order(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], run: int) -> list[tuple[float, ...]]:
    """Blocks in the order in which they were taken, of each some samples that lie evenly in it."""
    mine, other, found = iter(ours), iter(theirs), []
    turns = chain.from_iterable(by_lot(_lots(run)))
    for is_ours in islice(turns, 2 * min(len(ours), len(theirs))):
        block = next(mine if is_ours else other)
        found.append(tuple(block[len(block) * part // KEPT] for part in range(min(KEPT, len(block)))))
    return found


def main() -> int:
    """The exit status: 1 if ckwatch's rule in turns is wrong more often than promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("noise", nargs="*", type=Path, help="recordings (default: those of the results)")
    parser.add_argument("--trials", type=int, default=4000, help="comparisons of each series")
    parser.add_argument("--device", help="take noise on this device instead")
    parser.add_argument("--record", type=Path, help="with --device: where it goes")
    parser.add_argument("--seconds", type=float, default=40.0, help="with --device: of each size and cache state")
    options = parser.parse_args()
    if options.device:
        return record(options.device, options.seconds, options.record or NOISE / "noise.json.xz")
    paths = options.noise or sorted(NOISE.glob("*.json.xz"))
    series = [one for path in paths for one in read(path)]
    print(f"{len(series)} series of {', '.join(path.name for path in paths)}")
    found = simulate(series, options.trials)
    print("with three times the noise")
    loud = simulate([louder(one, 3.0) for one in series], options.trials)
    print("blocks in their places")
    places = simulate_places(series, options.trials)
    content = {"machine": machine(), "recorded": found, "three times the noise": loud, "in their places": places}
    (RESULTS / "false_alarms.json").write_text(json.dumps(content, indent=1) + "\n")
    both = [found["ckwatch, in turns"], loud["ckwatch, in turns"]]
    both += [one for name, one in places.items() if name.startswith("by lot")]
    return int(any(one["alarms"] > PROMISED * one["trials"] for one in both))


if __name__ == "__main__":
    sys.exit(main())
