"""Replays searches on measured spaces: evaluations until a configuration is within 10, 5 and 1 % of the best.

    python -m benchmarks.search FILE… [--seeds 100] [--budget 2000] [--with-kernel-tuner PYTHON | --from-results]

A file is CSV: columns that end in `_ms` are GPUs, all others parameters; an empty time is a configuration that did not
run, which costs an evaluation like any other. ckwatch's strategies and a plain greedy local search run live. Kernel
Tuner's run with the interpreter of an environment that has it (`benchmarks/kernel_tuner_replay.py`), which writes
`results/search.json`; `--from-results` compares with what is kept there. Medians count a run that did not get there as
slower than any other. No strategy is given predictions or seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.kernel_tuner_replay import WITHIN, read_space
from benchmarks.reporting import RESULTS
from ckwatch.tuning.space import ListedSpace, Point
from ckwatch.tuning.strategies import STRATEGIES, Search, Strategy

KEPT = RESULTS / "search.json"
AS_GOOD, NEVER_WORSE = 1.0, 1.2
"""The goals: of the best other median on two of three GPUs, and on any."""


def greedy_local_search(search: Search) -> Iterator[Point | None]:
    """The baseline: goes to the first better neighbour, in random order; from a local optimum two random steps away."""
    space, rng = search.space, search.rng
    done: set[Point] = set()

    def cost(point: Point) -> Iterator[Point]:
        if point not in done:
            done.add(point)
            yield point

    start = space.random(rng)
    while start is not None and len(done) < space.size:
        yield from cost(start)
        improved = True
        while improved:
            improved = False
            around = space.neighbours(start)
            rng.shuffle(around)
            for other in around:
                yield from cost(other)
                if search.known[other] < search.known[start]:
                    start, improved = other, True
                    break
        best = min(search.known, key=search.known.__getitem__)
        start = best
        for _ in range(2):
            start = rng.choice(space.neighbours(start) or [start])
        if start in done:
            start = space.random(rng)


OURS: Mapping[str, Strategy] = {
    "local": STRATEGIES["local"],
    "random": STRATEGIES["random"],
    "greedy local search": greedy_local_search,
}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A strategy's runs on a space: for each the evaluations until within each of `WITHIN`, None for never."""

    strategy: str
    runs: Sequence[Sequence[int | None]]
    seconds: float | None = None

    def median(self, index: int) -> float:
        """Of the runs; infinite where half of them did not get there."""
        counts = [run[index] for run in self.runs]
        return statistics.median([math.inf if one is None else float(one) for one in counts])


def replay(strategy: Strategy, space: ListedSpace, costs: Sequence[float], seed: int, budget: int) -> list[int | None]:
    """One run, one evaluation at a time."""
    search = Search(space, random.Random(seed))  # noqa: S311  # repeatable
    reached: list[int | None] = [None] * len(WITHIN)
    best = min(costs)
    for point in strategy(search):
        assert point is not None, "no result is outstanding"
        cost = costs[point[0]]
        search.known[point] = cost
        for index, percent in enumerate(WITHIN):
            if reached[index] is None and cost <= best * (1 + percent / 100):
                reached[index] = len(search.known)
        if reached[-1] is not None or len(search.known) >= budget:
            break
    return reached


def kernel_tuner_runs(kept: Path, name: str, gpu: str, budget: int) -> list[Replayed]:
    """Kernel Tuner's runs on a space, as they are kept."""
    if not kept.exists():
        return []
    own = json.loads(kept.read_text())["spaces"].get(name, {}).get(gpu, {})
    return [
        Replayed(
            f"Kernel Tuner {strategy}",
            [[None if count is None or count > budget else count for count in run] for run in found["evaluations"]],
        )
        for strategy, found in own.items()
        if not found.get("failure")
    ]


def verdict(local: Replayed, others: Sequence[Replayed]) -> list[float]:
    """The local search's median over the best other one's, for each of `WITHIN`; NaN where neither gets there."""
    ratios = []
    for index in range(len(WITHIN)):
        best = min((other.median(index) for other in others), default=math.inf)
        mine = local.median(index)
        ratios.append(math.nan if math.isinf(best) and math.isinf(mine) else 0.0 if math.isinf(best) else mine / best)
    return ratios


def _table(title: str, rows: Sequence[Replayed]) -> Table:
    table = Table(title=title)
    table.add_column("strategy")
    for percent in WITHIN:
        table.add_column(f"{percent} %", justify="right")
    table.add_column("seeds", justify="right")
    table.add_column("ms per evaluation", justify="right")
    for row in sorted(rows, key=lambda one: [one.median(index) for index in range(len(WITHIN))]):
        medians = ["never" if math.isinf(median) else f"{median:g}" for median in map(row.median, range(len(WITHIN)))]
        spent = "" if row.seconds is None else f"{row.seconds * 1e3:.2f}"
        table.add_row(row.strategy, *medians, str(len(row.runs)), spent)
    return table


def main() -> int:
    """The exit status: 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=2000, help="evaluations of one run")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--with-kernel-tuner", metavar="PYTHON", help="an interpreter that has kernel_tuner 1.5.0")
    source.add_argument("--from-results", action="store_true", help=f"compare with {KEPT.name} in the results")
    options = parser.parse_args()
    if options.with_kernel_tuner:
        program = [options.with_kernel_tuner, str(Path(__file__).with_name("kernel_tuner_replay.py")), str(KEPT)]
        limits = ["--seeds", str(options.seeds), "--budget", str(options.budget)]
        subprocess.run([*program, *map(str, options.files), *limits], check=True)
    console = Console()
    good, bad, judged = 0, 0, 0
    for path in options.files:
        parameters, gpus = read_space(path)
        for gpu, times in gpus.items():
            space = ListedSpace([dict(zip(parameters, configuration, strict=True)) for configuration in times])
            costs = [math.inf if one is None else one * 1e3 for one in times.values()]
            rows = []
            for name, strategy in OURS.items():
                begun = time.perf_counter()
                runs = [replay(strategy, space, costs, seed, options.budget) for seed in range(options.seeds)]
                evaluations = sum(options.budget if run[-1] is None else run[-1] for run in runs)
                rows.append(Replayed(name, runs, (time.perf_counter() - begun) / evaluations))
            if options.with_kernel_tuner or options.from_results:
                rows += kernel_tuner_runs(KEPT, path.name, gpu, options.budget)
            console.print(_table(f"{path.name}, {gpu}: {len(costs)} configurations", rows))
            ratios = verdict(rows[0], rows[1:])
            console.print(f"local / best other: {', '.join(f'{ratio:.2f}' for ratio in ratios)}\n")
            judged += 1
            good += all(not ratio > AS_GOOD for ratio in ratios)
            bad += any(ratio > NEVER_WORSE for ratio in ratios)
    met = 3 * good >= 2 * judged and not bad
    console.print(
        f"{'goal met' if met else 'goal missed'}: at least as good as the best other on {good} of {judged} GPUs, "
        f"worse than {NEVER_WORSE} × on {bad}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
