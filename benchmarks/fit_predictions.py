"""Learns what `ckwatch.prediction.learned` ships: one file per family, from a folder of measured winners.

    python -m benchmarks.fit_predictions [FOLDER …]     by default of ../shared/measured

The same folder gives the same files. `benchmarks.predictions` uses the same learner for what it holds back. Of a family
with more than `LEARNED_FROM_AT_MOST` rows a sample is learned from, drawn by a hash of the shape.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measured_rows import Case, Row, cases_of, files_of, read_rows, without_copies
from benchmarks.reporting import RESULTS
from ckwatch.prediction import learned
from ckwatch.prediction.learned import (
    BOTH_KNOWN,
    FOREIGN,
    OTHER,
    RELATED,
    SHARE_FLOOR,
    SHARE_PRIOR,
    SHARE_WIDTHS,
    TIME_WIDTHS,
    VERSION,
    DecisionTable,
    Point,
    PredictionRecord,
    features,
    instance_keys,
    point_of,
    trend,
)
from ckwatch.prediction.times import estimated_figures, gemm_time

MEASURED = Path(__file__).parents[2] / "shared" / "measured"
STORED = Path(learned.__file__).with_name(learned.FOLDER)
FITTED_ON = RESULTS / "predictions_fitted_on.txt"
SOURCE = "ROCm/aiter at e4048607 (2026-08-22), aiter/configs, MIT"
PUBLIC = RESULTS / "public_timings.csv"
PUBLIC_SOURCE = "ROCm/rocm-libraries at 57ae5f0b, composablekernel/dispatcher/examples/gemm/python, MIT"
CHOSEN = ("gemm_universal_cktile", "f16")
"""Family and dtype of times of instances that a model chose there: no winners."""

FOLDS = 5
LEARNED_FROM_AT_MOST = 1500
JUDGED_AT_MOST = 2500
"""Of a family, for its records."""

LEAST_ROWS = 30
"""Of a family, to learn from it."""

SHARPNESS = 15.0
"""Of the choice: what wins by 1 / 15 of the time is e times as likely."""

TIME_WEIGHT = 50.0
"""Of a winner's squared error in log(time), as if times were off by 1 / √50 = 14 %."""

ROBUST = 0.15
"""Errors in log(time) beyond this count linearly."""

TABLES, SPLITS, RATE = 150, 4, 0.13
"""How many decision tables, each of how many splits, and how much of its best values a table gets."""

ASKED = 0.3
"""Of all features, drawn anew for each table."""

BINS = 32
"""Of a feature, at most, between which thresholds lie."""

VALUE_PENALTY, LEAST_CURVATURE = 3.0, 0.5
"""On half the square of a value, and how much evidence each side of a split has."""

LIVE = 1e-3
"""Less likely candidates are not looked at for the next table."""

TREND = 1.0
"""Variance of a weight of the trend, in the same units as `NOISE`."""

NOISE = 0.3
"""Variance of a measured time in units of that between shapes, in kriging; errors beyond `CLIPPED` count as that."""

CLIPPED = 0.5

INSIDE = 0.8
"""Of measured times, that an interval is to hold."""

EVIDENCE = (0.0, 0.3)
"""From how much evidence nearby on there is another interval, for each of how familiar sizes are."""

LEAST_BIN = 20
"""Errors that an interval is made of."""

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Design:
    """For n cases of a family, c candidates at most and f features: log(time) by formulas (n × c), features (n × c ×
    f), the numbers of candidates' instances (n × c, -1 where there is none), the winner's index (n) and log of its time
    (n), and where the sizes are (n × 4), with the numbers of their `trend`. `related` (n × n): how much one case
    counts for another."""

    cases: tuple[Case, ...]
    names: tuple[str, ...]
    instances: tuple[str, ...]
    formulas: Floats
    features: Singles
    numbers: Numbers
    winner: Numbers
    measured: Floats
    at: Floats
    related: Floats
    groups: Numbers
    trend: Floats
    trends: tuple[str, ...]

    @property
    def won(self) -> Numbers:
        """The number of the instance that won."""
        return self.numbers[np.arange(len(self.cases)), self.winner]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Decision tables, and what kriging needs: the cases that were learned from and their coefficients, and the weights
    of the trend."""

    tables: tuple[DecisionTable, ...]
    rows: Numbers
    coefficients: Floats
    trend: Floats


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Of some cases: the winner's place from 0, log of its predicted over its measured time, how much evidence was
    nearby and how familiar the sizes were (`learned.Nearby`), and by how much the winner is predicted slower than the
    first choice, in log(time) (cost: n × c)."""

    places: Numbers
    errors: Floats
    evidence: Floats
    familiar: Numbers
    cost: Floats


OUTCOMES = ("places", "errors", "evidence", "familiar", "cost")


def design_of(cases: Sequence[Case]) -> Design:
    """The data that weights are learned from."""
    found: list[dict[str, float]] = []
    where: list[tuple[int, int]] = []
    most = max(len(case.candidates) for case in cases)
    formulas, numbers = np.zeros((len(cases), most)), np.full((len(cases), most), -1)
    named = keys_of(cases)
    keys = sorted(set(named.values()))
    place = {key: number for number, key in enumerate(keys)}
    winner = np.zeros(len(cases), dtype=np.int64)
    for at, case in enumerate(cases):
        machine = case.target.machine((case.row.dtype, case.row.dtype))
        assert machine is not None  # every known part multiplies what AITER has tuned on it
        for number, (name, instance) in enumerate(case.candidates.items()):
            time = gemm_time(instance, estimated_figures(instance, case.sizes), case.sizes, machine)
            found.append(features(instance, case.sizes, time, machine.compute_units))
            where.append((at, number))
            formulas[at, number], numbers[at, number] = np.log(time.time_us), place[named[name]]
            if name == case.row.winner:
                winner[at] = number
    names = tuple(found[0])
    values = np.zeros((len(cases), most, len(names)), dtype=np.float32)
    values[tuple(np.array(where).T)] = [list(one.values()) for one in found]
    slices, archs = (np.array(one) for one in zip(*((case.slice, case.target.arch) for case in cases), strict=True))
    same = slices[:, None] == slices
    related = np.where(same, RELATED[0], np.where(archs[:, None] == archs, RELATED[1], RELATED[2]))
    groups = sorted({case.row.group for case in cases})
    points = [point_of(case.sizes) for case in cases]
    sloped = [trend(point) for point in points]
    trends = tuple(sorted({name for one in sloped for name in one}))
    return Design(
        tuple(cases), names, tuple(keys), formulas, values, numbers, winner,
        np.log([case.row.us for case in cases]), np.array(points), related,
        np.array([groups.index(case.row.group) for case in cases]),
        np.array([[one.get(name, 0.0) for name in trends] for one in sloped]), trends,
    )  # fmt: skip


def keys_of(cases: Sequence[Case]) -> dict[str, str]:
    """What tells candidates apart, by their names: `instance_keys`, in full where the first means several. Names in
    CK Tile's lists say more than instances do: for how many workgroups on a CU registers are allotted, the layout of
    X's scales, and the depth of matrix instructions."""
    every = {name: instance for case in cases for name, instance in case.candidates.items()}
    if cases[0].row.family.endswith("_cktile"):
        return {name: name for name in every}
    keys = {name: tuple(instance_keys(instance))[:2] for name, instance in every.items()}
    times = Counter(usual for usual, _ in set(keys.values()))
    return {name: full if times[usual] > 1 else usual for name, (usual, full) in keys.items()}


def kernels(design: Design, these: Numbers, those: Numbers, widths: Point) -> Floats:
    """How much each of `those` cases counts for each of `these`."""
    apart = (design.at[these][:, None] - design.at[those][None]) / np.array(widths)
    near: Floats = np.exp(-(apart**2).sum(2) / 2) * design.related[np.ix_(these, those)]
    return near


def share_logs(design: Design, these: Numbers, those: Numbers, *, apart: bool) -> Singles:
    """`learned.share_log` of all candidates of `these`, by the winners of `those`; not by those of the same N and K if
    `apart`."""
    count = len(design.instances)
    won = np.zeros((len(those), count))
    won[np.arange(len(those)), design.won[those]] = 1
    numbers = design.numbers[these]
    found = []
    for widths in SHARE_WIDTHS:
        near = kernels(design, these, those, widths)
        if apart:
            near[design.groups[these][:, None] == design.groups[those]] = 0
        weights = near @ won
        shares = (weights + SHARE_PRIOR / count) / (weights.sum(1, keepdims=True) + SHARE_PRIOR)
        logs = np.log((shares + SHARE_FLOOR) / (1 / count + SHARE_FLOOR))
        found.append(np.where(numbers < 0, 0.0, np.take_along_axis(logs, np.maximum(numbers, 0), 1)))
    return np.stack(found, 2).astype(np.float32)


def fit(design: Design, rows: Numbers) -> Fitted:
    """The decision tables, and kriging of what is left of the winners' times."""
    rows = thinned(design, rows)
    x = np.concatenate([design.features[rows], share_logs(design, rows, rows, apart=True)], axis=2)
    measured = design.measured[rows]
    tables, times = boosted(x, design.numbers[rows] >= 0, design.winner[rows], design.formulas[rows], measured)
    near = kernels(design, rows, rows, TIME_WIDTHS)
    left = np.clip(measured - times, -CLIPPED, CLIPPED)
    slopes = TREND * design.trend[rows]
    covariance = near + slopes @ design.trend[rows].T + NOISE * np.eye(len(rows))
    coefficients = np.linalg.solve(covariance, left).astype(np.float64)
    return Fitted(tables, rows, coefficients, slopes.T @ coefficients)


def boosted(
    x: Singles, possible: npt.NDArray[np.bool_], winner: Numbers, formulas: Floats, measured: Floats
) -> tuple[tuple[DecisionTable, ...], Floats]:
    """Decision tables, each a Newton step on what the winners' likelihoods and the errors of their times leave, and
    log(time) of the winners with them."""
    case, candidate = np.nonzero(possible)
    begins = np.concatenate([[0], np.nonzero(np.diff(case))[0] + 1])
    won = begins + np.array([mine[:at].sum() for mine, at in zip(possible, winner, strict=True)])
    x, cost = x[case, candidate], formulas[case, candidate]
    thresholds = [thresholds_of(column) for column in x.T]
    bins = np.array([np.searchsorted(one, column) for one, column in zip(thresholds, x.T, strict=True)], dtype=np.int16)
    counts = [len(one) for one in thresholds]
    usable = [number for number, count in enumerate(counts) if count]
    # what all times are off by is left to the trend
    measured = measured + np.median(cost[won] - measured)
    rng, tables = np.random.default_rng(0), []
    for _ in range(TABLES):
        scores = SHARPNESS * (np.minimum.reduceat(cost, begins)[case] - cost)
        likely = np.exp(scores)
        likely /= np.add.reduceat(likely, begins)[case]
        # of the loss by -SHARPNESS · log(time)
        slope, curvature = likely.copy(), likely * (1 - likely)
        off = np.clip(cost[won] - measured, -ROBUST, ROBUST)
        slope[won] -= 1 + TIME_WEIGHT / SHARPNESS * off
        curvature[won] += TIME_WEIGHT / SHARPNESS**2
        live = likely > LIVE
        live[won] = True
        asked = rng.choice(usable, max(1, int(ASKED * len(usable))), replace=False)
        splits = splits_of(bins[:, live], counts, slope[live], curvature[live], asked.tolist())
        if len(splits) < SPLITS:
            break
        at = np.zeros(len(cost), dtype=np.int64)
        for number, place in splits:
            at = 2 * at + (bins[number] > place)
        sums, steps = (np.bincount(at[live], one[live], 1 << len(splits)) for one in (slope, curvature))
        values = np.round(RATE * sums / (steps + VALUE_PENALTY) / SHARPNESS, 4)
        cost = cost + values[at]
        named = ((number, float(thresholds[number][place])) for number, place in splits)
        tables.append(DecisionTable._make((*named, tuple(values.tolist()))))
    return tuple(tables), cost[won]


def thresholds_of(column: Singles) -> Floats:
    """Between the values of a feature; between its quantiles where there are more than `BINS`."""
    values = np.unique(column)
    between = ((values[1:] + values[:-1]) / 2).astype(np.float64)
    if len(values) > BINS:
        quantiles = np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1], method="nearest")
        between = between[np.minimum(np.searchsorted(values, np.unique(quantiles)), len(between) - 1)]
    return np.unique(np.round(between, 4))


def splits_of(
    bins: npt.NDArray[np.int16], counts: Sequence[int], slope: Floats, curvature: Floats, asked: Sequence[int]
) -> list[tuple[int, int]]:
    """The features and the bins that a table splits at, one after the other, each the one that gains the most."""
    at = np.zeros(len(slope), dtype=np.int64)
    splits: list[tuple[int, int]] = []
    for level in range(SPLITS):
        best = 0.0, -1, -1
        for number in asked:
            width = counts[number] + 1
            key = at * width + bins[number]
            below, less = (
                np.bincount(key, one, width << level).reshape(-1, width).cumsum(1) for one in (slope, curvature)
            )
            above, more = below[:, -1:] - below, less[:, -1:] - less
            gain = (below**2 / (less + VALUE_PENALTY) + above**2 / (more + VALUE_PENALTY)).sum(0)
            gain[np.minimum(less.sum(0), more.sum(0)) < LEAST_CURVATURE] = -1
            place = int(gain[:-1].argmax())
            if gain[place] > best[0]:
                best = float(gain[place]), number, place
        _, number, place = best
        if number < 0:
            break
        splits.append((number, place))
        at = 2 * at + (bins[number] > place)
    return splits


def corrections(tables: Iterable[DecisionTable], x: Singles) -> Floats:
    """What tables add to log(time)."""
    total = np.zeros(x.shape[:-1])
    for table in tables:
        at = np.zeros(x.shape[:-1], dtype=np.int64)
        *splits, values = table
        for number, threshold in splits:
            at = 2 * at + (x[..., number] > threshold)
        total += np.array(values)[at]
    return total


def likelihoods(cost: Floats, possible: npt.NDArray[np.bool_], sharpness: float = SHARPNESS) -> Floats:
    """How likely each candidate is to win."""
    scores = np.where(possible, -sharpness * cost, -np.inf)
    likely = np.exp(scores - scores.max(1, keepdims=True))
    found: Floats = likely / likely.sum(1, keepdims=True)
    return found


def thinned(design: Design, rows: Numbers) -> Numbers:
    """As many of the rows as are learned from."""
    if len(rows) <= LEARNED_FROM_AT_MOST:
        return rows
    order = sorted(rows.tolist(), key=lambda at: fingerprint(design.cases[at].row))
    return np.array(sorted(order[:LEARNED_FROM_AT_MOST]))


def outcomes(design: Design, rows: Numbers, fitted: Fitted | None) -> Outcomes:
    """Predict `rows` by what was learned from others, by the formulas alone if `fitted` is None. The winner stands
    behind what ties with it."""
    possible = design.numbers[rows] >= 0
    cost = design.formulas[rows]
    off = evidence = np.zeros(len(rows))
    familiar = np.zeros(len(rows), dtype=np.int64)
    if fitted is not None:
        shares = share_logs(design, rows, fitted.rows, apart=False)
        x = np.concatenate([design.features[rows], shares], axis=2)
        near = kernels(design, rows, fitted.rows, TIME_WIDTHS)
        off = near @ fitted.coefficients + design.trend[rows] @ fitted.trend
        evidence = near.sum(1)
        same = design.related[np.ix_(rows, fitted.rows)] == RELATED[0]
        both = same & (design.at[rows][:, None, 1:3] == design.at[fitted.rows][None, :, 1:3]).all(2)
        familiar = np.where(both.any(1), BOTH_KNOWN, same.any(1).astype(np.int64))
        believed, expected = (np.where(familiar > 0, 1, part) for part in FOREIGN)
        cost, off = cost + corrections(fitted.tables, x) * believed[:, None], off * expected
    cost = np.where(possible, cost, np.inf)
    own = cost[np.arange(len(rows)), design.winner[rows]]
    places = (cost <= own[:, None] + 1e-6).sum(1) - 1
    return Outcomes(places, own + off - design.measured[rows], evidence, familiar, cost)


def held_out(design: Design, rows: Numbers, parts: Sequence[object], known: Numbers) -> Outcomes:
    """Each of `rows` as it is predicted by what was learned from those of the `known` ones that are in other parts."""
    names = sorted(set(map(str, parts)))
    mine = np.array([names.index(str(one)) for one in parts])
    merged: list[tuple[Numbers, Outcomes]] = []
    for number in sorted(set(mine[rows].tolist())):
        train, test = known[mine[known] != number], rows[mine[rows] == number]
        fitted = fit(design, train) if len(train) >= LEAST_ROWS else None
        merged.append((test, outcomes(design, test, fitted)))
    order = np.argsort(np.concatenate([np.searchsorted(rows, test) for test, _ in merged]))
    return Outcomes(*(
        np.concatenate([getattr(found, name) for _, found in merged])[order]
        for name in OUTCOMES
    ))  # fmt: skip


def folds(cases: Sequence[Case], of: Callable[[Row], object], seed: int = 0) -> list[int]:
    """The number of each case's fold; what `of` says the same of is in one."""
    groups = sorted({of(case.row) for case in cases}, key=str)
    random.Random(seed).shuffle(groups)  # noqa: S311
    fold = {group: number % FOLDS for number, group in enumerate(groups)}
    return [fold[of(case.row)] for case in cases]


def fingerprint(row: Row) -> str:
    """Of a row that was learned from."""
    return hashlib.sha256(row.key.encode()).hexdigest()[:12]


def intervals(found: Sequence[Outcomes], chosen: npt.NDArray[np.bool_]) -> list[tuple[int, float, float, float]]:
    """How familiar, and from how much evidence on, which factors of a predicted time hold `INSIDE` of the measured
    ones; the first one holds for all. By those of the cases that are chosen."""
    errors, evidence, familiar = (
        np.concatenate([getattr(one, name)[chosen] for one in found]) for name in ("errors", "evidence", "familiar")
    )
    made: list[tuple[int, float, float, float]] = []
    for known in range(BOTH_KNOWN + 1):
        for least, most in zip(EVIDENCE, (*EVIDENCE[1:], np.inf), strict=True):
            inside = (familiar == known) & (evidence >= least) & (evidence < most)
            if inside.sum() < LEAST_BIN:
                inside = np.ones(len(errors), dtype=bool)
                if made:
                    continue
            low, high = np.quantile(-errors[inside], [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
            made.append((known, least, round(float(np.exp(low)), 3), round(float(np.exp(high)), 3)))
    return made


def inside_of(found: Outcomes, made: Sequence[tuple[int, float, float, float]]) -> npt.NDArray[np.bool_]:
    """Which measured times lie in their interval."""
    bounds = [
        next((one[2:] for one in reversed(made) if one[:2] <= mine), (1.0, 1.0))
        for mine in zip(found.familiar.tolist(), found.evidence.tolist(), strict=True)
    ]
    low, high = np.array(bounds).reshape(-1, 2).T
    measured = np.exp(-found.errors)
    return np.asarray((low <= measured) & (measured <= high))


def record(
    found: Outcomes, chosen: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], name: str, most: int, *, known: bool
) -> PredictionRecord:
    """Of predictions, all with a time."""
    off = np.abs(np.exp(found.errors[chosen]) - 1)
    first, five = (float((found.places[chosen] < least).mean()) for least in (1, 5))
    return PredictionRecord(
        slice=name, learned=known, shapes=int(chosen.sum()), candidates=most, first=round(first, 4),
        first_five=round(five, 4), off=round(float(np.median(off)), 4), off_90=round(float(np.quantile(off, 0.9)), 4),
        inside=round(float(inside[chosen].mean()), 4),
    )  # fmt: skip


def left_out_keys(cases: Sequence[Case]) -> dict[str, list[object]]:
    """Keys of what is left out together, of parts and of dtypes, where there are several."""
    found: dict[str, list[object]] = {
        "learned without its part": [(case.row.gfx, case.row.units) for case in cases],
        "learned without its dtype": [(case.row.dtype, case.row.scales) for case in cases],
    }
    return {title: keys for title, keys in found.items() if len(set(keys)) > 1}


def goodness(one: PredictionRecord) -> float:
    """By which formulas and what was learned are compared."""
    return (one.first or 0.0) + (one.first_five or 0.0) - one.off


def learn(cases: Sequence[Case]) -> tuple[dict[str, Any], list[str]]:
    """Return what is stored of a family, and the fingerprints of the rows that were learned from."""
    design = design_of(cases)
    every = np.arange(len(cases))
    slices = np.array([case.slice for case in cases])
    most = {name: max(len(case.candidates) for case in cases if case.slice == name) for name in set(slices.tolist())}
    formulas = outcomes(design, every, None)
    nowhere = np.zeros(len(cases), dtype=bool)
    if len(cases) < LEAST_ROWS:
        records = [record(formulas, slices == name, nowhere, name, most[name], known=False) for name in sorted(most)]
        return {
            "version": VERSION,
            "source": SOURCE,
            "records": [asdict(one) for one in records],
            "correction": None,
        }, []
    grouped = held_out(design, every, folds(cases, lambda row: row.group), every)
    single = held_out(design, every, folds(cases, lambda row: row.key), every)
    left_out = {}
    if len(most) > 1:
        for title, keys in left_out_keys(cases).items():
            left_out[title] = held_out(design, every, keys, every)
    pooled = [grouped, single, *left_out.values()]
    made = intervals(pooled, np.ones(len(cases), dtype=bool))
    inside = inside_of(grouped, made)
    records = []
    for name in sorted(most):
        chosen = slices == name
        plain, learned_one, nearby = (
            record(one, chosen, hits, name, most[name], known=known)
            for one, hits, known in ((formulas, nowhere, False), (grouped, inside, True), (single, inside, True))
        )
        # users ask for both, sizes of known N and K and of others
        is_better = goodness(learned_one) + goodness(nearby) > 2 * goodness(plain)
        records.append(learned_one if is_better else plain)
    if left_out:
        times = len(left_out)
        joined, alone = (
            Outcomes(*(np.concatenate([getattr(one, name) for one in some]) for name in OUTCOMES))
            for some in (list(left_out.values()), [formulas] * times)
        )  # fmt: skip
        all_of, none_of = np.ones(times * len(cases), dtype=bool), np.zeros(times * len(cases), dtype=bool)
        largest = max(most.values())
        both = [
            record(alone, all_of, none_of, OTHER, largest, known=False),
            record(joined, all_of, inside_of(joined, made), OTHER, largest, known=True),
        ]
        records.append(max(both, key=goodness))
    correction = None
    if any(one.learned for one in records):
        correction = stored_correction(design, fit(design, every), made)
    stored = {
        "version": VERSION,
        "source": SOURCE,
        "records": [asdict(one) for one in records],
        "correction": correction,
    }
    return stored, [fingerprint(cases[at].row) for at in thinned(design, every)]


def timed_alone(cases: Sequence[Case]) -> dict[str, Any]:
    """Return what is stored of instances that were timed without others: how far the formulas' times are off."""
    found = outcomes(design_of(cases), np.arange(len(cases)), None)
    every = np.ones(len(cases), dtype=bool)
    most = max(len(case.candidates) for case in cases)
    of = record(found, every, ~every, cases[0].slice, most, known=False)
    records = [{**asdict(of), "first": None, "first_five": None}]
    return {"version": VERSION, "source": PUBLIC_SOURCE, "records": records, "correction": None}


def stored_correction(
    design: Design, fitted: Fitted, made: Sequence[tuple[int, float, float, float]]
) -> dict[str, Any]:
    """The correction as `learned.read_family` reads it."""
    slices = sorted({(case.slice, case.target.arch) for case in design.cases})
    points = []
    for at, coefficient in zip(fitted.rows.tolist(), fitted.coefficients.tolist(), strict=True):
        case = design.cases[at]
        m, n, k, times = (round(2**one) for one in design.at[at])
        number = slices.index((case.slice, case.target.arch))
        points.append([number, m, n, k, times, int(design.won[at]), round(coefficient, 3)])
    return {
        "features": design.names,
        "known": design.instances,
        "tables": fitted.tables,
        "trend": {name: round(float(one), 4) for name, one in zip(design.trends, fitted.trend, strict=True)},
        "intervals": [list(one) for one in made],
        "slices": [list(one) for one in slices],
        "points": points,
    }


def by_family(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each family, in a fixed order."""
    found: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda one: one.row.key):
        found.setdefault(case.row.family, []).append(case)
    return dict(sorted(found.items()))


def sampled(cases: Sequence[Case], most: int) -> list[Case]:
    """At most so many cases of each family, drawn by a hash of the shape."""
    found = []
    for mine in by_family(cases).values():
        found += sorted(mine, key=lambda case: fingerprint(case.row))[:most]
    return found


def text_of(stored: dict[str, Any]) -> str:
    """JSON with a line for each table and each point."""
    text = json.dumps(stored, indent=1)
    if stored["correction"] is None:
        return text + "\n"
    long = {name: stored["correction"][name] for name in ("tables", "points")}
    short = {**stored["correction"], **{name: name.upper() for name in long}}
    text = json.dumps({**stored, "correction": short}, indent=1)
    for name, every in long.items():
        lines = ",\n".join(f"   {json.dumps(one, separators=(',', ':'))}" for one in every)
        text = text.replace(f'"{name.upper()}"', f"[\n{lines}\n  ]")
    return text + "\n"


def main() -> int:
    """The exit status: 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FOLDER or FILE")
    options = parser.parse_args()
    left_out: Counter[str] = Counter()
    rows = read_rows(files_of(options.paths or [MEASURED]), left_out)
    cases = cases_of(without_copies(rows, (), left_out))
    STORED.mkdir(exist_ok=True)
    fitted: list[str] = []
    for family, mine in by_family(cases).items():
        if family.endswith("_cktile"):
            continue  # no template of ckwatch makes such instances
        stored, learned_from = learn(sampled(mine, JUDGED_AT_MOST))
        (STORED / f"{family}.json").write_text(text_of(stored))
        fitted += learned_from
        print(f"{family}: {len(mine)} rows, {len(learned_from)} learned from", flush=True)
    chosen = [one for one in cases_of(read_rows([PUBLIC], left_out)) if (one.row.family, one.row.dtype) == CHOSEN]
    (STORED / f"{CHOSEN[0]}.json").write_text(text_of(timed_alone(chosen)))
    FITTED_ON.write_text("\n".join(sorted(fitted)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
