"""Measurements until a search that begins with predictions is within 2 % of the best.

    python -m benchmarks.tuning_prior [FOLDER or FILE …] [--shapes 60] [--seeds 3]

Two replays on the instances of `benchmarks.predictions`, and of the same shapes (files of one family):

- AITER's rows, of which only the winner's time is known: the winner's place by the prediction, with ties before it,
  which is how many measurements it takes when instances are tried in this order;
- a simulated device: the time of the formulas, without what is learned, times a bias of each value of BIASED, and noise
  of each instance. The biases are unknown to the prediction, and drawn anew for each seed. `local` begins with the
  predicted best, as `ckwatch tune` does; beside it the same search without predictions, and random points.

No device was measured here.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.fit_predictions import MEASURED, design_of, folds, held_out, outcomes
from benchmarks.measured_rows import Case, by_name, cases_of, files_of, read_rows
from ckwatch.prediction.instances import instance_of
from ckwatch.prediction.times import estimated_figures, gemm_time
from ckwatch.tuning.space import ListedSpace, Point
from ckwatch.tuning.strategies import STRATEGIES, Search
from ckwatch.tuning.tuned_kernel import SEEDS

WITHIN = 1.02
BIASED = ("BlkGemmPipelineVer", "BlkGemmPipeSched", "MPerBlock", "NPerBlock", "KPerBlock", "BlockSize")
BIAS, NOISE = 0.08, 0.03
"""Deviations of the logarithm: of each value of each of BIASED, and of each instance."""


def simulated(case: Case, seed: int) -> tuple[ListedSpace, Callable[[Point], float], Callable[[Point], float | None]]:
    """The instances that support a shape, their times on the simulated device, and their predicted times."""
    space = ListedSpace([by_name(name) for name in case.candidates])
    machine = case.target.machine((case.row.dtype, case.row.dtype))
    assert machine is not None, "every known part multiplies what AITER has tuned on it"
    rng = random.Random(f"{seed} {case.row.key}")  # noqa: S311  # repeatable
    biases: dict[tuple[str, object], float] = {}
    found: dict[Point, tuple[float, float | None]] = {}
    for point in space:
        parameters = space.parameters(point) or {}
        instance = instance_of(parameters)
        if instance is None:
            continue
        instance = replace(instance, preshuffled="bpreshuffle" in case.row.family)
        formula_us = gemm_time(instance, estimated_figures(instance, case.sizes), case.sizes, machine).time_us
        time_us = formula_us
        for name in BIASED:
            time_us *= math.exp(biases.setdefault((name, parameters.get(name)), rng.gauss(0, BIAS)))
        found[point] = (time_us * math.exp(rng.gauss(0, NOISE)), formula_us)
    return space, lambda point: found[point][0], lambda point: found[point][1]


def evaluations(case: Case, seed: int, strategy: str) -> int:
    """Until within 2 % of the best on the simulated device: `prior`, `local` or `random`."""
    space, cost, predicted = simulated(case, seed)
    best = min(map(cost, space))
    rng = random.Random(seed)  # noqa: S311  # repeatable
    seeds: list[Point] = []
    if strategy == "prior":
        ordered = sorted(space, key=lambda point: math.inf if (time := predicted(point)) is None else time)
        seeds = ordered[:SEEDS]
    search = Search(space, rng, seeds=seeds, predicted=predicted if strategy == "prior" else None)
    for point in STRATEGIES["random" if strategy == "random" else "local"](search):
        assert point is not None, "no result is outstanding"
        search.known[point] = cost(point)
        if search.known[point] <= WITHIN * best:
            break
    return len(search.known)


def main() -> int:
    """The exit status: 1 where the median is above 8."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", default=[MEASURED / "a8w8_rowwise.csv"], metavar="FILE")
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    left_out: Counter[str] = Counter()
    cases = cases_of(read_rows(files_of(options.files), left_out))
    chosen = random.Random(0).sample(cases, min(options.shapes, len(cases)))  # noqa: S311  # repeatable
    print(f"{len(chosen)} of {len(cases)} rows; left out: {dict(left_out)}")
    failed = False
    design, every = design_of(cases), np.arange(len(cases))
    mine = [cases.index(case) for case in chosen]
    found = {
        "what is learned without its N and K": held_out(design, every, folds(cases, lambda row: row.group), every),
        "formulas alone": outcomes(design, every, None),
    }
    for title, judged in found.items():
        places = [place + 1 for place in judged.places[mine].tolist()]
        print(f"AITER's winner is measured by {title} after", summary(places))
        failed |= statistics.median(places) > 8
    for strategy in ("prior", "local", "random"):
        counts = [evaluations(case, seed, strategy) for case in chosen for seed in range(options.seeds)]
        print(f"simulated device, {strategy}: within 2 % after", summary(counts))
        failed |= strategy == "prior" and statistics.median(counts) > 8
    return int(failed)


def summary(counts: list[int]) -> str:
    """The median, the 90th percentile, and how many took at most 8."""
    high = sorted(counts)[math.ceil(0.9 * len(counts)) - 1]
    share = sum(count <= 8 for count in counts) / len(counts)
    return f"{statistics.median(counts):g} in the median, {high} at the 90th percentile; at most 8 in {share:.0%}"


if __name__ == "__main__":
    raise SystemExit(main())
