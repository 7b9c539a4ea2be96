"""A factor, intervals and records: what public measurements add to the predicted time of a product of matrices.

A *family* is one of AITER's lists of instances (`a8w8_rowwise`) or a stage of its mixture of experts. A *slice* of its
measurements is the family on one part with operands of one dtype: `a8w8_rowwise, MI355X, i8`. The learned part is

    log(time) = log(time by `gemm_time`) + Σ values of decision tables + what winners nearby were off by

- A decision table looks up a value by which of four numbers are above its thresholds (an oblivious tree: Kohavi and
  Li, "Oblivious Decision Trees, Graphs, and Top-Down Pruning", 1995). Each number has a name and a meaning: how much
  a resource decides, what padding and the last turn of workgroups waste, how large the tile is. Tables are added
  greedily (Friedman, "Greedy Function Approximation", 2001), each to make AITER's winners likelier (a conditional
  logit over all instances that could have been chosen, McFadden 1974) and their times right.
- Two of the numbers are the instance's share among winners nearby, a kernel-weighted frequency that is learned from as
  of sizes of other N and K. Nearby are measured sizes by a Gaussian kernel in log₂ of M, N, K and slices; those of
  another part or dtype count less (`RELATED`).
- What the winners' times were off by is interpolated between sizes by kriging with a trend (Rasmussen and Williams,
  "Gaussian Processes for Machine Learning", 2006, equations 2.25 and 2.40), alike for all instances, so that it changes
  no order.

An *interval* is where 80 % of such measured times were, by whether the part and dtype were measured, and N and K with
them, and by how much evidence is nearby, out of the fit. A *record* says
how good predictions of a slice were on sizes of an N and K that the fit had not seen; it holds for no other. That of
`OTHER` is of parts and dtypes of which the fit had seen nothing.

Each family has one file in `learned/`, which `python -m benchmarks.fit_predictions` makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib.resources import files
from math import exp, log, log2
from typing import NamedTuple

from ckwatch.checks.supported_shapes.universal_gemm import GemmCase, gemm_case
from ckwatch.model.contractions import Axes, MatrixView
from ckwatch.model.kernel_problem import ComputedRows, KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.instances import GemmInstance
from ckwatch.prediction.times import Bottleneck, GemmSizes, GemmTime

FOLDER = "learned"
VERSION = 2
"""Of the format of the files."""

OTHER = "another part or dtype"

SHARE_WIDTHS = ((1.0, 0.7, 0.7, 0.5), (2.0, 1.5, 1.5, 0.5))
TIME_WIDTHS = (1.0, 0.5, 0.5, 0.5)
"""Of the kernels, in log₂ of M, N, K and of slices · matrices · experts: for who wins, near and wide, and for times."""

KNOTS = (0.0, 3.0, 5.0, 7.0, 9.0, 12.0)
"""log₂ of M between which the trend of times changes linearly."""

RELATED = (1.0, 0.3, 0.1)
"""How much measurements count: of the slice itself, of another of the same arch, of any other."""

FOREIGN = 0.6, 0.4
"""How much of the tables, and of what winners' times were off by, is expected of a part or dtype without any."""

SHARE_PRIOR, SHARE_FLOOR = 0.1, 0.02
"""Evidence that all instances win as often as each other, and what is added to a share."""

Point = tuple[float, float, float, float]
Split = tuple[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRecord:
    """How often the first choice and one of the first five were the fastest of `shapes`; the median and the 90th
    percentile of how far the fastest instance's predicted time was off, and how many measured times were inside of the
    interval; there were `candidates` to choose from at most. `learned`: with a correction that had seen no shape of the
    same N and K, else by the formulas alone. `slice` of the measurements. `first` and `first_five` are None where the
    instances that were timed are not known to be the fastest ones."""

    slice: str
    learned: bool
    shapes: int
    candidates: int
    first: float | None
    first_five: float | None
    off: float
    off_90: float = 0.0
    inside: float = 0.0

    def __str__(self) -> str:
        times = (
            f"times off by {100 * self.off:.0f} % in the median and {100 * self.off_90:.0f} % in the 90th percentile, "
            f"over {self.shapes} shapes"
        )
        if self.first is None or self.first_five is None:
            return f"{times}; which instance is the fastest there is not known"
        places = f"right first choice {100 * self.first:.0f} %, among the first five {100 * self.first_five:.0f} %"
        return f"{places}, {times} with up to {self.candidates} instances to choose from"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """A winner that is learned from: its sizes as `point_of` gives them, its slice and arch, the number of its
    instance, and the coefficient of kriging."""

    at: Point
    slice: str
    arch: str
    winner: int
    coefficient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """Evidence about sizes: by one of `instance_keys` log of an instance's share among winners for each of
    `SHARE_WIDTHS`, by what factor (its log) the time is off, and how much evidence that is. `familiar`: `BOTH_KNOWN`
    where the same N and K were measured on the part with the dtype, 1 where others were, else 0."""

    shares: Mapping[str, tuple[float, ...]]
    off: float
    evidence: float
    familiar: int


class DecisionTable(NamedTuple):
    """Each split asks whether the number at an index is above a threshold; the answers are the bits of the index of one
    of `values`, the first the highest."""

    first: Split
    second: Split
    third: Split
    fourth: Split
    values: tuple[float, ...]


def share_logs(instance: GemmInstance, nearby: Nearby) -> tuple[float, ...]:
    """For each of `SHARE_WIDTHS`, log of the instance's share among winners nearby; 0 if it was never measured."""
    found = (nearby.shares[key] for key in instance_keys(instance) if key in nearby.shares)
    return next(found, (0.0,) * len(SHARE_WIDTHS))


def looked_up(tables: Iterable[DecisionTable], numbers: Sequence[float]) -> float:
    """Return the sum of what the tables say of these numbers."""
    total = 0.0
    for (one, above), (two, above_2), (three, above_3), (four, above_4), values in tables:
        at = 8 * (numbers[one] > above) + 4 * (numbers[two] > above_2) + 2 * (numbers[three] > above_3)
        total += values[at + (numbers[four] > above_4)]
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """`tables` of the numbers that `features` and `share_logs` give, weights of the `trend` of times, the measured
    `points`, the `intervals` (how familiar, from how much evidence on, and the factors of the time at the 10th and the
    90th percentile), and one of the `instance_keys` of all `known` instances."""

    tables: tuple[DecisionTable, ...]
    trend: Mapping[str, float] = field(default_factory=dict)
    points: tuple[MeasuredPoint, ...] = ()
    intervals: tuple[tuple[int, float, float, float], ...] = ()
    known: tuple[str, ...] = ()
    _nearby: dict[tuple[Point, str, str], Nearby] = field(default_factory=dict, repr=False, compare=False)

    def nearby(self, sizes: GemmSizes, slice_: str, arch: str) -> Nearby:
        """Return the evidence about sizes; kept, as all instances of a kernel ask for it."""
        key = (point_of(sizes), slice_, arch)
        if key not in self._nearby:
            if len(self._nearby) >= KEPT:
                self._nearby.clear()
            self._nearby[key] = self._look(*key)
        return self._nearby[key]

    def within(self, at: Point) -> Point:
        """Return the place in the box around all measured sizes that is the nearest: what was learned of squares says
        nothing outside."""
        if not self.points:
            return at
        sides = zip(at, *(point.at for point in self.points), strict=True)
        m, n, k, times = (min(max(own, min(measured)), max(measured)) for own, *measured in sides)
        return m, n, k, times

    def _look(self, at: Point, slice_: str, arch: str) -> Nearby:
        winners: tuple[dict[str, float], ...] = tuple({} for _ in SHARE_WIDTHS)
        off, evidence = sum(self.trend.get(name, 0.0) * value for name, value in trend(self.within(at)).items()), 0.0
        familiar = 0
        shares = tuple(zip(winners, SHARE_WIDTHS, strict=True))
        for point in self.points:
            if point.slice == slice_ and familiar < BOTH_KNOWN:
                familiar = BOTH_KNOWN if point.at[1:3] == at[1:3] else 1
            if kernel(at, point.at, SHARE_WIDTHS[-1]) < NO_WEIGHT:
                continue  # the other kernels are narrower
            related = RELATED[0 if point.slice == slice_ else 1 if point.arch == arch else 2]
            for found, widths in shares:
                weight = related * kernel(at, point.at, widths)
                if weight > NO_WEIGHT:
                    name = self.known[point.winner]
                    found[name] = found.get(name, 0.0) + weight
            weight = related * kernel(at, point.at, TIME_WIDTHS)
            off += weight * point.coefficient
            evidence += weight
        totals = [(one, sum(one.values())) for one in winners]
        logs = {
            key: tuple(share_log(one.get(key, 0.0), total, len(self.known)) for one, total in totals)
            for key in self.known
        }
        return Nearby(shares=logs, off=off, evidence=evidence, familiar=familiar)

    def factor(
        self, instance: GemmInstance, sizes: GemmSizes, found: GemmTime, compute_units: int, slice_: str, arch: str
    ) -> tuple[float, float, float]:
        """Return the factor by which to multiply the time that the formulas give, and the factors of that time between
        which 80 % of measured times were."""
        nearby = self.nearby(sizes, slice_, arch)
        numbers = (*features(instance, sizes, found, compute_units).values(), *share_logs(instance, nearby))
        believed, off = (1.0, 1.0) if nearby.familiar else FOREIGN
        total = believed * looked_up(self.tables, numbers) + off * nearby.off
        mine = nearby.familiar, nearby.evidence
        low, high = next((one[2:] for one in reversed(self.intervals) if one[:2] <= mine), (1.0, 1.0))
        return exp(total), low, high


BOTH_KNOWN = 2

KEPT = 64
"""Sizes whose nearby measurements are kept."""

NO_WEIGHT = 1e-6


def point_of(sizes: GemmSizes) -> Point:
    """Return the place of sizes among others: log₂ of M (of experts: of the tokens), N, K, and of slices · matrices ·
    experts."""
    routing = sizes.routing
    m, experts = (sizes.m, 1) if routing is None else (routing.tokens, routing.experts)
    return log2(m), log2(sizes.n), log2(sizes.k), log2(sizes.slices * sizes.matrices * experts)


def kernel(one: Point, other: Point, widths: Point) -> float:
    """How near two sizes are, 1 where they are the same."""
    # in full, as it is asked for each measured point
    (m, n, k, times), (m_2, n_2, k_2, times_2), (width_m, width_n, width_k, width) = one, other, widths
    apart = ((m - m_2) / width_m) ** 2 + ((n - n_2) / width_n) ** 2 + ((k - k_2) / width_k) ** 2
    return exp(-(apart + ((times - times_2) / width) ** 2) / 2)


def regimes(log_m: float) -> dict[str, float]:
    """How much M is each of `KNOTS`; in sum 1."""
    at = min(max(log_m, KNOTS[0]), KNOTS[-1])
    return {
        f"M {2**knot:.0f}": part
        for number, knot in enumerate(KNOTS)
        if (part := _hat(at, KNOTS[max(0, number - 1)], knot, KNOTS[min(len(KNOTS) - 1, number + 1)])) > 0
    }


def _hat(at: float, low: float, top: float, high: float) -> float:
    if at == top:
        return 1.0
    low, high = (top - at, top - low) if at < top else (at - top, high - top)
    return max(0.0, 1 - low / high) if high else 0.0


def trend(at: Point) -> dict[str, float]:
    """The numbers of sizes that the time's trend has weights for."""
    m, n, k, times = at
    size, aspect = (n + k - 24) / 4, (n - k) / 4
    return {
        **regimes(m),
        "N · K": size,
        "N / K": aspect,
        "(N · K)²": size**2,
        "(N / K)²": aspect**2,
        "N · K · M": size * (m - 6) / 4,
        "N / K · M": aspect * (m - 6) / 4,
        "slices, matrices or experts": times / 4,
    }


def share_log(weight: float, total: float, instances: int) -> float:
    """Log of the share that has `weight` of `total`, between as many `instances`; 0 is an equal share."""
    equal = 1 / instances
    share = (weight + SHARE_PRIOR * equal) / (total + SHARE_PRIOR)
    return log((share + SHARE_FLOOR) / (equal + SHARE_FLOOR))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFamily:
    """A family's `correction`, None where the formulas are as good, and its records by slice. `source`: whose
    measurements they are of."""

    source: str
    correction: Correction | None
    records: Mapping[str, PredictionRecord]

    def correction_of(self, slice_: str) -> Correction | None:
        """The correction, if it predicted the slice, or a part or dtype left out, better than the formulas do."""
        record = self.records.get(slice_, self.records.get(OTHER))
        return self.correction if record is not None and record.learned else None


def record_of(slices: Iterable[str]) -> PredictionRecord | None:
    """The record of the slice that all of these are, or for one without measurements that of predictions of another
    part or dtype than the fit had seen; None where there is neither."""
    names = set(slices)
    if len(names) != 1:
        return None
    name = names.pop()
    family = learned_family(name.partition(",")[0])
    return None if family is None else family.records.get(name, family.records.get(OTHER))


def source_of(slices: Iterable[str]) -> str:
    """Whose measurements the corrections of these slices were learned from."""
    families = (learned_family(name.partition(",")[0]) for name in slices)
    return ", ".join(sorted({family.source for family in families if family is not None}))


@cache
def learned_family(name: str) -> LearnedFamily | None:
    """The family that ships with ckwatch under this name; None where nothing was measured."""
    path = files("ckwatch.prediction").joinpath(FOLDER, f"{name}.json")
    if not name or not path.is_file():
        return None
    return read_family(path.read_text(encoding="utf-8"))


def read_family(text: str) -> LearnedFamily:
    """Read what `benchmarks.fit_predictions` has written."""
    stored = json.loads(text)
    records = {one["slice"]: PredictionRecord(**one) for one in stored["records"]}
    learned = stored["correction"]
    if learned is None:
        return LearnedFamily(source=stored["source"], correction=None, records=records)
    slices = [tuple(one) for one in learned["slices"]]
    correction = Correction(
        tables=tuple(
            DecisionTable._make((*((number, above) for number, above in splits), tuple(values)))
            for *splits, values in learned["tables"]
        ),
        trend=learned["trend"],
        points=tuple(
            MeasuredPoint(
                at=(log2(m), log2(n), log2(k), log2(times)),
                slice=slices[number][0],
                arch=slices[number][1],
                winner=winner,
                coefficient=coefficient,
            )
            for number, m, n, k, times, winner, coefficient in learned["points"]
        ),
        intervals=tuple((familiar, least, low, high) for familiar, least, low, high in learned["intervals"]),
        known=tuple(learned["known"]),
    )
    return LearnedFamily(source=stored["source"], correction=correction, records=records)


def slice_name(family: str, part: str, dtype: str) -> str:
    """The name of a slice of the measurements."""
    return f"{family}, {part}, {dtype}"


def slice_of(parameters: Mapping[str, ParameterValue], problem: KernelProblem, part: str) -> str:
    """The slice of AITER's measurements that this would be in; empty where its lists have no such product."""
    if problem.rows is not None:
        return _expert_slice(problem.rows, problem, part)
    case = gemm_case(parameters, problem)
    lists = _LISTS if "MPerXDL" in parameters else _TILE_LISTS if "WarpTileM" in parameters else {}
    name = None if case is None else lists.get((_scales(case), bool(case.gemm.y.batch), case.is_preshuffled))
    if case is None or name is None:
        return ""
    known = case.x.name in _DTYPES[name.partition("_")[0]] and _is_laid_out(case)
    return slice_name(name, part, case.x.name) if known else ""


def _expert_slice(rows: ComputedRows, problem: KernelProblem, part: str) -> str:
    tensors = dict(rows.tensors)
    if rows.reference != "moe_gemm" or problem.buffer(tensors["y"].buffer).dtype != "bf16":
        return ""
    scale = tensors.get("scale_x")
    scaled = "" if scale is None else " per tensor" if scale.sizes == (1,) else " per row"
    dtype = problem.buffer(tensors["x"].buffer).dtype
    return slice_name(f"moe_stage{dict(rows.options)['stage']}", part, f"{dtype}{scaled}")


_ROWS_AND_COLUMNS, _BLOCKS = "per row of X and column of W", "per 1×128 of X and 128×128 of W"
_MICROSCALED = "per 32 along K"
_DTYPES = {"a8w8": ("f8", "i8"), "bf16": ("bf16",), "a4w4": ("f4",), "gemm": ("f16",)}
"""Of operands, by the beginning of a list's name."""

_LISTS: Mapping[tuple[str, bool, bool], str] = {
    (_ROWS_AND_COLUMNS, False, False): "a8w8_rowwise",
    (_ROWS_AND_COLUMNS, False, True): "a8w8_bpreshuffle",
    (_BLOCKS, False, False): "a8w8_blockscale",
    (_BLOCKS, False, True): "a8w8_blockscale_bpreshuffle",
    (_MICROSCALED, False, False): "a4w4_blockscale",
    (_ROWS_AND_COLUMNS, True, False): "a8w8_batched_rowwise",
    ("", True, False): "bf16_batched",
}
"""AITER's lists by the scales, whether there are several matrices, and whether W is preshuffled."""

_TILE_LISTS: Mapping[tuple[str, bool, bool], str] = {("", False, False): "gemm_universal_cktile"}
"""The same of CK Tile's instances."""


def _is_laid_out(case: GemmCase) -> bool:
    """As AITER's products are: X and Y row-major, W column-major, operands of one dtype, bf16 out; f16 of f16."""
    x, w, y = case.gemm.x, case.gemm.w, case.gemm.y
    plain = all(len(view.rows) == len(view.columns) == 1 for view in (x, y)) and not x.windows
    major = x.columns[-1][1] == w.rows[-1][1] == y.columns[-1][1] == 1
    return plain and major and case.x.name == case.w.name and case.y.name == ("f16" if case.x.name == "f16" else "bf16")


def _scales(case: GemmCase) -> str:
    """Empty without any, `other` where there is more or something else behind the product."""
    gemm = case.gemm
    if case.scales_together and not gemm.steps:
        return _MICROSCALED
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


def instance_keys(instance: GemmInstance) -> Iterator[str]:
    """`256x128x128x128_32x32_2x2_1x1_intrawave_v3`: what tells the instances of AITER's lists apart. Then in full, with
    the threads that write Y, and without all of the epilogue, which names of experts do not say."""
    tile, sched = instance.tile, "interwave" if instance.interwave else "intrawave"
    sizes = "x".join(map(str, (instance.threads, tile.m, tile.n, tile.k)))
    pairs = (instance.instruction, instance.repeats, instance.shuffled)
    instruction, repeats, shuffled = ("x".join(map(str, pair)) for pair in pairs)
    for epilogue in (shuffled, f"{shuffled}x{instance.writers}", "0x0"):
        yield f"{sizes}_{instruction}_{repeats}_{epilogue}_{sched}_{instance.pipeline}"


def features(instance: GemmInstance, sizes: GemmSizes, found: GemmTime, compute_units: int) -> dict[str, float]:
    """The numbers that decision tables look at, by their names; sizes, counts and parts are in log₂."""
    tile, places, groups = instance.tile, compute_units * found.together, found.workgroups
    m = sizes.m if sizes.routing is None else sizes.m / sizes.routing.used
    counts = {
        "M": m,
        "N": sizes.n,
        "K": sizes.k,
        "slices of K": sizes.slices,
        "CUs": compute_units,
        "tile's rows": tile.m,
        "tile's columns": tile.n,
        "tile's depth": tile.k,
        "threads": instance.threads,
        "instruction's rows": instance.instruction[0],
        "repeats along M": instance.repeats[0],
        "repeats along N": instance.repeats[1],
        "workgroups together": found.together,
        "workgroups per CU": groups / compute_units,
        "workgroups per place": groups / places,
        "workgroups of the busiest CU": -(-groups // compute_units),
        "turns": -(-groups // places),
        "CUs in use": _used(groups, compute_units),
        "places in use": _used(groups, places),
        "rounds": found.rounds,
        "rows of the tile in use": min(1.0, m / tile.m),
        "used rows": _whole(sizes.m, tile.m),
        "used columns": _whole(sizes.n, tile.n),
        "used depth": _whole(sizes.k, tile.k),
        "tiles along M": -(-sizes.m // tile.m),
        "tiles along N": -(-sizes.n // tile.n),
        "time": found.time_us,
    }
    shares = found.shares
    return {
        **{name: log2(count) for name, count in counts.items()},
        "pipeline": float(instance.pipeline[1:]),
        "interwave": float(instance.interwave),
        "stages": float(instance.stages(sizes.x_bytes, sizes.w_bytes)),
        "bytes of an element": sizes.x_bytes,
        **{name: shares.get(term, 0.0) for term, name in _SHARES},
    }


_SHARES = [(term, f"share of {term.name.lower()}") for term in Bottleneck]


def _whole(size: int, tile: int) -> float:
    """The part of whole tiles that is of use."""
    return size / (-(-size // tile) * tile)


def _used(workgroups: int, places: int) -> float:
    """The part of whole turns that has workgroups."""
    return workgroups / (-(-workgroups // places) * places)
