"""Replays searches on tuning spaces: evaluations until a configuration is within 10, 5 and 1 % of the best.

    python -m benchmarks.tuning_spaces SPACES
    python -m benchmarks.search FOLDER… [--seeds 25] [--budget 300] [--with-kernel-tuner PYTHON | --from-results]
    python -m benchmarks.search FOLDER… --cross-validate

A folder stands for its `space_*.csv`. A file is CSV: columns that end in `_ms` are GPUs, all others parameters; an
empty time is a configuration that did not run, which costs an evaluation like any other. ckwatch's strategies and a
plain greedy local search run live. Kernel Tuner's, all that it has, run with the interpreter of an environment that has
it (`benchmarks/kernel_tuner_replay.py`), which writes `results/search.json`; `--from-results` compares with what is
kept there. Medians count a run that did not get there as slower than any other. No strategy is given predictions or
seeds. The ratio is of `local`'s median to the least of all others, who are thereby chosen after the fact, for each
space and percentage anew: the least of twenty medians is also the luckiest. Beside it stands the ratio to the strategy
that was best in one half of its runs, in the other half. ± is the deviation over resampled runs, of all strategies.
Strategies of which there are fewer than five runs do not count.

`--cross-validate` runs `local` with other settings, and says for each file what the settings that are best on all
other files are worth on it, against the ones that ckwatch has.
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
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.kernel_tuner_replay import WITHIN, read_space
from benchmarks.reporting import RESULTS
from ckwatch.tuning.space import ListedSpace, Point
from ckwatch.tuning.strategies import STRATEGIES, LocalSettings, Search, Strategy

KEPT = RESULTS / "search.json"
GOALS, NEVER_ABOVE = (1.0, 0.9, 0.7), 1.5
"""Of the geometric means over spaces, for each of `WITHIN`, and of each ratio."""

RESAMPLED = 200

LEAST_RUNS = 5
"""Of a strategy that is compared with: the least of many medians of fewer runs is luck."""

SETTINGS = (
    LocalSettings(),
    *(replace(LocalSettings(), first_points=count) for count in (3, 8)),
    *(replace(LocalSettings(), near=near) for near in (0.1, 1.0)),
    *(replace(LocalSettings(), bounds=bounds) for bounds in ((None,), (None, 0.5, 1.0), (2.0,))),
    replace(LocalSettings(), near_best=1),
)
"""The first are ckwatch's."""


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


def replay(
    strategy: Strategy,
    space: ListedSpace,
    costs: Sequence[float],
    seed: int,
    budget: int,
    settings: LocalSettings = SETTINGS[0],
) -> list[int | None]:
    """One run, one evaluation at a time."""
    search = Search(space, random.Random(seed), settings=settings)  # noqa: S311  # repeatable
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
        if not found.get("failure") and len(found["evaluations"]) >= LEAST_RUNS
    ]


def verdict(local: Replayed, others: Sequence[Replayed], budget: int) -> list[float]:
    """The local search's median over the least one of the others, for each of `WITHIN`; NaN where neither gets there.

    A median that is not within the budget counts as one and a half of it.
    """
    ratios = []
    for index in range(len(WITHIN)):
        medians = [local.median(index), min((other.median(index) for other in others), default=math.inf)]
        mine, best = (min(median, 1.5 * budget) for median in medians)
        ratios.append(math.nan if all(map(math.isinf, medians)) else mine / best)
    return ratios


def fair_verdict(local: Replayed, others: Sequence[Replayed], budget: int) -> list[float]:
    """As `verdict`, with the other strategy chosen by half of its runs and counted by the rest, both ways round."""
    halves = [[Replayed(one.strategy, one.runs[half::2]) for one in others] for half in (0, 1)]
    ratios = []
    for index in range(len(WITHIN)):
        found = []
        for chosen_by, counted in (halves, halves[::-1]):
            best = min(range(len(others)), key=lambda at: chosen_by[at].median(index))  # called at once
            found.append(verdict(local, [counted[best]], budget)[index])
        ratios.append(geometric_mean(found))
    return ratios


def summed(ratios: Sequence[Sequence[float]]) -> list[float]:
    """Geometric means over columns, of each percentage."""
    return [geometric_mean([one for one in own if not math.isnan(one)]) for own in zip(*ratios, strict=True)]


def noise(columns: Sequence[tuple[Replayed, Sequence[Replayed]]], budget: int) -> list[float]:
    """The deviation of the geometric means of `fair_verdict` over resampled runs."""
    rng = random.Random(0)  # noqa: S311  # repeatable

    def again(one: Replayed) -> Replayed:
        return Replayed(one.strategy, rng.choices(one.runs, k=len(one.runs)))

    means = [
        summed([fair_verdict(again(local), list(map(again, others)), budget) for local, others in columns])
        for _ in range(RESAMPLED)
    ]
    return [statistics.pstdev(own) for own in zip(*means, strict=True)]


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


def spaces(paths: Sequence[Path]) -> Iterator[tuple[str, str, ListedSpace, list[float]]]:
    """The file, the GPU, the space, and the cost of each of its points in µs."""
    files = [one for path in paths for one in (sorted(path.glob("space_*.csv")) if path.is_dir() else [path])]
    for path in files:
        parameters, gpus = read_space(path)
        for gpu, times in gpus.items():
            space = ListedSpace([dict(zip(parameters, configuration, strict=True)) for configuration in times])
            yield path.name, gpu, space, [math.inf if one is None else one * 1e3 for one in times.values()]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers; NaN of none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def cross_validate(console: Console, paths: Sequence[Path], seeds: int, budget: int) -> None:
    """Print what settings are worth that were chosen without the file that they are tried on.

    The measure is the geometric mean of evaluations over seeds and percentages, of half as much again as the budget
    where a run did not get there.
    """
    costs_of: dict[str, list[list[float]]] = {}
    for name, _, space, costs in spaces(paths):
        own = []
        for settings in SETTINGS:
            runs = [replay(STRATEGIES["local"], space, costs, seed, budget, settings) for seed in range(seeds)]
            own.append(geometric_mean([1.5 * budget if count is None else count for run in runs for count in run]))
        costs_of.setdefault(name, []).append([cost / own[0] for cost in own])
    table = Table(title="evaluations over those with ckwatch's settings; chosen on all other files")
    for column in ("file", "best of the others", "there", "on this file"):
        table.add_column(column)
    held_out = []
    for name, mine in costs_of.items():
        others = [ratios for other, every in costs_of.items() if other != name for ratios in every]
        means = [geometric_mean(column) for column in zip(*others, strict=True)]
        best = means.index(min(means))
        here = geometric_mean([ratios[best] for ratios in mine])
        held_out.append(here)
        changed = [
            f"{field}={value}"
            for field in LocalSettings.__slots__
            if (value := getattr(SETTINGS[best], field)) != getattr(SETTINGS[0], field)
        ]
        table.add_row(name, ", ".join(changed) or "ckwatch's", f"{means[best]:.3f}", f"{here:.3f}")
    console.print(table)
    console.print(f"geometric mean on the files left out: {geometric_mean(held_out):.3f}")


def main() -> int:
    """The exit status: 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--budget", type=int, default=300, help="evaluations of one run")
    parser.add_argument("--details", action="store_true", help="print the medians of every strategy")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--with-kernel-tuner", metavar="PYTHON", help="an interpreter that has kernel_tuner 1.5.0")
    source.add_argument("--from-results", action="store_true", help=f"compare with {KEPT.name} in the results")
    source.add_argument("--cross-validate", action="store_true", help="compare settings of `local`")
    parser.add_argument("--kept", type=Path, default=KEPT, help="Kernel Tuner's runs")
    options = parser.parse_args()
    console = Console(width=150)
    if options.cross_validate:
        cross_validate(console, options.paths, options.seeds, options.budget)
        return 0
    if options.with_kernel_tuner:
        program = [
            options.with_kernel_tuner,
            str(Path(__file__).with_name("kernel_tuner_replay.py")),
            str(options.kept),
        ]
        files = [one for path in options.paths for one in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
        limits = ["--seeds", str(options.seeds), "--budget", str(options.budget)]
        subprocess.run([*program, *map(str, files), *limits], check=True)
    summary = Table(title="median evaluations of `local`, over the least median of all others")
    for column in ("space", "points", *(f"{percent} %" for percent in WITHIN)):
        summary.add_column(column)
    judged: list[list[float]] = []
    columns: list[tuple[Replayed, Sequence[Replayed]]] = []
    for name, gpu, space, costs in spaces(options.paths):
        rows = []
        for strategy_name, strategy in OURS.items():
            begun = time.process_time()
            runs = [replay(strategy, space, costs, seed, options.budget) for seed in range(options.seeds)]
            evaluations = sum(options.budget if run[-1] is None else run[-1] for run in runs)
            rows.append(Replayed(strategy_name, runs, (time.process_time() - begun) / evaluations))
        if options.with_kernel_tuner or options.from_results:
            rows += kernel_tuner_runs(options.kept, name, gpu, options.budget)
        if options.details:
            console.print(_table(f"{name}, {gpu}: {len(costs)} configurations", rows))
        ratios = verdict(rows[0], rows[1:], options.budget)
        judged.append(ratios)
        columns.append((rows[0], rows[1:]))
        cells = []
        for index, ratio in enumerate(ratios):
            best = min(rows[1:], key=lambda one: one.median(index))
            cells.append(f"{rows[0].median(index):g} / {best.median(index):g} {best.strategy} = {ratio:.2f}")
        summary.add_row(f"{name.removesuffix('.csv')}, {gpu}", str(len(costs)), *cells)
    console.print(summary)
    means = summed(judged)
    above = sum(ratio > NEVER_ABOVE for own in judged for ratio in own)
    met = all(mean <= goal for mean, goal in zip(means, GOALS, strict=True)) and not above
    fair = summed([fair_verdict(local, others, options.budget) for local, others in columns])
    words = ", ".join(
        f"{mean:.2f} to {percent} % (goal {goal}; {other:.2f} ± {off:.2f})"
        for mean, percent, goal, other, off in zip(
            means, WITHIN, GOALS, fair, noise(columns, options.budget), strict=True
        )
    )
    console.print(f"geometric means over {len(judged)} columns: {words}; {above} ratios above {NEVER_ABOVE}")
    console.print("in brackets against the strategy that was best in the other half of its runs, ± by resampling")
    console.print(f"{'goal met' if met else 'goal missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
