"""A learned factor, from public measurements, for the predicted time of a product of 8-bit matrices.

log(time) = log(time by `gemm_time`) + Σ weight · feature + the instance's own weight. Each feature is a number that has
a name and a meaning: how much a resource decides, which pipeline it is, what padding and the last turn of workgroups
waste, how large the tile is. The weights are those that make AITER's winners likely (a conditional logit over all
instances that could have been chosen, McFadden 1974) and their times right, with a penalty on the weights' squares that
is stronger for the weights of single instances. Each of AITER's lists has weights of its own.
`python -m benchmarks.predictions --fit` makes the file.

A *slice* of the measurements is a list, a part and a dtype: `a8w8_rowwise, MI355X, i8`. A correction applies to the
slices that it was learned on, and only where it predicts shapes of other N and K better than the formulas do. A record
says how good predictions were on one slice, and holds for no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import exp, log

from ckwatch.checks.supported_shapes.universal_gemm import GemmCase, gemm_case
from ckwatch.model.contractions import Axes, MatrixView
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.prediction.instances import GemmInstance
from ckwatch.prediction.times import Bottleneck, GemmSizes, GemmTime

FILE = "learned.json"

_USUAL_DEPTH, _USUAL_THREADS, _USUAL_TILE = 128, 256, 128 * 128
"""Sizes of an instance at which a feature is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRecord:
    """How often the first choice and one of the first five were the fastest of `shapes`, and the median of how far the
    fastest instance's predicted time was off; there were `candidates` to choose from at most. `learned`: with a
    correction that had seen no shape of the same N and K, else by the formulas alone. `slice` of the measurements."""

    slice: str
    learned: bool
    shapes: int
    candidates: int
    first: float
    first_five: float
    off: float

    def __str__(self) -> str:
        return (
            f"right first choice {100 * self.first:.0f} %, among the first five {100 * self.first_five:.0f} %, "
            f"times off by {100 * self.off:.0f} % in the median, over {self.shapes} shapes with up to "
            f"{self.candidates} instances to choose from"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """`weights` by feature, `instances` by `instance_key`."""

    weights: Mapping[str, float]
    instances: Mapping[str, float]

    def factor(self, instance: GemmInstance, sizes: GemmSizes, found: GemmTime, compute_units: int) -> float:
        """Return the factor by which to multiply the time that the formulas give."""
        features_of = features(instance, sizes, found, compute_units)
        total = sum(self.weights.get(name, 0.0) * value for name, value in features_of.items())
        return exp(total + self.instances.get(instance_key(instance), 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCorrections:
    """`corrections` by AITER's list, `records` by slice; `source` is whose measurements they are of."""

    corrections: Mapping[str, Correction]
    source: str
    records: Mapping[str, PredictionRecord]

    def of(self, name: str) -> Correction | None:
        record = self.records.get(name)
        return self.corrections[name.partition(",")[0]] if record is not None and record.learned else None

    def record_of(self, slices: Iterable[str]) -> PredictionRecord | None:
        """The record of the slice that all of these are; None where there is none."""
        names = set(slices)
        return self.records.get(names.pop()) if len(names) == 1 else None


@lru_cache(maxsize=1)
def learned_corrections() -> LearnedCorrections:
    """Those that ship with ckwatch."""
    return read_corrections(files("ckwatch.prediction").joinpath(FILE).read_text(encoding="utf-8"))


def read_corrections(text: str) -> LearnedCorrections:
    """Read what `benchmarks.predictions --fit` has written."""
    stored = json.loads(text)
    return LearnedCorrections(
        corrections={name: Correction(**one) for name, one in stored["corrections"].items()},
        source=stored["source"],
        records={one["slice"]: PredictionRecord(**one) for one in stored["records"]},
    )


def slice_of(parameters: Mapping[str, ParameterValue], problem: KernelProblem, part: str) -> str:
    """The slice of AITER's measurements that this would be in; empty where its lists have no such product."""
    case = gemm_case(parameters, problem)
    if case is None or "MPerXDL" not in parameters:
        return ""
    name = _LISTS.get((_scales(case), bool(case.gemm.y.batch), case.is_preshuffled))
    return f"{name}, {part}, {case.x.name}" if name and _is_laid_out(case) else ""


_ROWS_AND_COLUMNS, _BLOCKS = "per row of X and column of W", "per 1×128 of X and 128×128 of W"
_LISTS: Mapping[tuple[str, bool, bool], str] = {
    (_ROWS_AND_COLUMNS, False, False): "a8w8_rowwise",
    (_ROWS_AND_COLUMNS, False, True): "a8w8_bpreshuffle",
    (_BLOCKS, False, False): "a8w8_blockscale",
    (_ROWS_AND_COLUMNS, True, False): "a8w8_batched_rowwise",
    ("", True, False): "bf16_batched",
}
"""AITER's lists by the scales, whether there are several matrices, and whether W is preshuffled."""


def _is_laid_out(case: GemmCase) -> bool:
    """As all of AITER's products are: X and Y row-major, W column-major, operands of one dtype, bf16 out."""
    x, w, y = case.gemm.x, case.gemm.w, case.gemm.y
    plain = all(len(view.rows) == len(view.columns) == 1 for view in (x, y)) and not x.windows
    major = x.columns[-1][1] == w.rows[-1][1] == y.columns[-1][1] == 1
    return plain and major and case.x.name == case.w.name and case.y.name == "bf16"


def _scales(case: GemmCase) -> str:
    """Empty without any, `other` where there is more or something else behind the product."""
    gemm = case.gemm
    steps = [step.operand for step in gemm.steps if step.scale and step.factor == 1 and step.operand is not None]
    if len(steps) != len(gemm.steps):
        return "other"
    blocks = [_repeats(axes) for view in (gemm.x_scale, gemm.w_scale) if view for axes in (view.rows, view.columns)]
    if blocks:
        return _BLOCKS if blocks == [(), (128,), (128,), (128,)] and not steps else "other"
    if not steps:
        return ""
    return _ROWS_AND_COLUMNS if sorted(map(_repeated, steps)) == [(False, True), (True, False)] else "other"


def _repeats(axes: Axes) -> tuple[int, ...]:
    return tuple(size for size, stride in axes if stride == 0)


def _repeated(view: MatrixView) -> tuple[bool, bool]:
    """Return two flags: all rows are the same, and all columns are."""
    return bool(_repeats(view.rows)), bool(_repeats(view.columns))


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
    beyond_l2 = shares[Bottleneck.MEMORY] + shares[Bottleneck.CACHE]
    computing = shares[Bottleneck.MATRIX] + shares[Bottleneck.LDS]
    small_instruction = float(instance.instruction[0] == 16)
    aspect = log(tile.m / tile.n)
    last_turn = log(_used(found.workgroups, compute_units))
    sched = "interwave" if instance.interwave else "intrawave"
    named = {f"share of {term.name.lower()}": share for term, share in shares.items()}
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
        "latency · tile's depth": shares[Bottleneck.LATENCY] * depth,
        "latency · workgroups together": shares[Bottleneck.LATENCY] * together,
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
