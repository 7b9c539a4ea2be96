"""What public measurements say beyond the formulas: a factor for the time of a product of 8-bit matrices.

log(time) = log(time by `gemm_time`) + Σ weight · feature + the instance's own weight. Each feature is a number that has
a name and a meaning: how much a resource decides, which pipeline it is, what padding and the last turn of workgroups
waste, how large the tile is. The weights are those that make AITER's winners on MI355X and MI308X likely (a conditional
logit over all instances that could have been chosen, McFadden 1974) and their times right, with a penalty on the
weights' squares that is stronger for the weights of single instances. `python -m benchmarks.predictions --fit` makes
the file; it says on what it was fitted, and its record on parts of the data that the fit had not seen.

It applies only where it was learned: 8-bit operands, CK's pipelines, gfx942 and gfx950.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import exp, log

from ckwatch.codeobject.gemm_instance import GemmInstance
from ckwatch.codeobject.gemm_time import GemmSizes, GemmTime, Resource

FILE = "learned_correction.json"
ARCHS = ("gfx942", "gfx950")
DTYPES = ("i8", "f8")

_USUAL_DEPTH, _USUAL_THREADS, _USUAL_TILE = 128, 256, 128 * 128
"""Where sizes of an instance have feature 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRecord:
    """How often the first choice and one of the first five were the fastest of `shapes`, and the median of how far the
    fastest instance's predicted time was off; `learned` on parts that the fit had not seen, `formulas` without it."""

    shapes: int
    first: float
    first_five: float
    off: float

    def __str__(self) -> str:
        return (
            f"right first choice {100 * self.first:.0f} %, among the first five {100 * self.first_five:.0f} %, "
            f"times off by {100 * self.off:.0f} % in the median, over {self.shapes} shapes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCorrection:
    """`weights` by feature, `instances` by `instance_key`; `source` is whose measurements it was fitted on, `records`
    how good predictions were on them: `formulas`, and `learned` out of fold."""

    weights: Mapping[str, float]
    instances: Mapping[str, float]
    source: str
    records: Mapping[str, PredictionRecord]

    def factor(self, instance: GemmInstance, sizes: GemmSizes, found: GemmTime, compute_units: int) -> float:
        """What the time by formulas is multiplied by."""
        features_of = features(instance, sizes, found, compute_units)
        total = sum(self.weights.get(name, 0.0) * value for name, value in features_of.items())
        return exp(total + self.instances.get(instance_key(instance), 0.0))


@lru_cache(maxsize=1)
def learned_correction() -> LearnedCorrection:
    """The one that ships with ckwatch."""
    return read_correction(files("ckwatch.codeobject").joinpath(FILE).read_text(encoding="utf-8"))


def read_correction(text: str) -> LearnedCorrection:
    """What `benchmarks.predictions --fit` has written."""
    stored = json.loads(text)
    return LearnedCorrection(
        weights=stored["weights"],
        instances=stored["instances"],
        source=stored["source"],
        records={name: PredictionRecord(**record) for name, record in stored["records"].items()},
    )


def is_learned_for(x_dtype: str, w_dtype: str, arch: str, matrices: int) -> bool:
    """Whether the correction was learned on such products."""
    return x_dtype == w_dtype and x_dtype in DTYPES and arch in ARCHS and matrices == 1


def instance_key(instance: GemmInstance) -> str:
    """`256x128x128x128_32x32_2x2_intrawave_v3`: what tells the instances of AITER's list apart."""
    tile, sched = instance.tile, "interwave" if instance.interwave else "intrawave"
    sizes = "x".join(map(str, (instance.threads, tile.m, tile.n, tile.k)))
    matrix, repeats = ("x".join(map(str, pair)) for pair in (instance.instruction, instance.repeats))
    return f"{sizes}_{matrix}_{repeats}_{sched}_{instance.pipeline}"


def features(instance: GemmInstance, sizes: GemmSizes, found: GemmTime, compute_units: int) -> dict[str, float]:
    """The numbers that weights belong to, by their names."""
    tile, shares = instance.tile, found.shares
    depth, together = log(tile.k / _USUAL_DEPTH), log(found.together)
    beyond_l2 = shares[Resource.MEMORY] + shares[Resource.CACHE]
    computing = shares[Resource.MATRIX] + shares[Resource.LDS]
    small_instruction = float(instance.instruction[0] == 16)
    aspect = log(tile.m / tile.n)
    last_turn = log(_used(found.workgroups, compute_units))
    sched = "interwave" if instance.interwave else "intrawave"
    named = {f"share of {name}": share for name, share in shares.items()}
    named |= {
        "always": 1.0,
        "share of the launch": found.launch_us / found.time_us,
        f"{instance.pipeline} {sched}": 1.0,
        "16×16 instructions": small_instruction,
        "used rows": log(_whole(sizes.m, tile.m)),
        "used columns": log(_whole(sizes.n, tile.n)),
        "used depth": log(sizes.k / (found.rounds * tile.k * sizes.slices)),
        "CUs in use": last_turn,
        "places for workgroups in use": log(_used(found.workgroups, compute_units * found.together)),
        "workgroups together": together,
        "tile's rows to columns": aspect,
        "tile's depth": depth,
        "threads": log(instance.threads / _USUAL_THREADS),
        "rounds of deep tiles": log(found.rounds) if tile.k > _USUAL_DEPTH else 0.0,
        "tile's size": log(tile.m * tile.n / _USUAL_TILE),
        "beyond L2 · workgroups together": beyond_l2 * together,
        "beyond L2 · tile's depth": beyond_l2 * depth,
        "beyond L2 · CUs in use": beyond_l2 * last_turn,
        "latency · tile's depth": shares[Resource.LATENCY] * depth,
        "latency · workgroups together": shares[Resource.LATENCY] * together,
        "computing · 16×16 instructions": computing * small_instruction,
        "computing · rows to columns": computing * aspect,
    }
    if sizes.slices > 1:
        named |= {"slices of K": 1.0, "slices of K · tile's depth": depth}
    return named


def _whole(size: int, tile: int) -> float:
    """The part of whole tiles that is of use."""
    return size / (-(-size // tile) * tile)


def _used(workgroups: int, places: int) -> float:
    """The part of whole turns that has workgroups."""
    return workgroups / (-(-workgroups // places) * places)
