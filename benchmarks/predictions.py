"""Predictions held against the fastest instances that AITER's tuner found on AMD GPUs: the record of every family.

    python -m benchmarks.predictions [FOLDER or FILE …]     the tables; by default of ../shared/measured, and CUTLASS's
    … --known FOLDER                                        what may be learned from; by default ../shared/measured

The files are those that `shared/measured/README.md` describes: winners and their times in µs (`measured_rows` says
which instances they are chosen from). Of each family and slice stand there

- the formulas alone, before a compile; of whole matrices also with times that are scaled by those of other shapes
- what `rank` says of rows that it did not learn from, by the files that ship
- all rows, by what was learned from rows of other N and K (five folds, grouped by N and K)
- all rows, by what was learned from other rows (five folds, no groups): the same N and K may be known
- rows by what was learned from other parts, and from other dtypes
- compiled: what `rank` says with the registers and LDS of code objects, where they are stored

*first*, *five*: how often the winner is the first choice, or one of the first five; a winner stands behind what ties
with it. *off*, *p90*: the median and the 90th percentile of how far the winner's predicted time is from the measured
one. *in*: how many measured times lie in the interval that is to hold 80 %. *eff*, *p10*: the first choice's
efficiency, the winner's time over that of the first choice, in the mean and at the 10th percentile. Only winners are
known: where the first choice is another, its time is predicted from how much it may lose by the model and still have
lost (`efficiency`), with what the model's own sharpness leaves open behind ±. Of whole matrices it is measured.
*most*: how often the first choice would win a tuning if all times were as predicted, but for a tuning's noise.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import compiled_figures, cutlass_cases
from benchmarks.fit_predictions import (
    FITTED_ON,
    LEARNED_FROM_AT_MOST,
    LEAST_ROWS,
    MEASURED,
    OUTCOMES,
    Design,
    Floats,
    Numbers,
    Outcomes,
    by_family,
    design_of,
    fingerprint,
    folds,
    held_out,
    inside_of,
    intervals,
    left_out_keys,
    likelihoods,
    outcomes,
    sampled,
)
from benchmarks.measured_rows import Case, cases_of, files_of, read_matrices, read_rows, without_copies
from ckwatch.codeobject.report import CodeObjectReport, main_kernel
from ckwatch.model.errors import CkwatchError
from ckwatch.prediction.learned import Correction, learned_family
from ckwatch.prediction.predict import compiled_figures as figures_of_kernel
from ckwatch.prediction.times import GemmTime, estimated_figures, gemm_time

INSTRUCTION_DEPTHS = {
    **{("gfx942", dtype, size): depth for dtype in ("i8", "f8") for size, depth in ((32, 16), (16, 32))},
    **{("gfx950", "i8", size): depth for size, depth in ((32, 32), (16, 64))},
    **{("gfx950", "f8", size): depth for size, depth in ((32, 64), (16, 128))},
}
"""K of the largest matrix instruction by arch, dtype and M."""

SHARPNESSES = np.geomspace(3, 100, 60)
"""Of the choice, of which the likeliest is taken for efficiencies."""

LIKELY = 0.82
"""Log of the likelihood by which those are less likely that bound an 80 % interval (half of χ² with one degree)."""

SPREAD = 0.03 / 0.6745 / 2**0.5
"""Deviation of log(time): AITER's two tunings measured an instance 3 % apart in the median."""

TUNINGS = 20

MIDDLE_M = (257, 1024)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table: what predicted which cases (indices), and how that came out; `inside` where intervals are."""

    method: str
    rows: Numbers
    found: Outcomes
    inside: npt.NDArray[np.bool_] | None = None

    def of(self, chosen: npt.NDArray[np.bool_]) -> Line:
        """Those of the cases that are chosen."""
        mine = chosen[self.rows]
        part = Outcomes(*(getattr(self.found, name)[mine] for name in OUTCOMES))
        return Line(self.method, self.rows[mine], part, None if self.inside is None else self.inside[mine])


def shipped(cases: Sequence[Case], reports: Mapping[tuple[str, str], Mapping[str, CodeObjectReport]]) -> Outcomes:
    """As `rank` predicts: by the files that ship, with the figures of a compile where `reports` has all of a case. The
    cost has the instances in the order of a case's."""
    most = max((len(case.candidates) for case in cases), default=0)
    cost = np.full((len(cases), most), np.inf)
    errors, evidence = np.zeros(len(cases)), np.zeros(len(cases))
    familiar, winners = np.zeros(len(cases), dtype=np.int64), np.zeros(len(cases), dtype=int)
    for at, case in enumerate(cases):
        family = learned_family(case.row.family)
        correction = None if family is None else family.correction_of(case.slice)
        for number, (name, instance) in enumerate(case.candidates.items()):
            machine = case.target.machine((case.row.dtype, case.row.dtype))
            assert machine is not None  # every known part multiplies what AITER has tuned on it
            figures = estimated_figures(instance, case.sizes)
            report = reports.get((case.row.dtype, case.row.gfx), {}).get(name)
            kernel = None if report is None else main_kernel(report)
            estimated = gemm_time(instance, figures, case.sizes, machine)
            if correction is not None:
                factor = corrected(correction, case, name, estimated)
                cost[at, number] = np.log(estimated.time_us * factor)
            elif kernel is not None:
                compiled = gemm_time(instance, figures_of_kernel(kernel, figures), case.sizes, machine)
                cost[at, number] = np.log(compiled.time_us)
            else:
                cost[at, number] = np.log(estimated.time_us)
            if name == case.row.winner:
                winners[at] = number
        errors[at] = cost[at, winners[at]] - np.log(case.row.us)
        if correction is not None:
            nearby = correction.nearby(case.sizes, case.slice, case.target.arch)
            evidence[at], familiar[at] = nearby.evidence, nearby.familiar
    own = cost[np.arange(len(cases)), winners]
    places = (cost <= own[:, None] + 1e-6).sum(1) - 1
    return Outcomes(places, errors, evidence, familiar, cost)


def corrected(correction: Correction, case: Case, name: str, time: GemmTime) -> float:
    """The factor that was learned for a candidate of a case."""
    units = case.target.part.compute_units
    return correction.factor(case.candidates[name], case.sizes, time, units, case.slice, case.target.arch)[0]


def shipped_intervals(cases: Sequence[Case], found: Outcomes) -> npt.NDArray[np.bool_] | None:
    """Which measured times lie in the interval that `rank` shows; None where it shows none."""
    family = learned_family(cases[0].row.family) if cases else None
    correction = None if family is None else family.correction
    return None if correction is None or not correction.intervals else inside_of(found, correction.intervals)


def lines_of(design: Design, known: Numbers, rows: Numbers, fitted: set[str]) -> list[Line]:
    """The methods and how they came out on `rows`, by what they learn from `known` rows."""
    cases = design.cases
    found = [Line("formulas", rows, outcomes(design, rows, None))]
    if len(rows) > 1 and all(cases[at].times for at in rows.tolist()):
        found.append(Line("formulas, scaled by other shapes' times", rows, scaled(design, rows, found[0].found)))
    if cases[0].row.family == cutlass_cases.FAMILY:
        return found  # `rank` predicts no NVIDIA GPU
    unseen = np.array([at for at in rows.tolist() if fingerprint(cases[at].row) not in fitted], dtype=np.int64)
    if len(unseen):
        mine = [cases[at] for at in unseen.tolist()]
        ships = shipped(mine, {})
        found.append(Line("`rank`, rows that it did not learn from", unseen, ships, shipped_intervals(mine, ships)))
    if len(known) < LEAST_ROWS:
        return found
    methods: list[tuple[str, Sequence[object]]] = [
        ("learned without its N and K", folds(cases, lambda row: row.group)),
        ("learned without the row", folds(cases, lambda row: row.key)),
    ]
    methods += left_out_keys(cases).items()
    held = [(title, held_out(design, rows, keys, known)) for title, keys in methods]
    for title, one in held:
        # the interval is made of other folds than it is tried on
        half = np.array([int(fingerprint(cases[at].row), 16) % 2 for at in rows.tolist()])
        inside = np.zeros(len(rows), dtype=bool)
        for side in (0, 1):
            if (half != side).any():
                inside |= (half == side) & inside_of(one, intervals([other for _, other in held], half != side))
        found.append(Line(title, rows, one, inside))
    return found


def scaled(design: Design, rows: Numbers, found: Outcomes) -> Outcomes:
    """The same order, with times divided by how much too long the formulas' are on the other shapes of a whole matrix,
    in the median of their medians."""
    off = np.array([
        np.median(design.formulas[at, : len(case.times)] - np.log([case.times[name] for name in case.candidates]))
        for at, case in ((at, design.cases[at]) for at in rows.tolist())
    ])  # fmt: skip
    others = np.array([np.median(np.delete(off, number)) for number in range(len(off))])
    return replace(found, errors=found.errors - others)


def measured_efficiency(line: Line, cases: Sequence[Case]) -> tuple[float, float] | None:
    """The mean and the 10th percentile of the winner's time over that of the first choice, where all were measured."""
    found = []
    for at, cost in zip(line.rows.tolist(), line.found.cost, strict=True):
        case = cases[at]
        if not case.times:
            return None
        first = list(case.candidates)[int(np.argmin(cost))]
        found.append(case.row.us / case.times[first])
    return float(np.mean(found)), float(np.quantile(found, 0.1))


def efficiency(line: Line, sharpness: float) -> tuple[float, float]:
    """The mean and the 10th percentile of the winner's time over that of the first choice.

    If the first choice is not the winner, it was predicted faster by d in log(time), and is slower by some X > 0.
    Errors of differences have a logistic distribution, as a conditional logit says, of scale 1 / sharpness: P(X > x) =
    (1 + exp(sharpness · d)) / (1 + exp(sharpness · (x + d))).
    """
    gaps = _gaps(line)
    lost = gaps > 0
    x = np.linspace(0, 1.5, 600)
    beyond = np.exp(
        np.logaddexp(0, sharpness * gaps[lost])[:, None] - np.logaddexp(0, sharpness * (x[None] + gaps[lost][:, None]))
    )
    above = beyond.sum(0) / len(gaps)
    mean = 1 - float(np.sum((above[1:] + above[:-1]) / 2 * (np.exp(-x[:-1]) - np.exp(-x[1:]))))
    return mean, float(np.exp(-x[np.argmax(above <= 0.1)]))


def _gaps(line: Line) -> Floats:
    """By how much the first choice is predicted faster than the winner; 0 where that is the first choice."""
    cost = np.sort(line.found.cost, axis=1)
    own = cost[np.arange(len(cost)), line.found.places]
    gaps: Floats = np.where(line.found.places == 0, 0.0, np.maximum(own - cost[:, 0], 1e-9))
    return gaps


def sharpness_of(line: Line) -> tuple[float, float, float]:
    """The likeliest sharpness by the winners, and those that bound an 80 % interval."""
    possible = np.isfinite(line.found.cost)
    order = np.sort(line.found.cost, axis=1)
    own = order[np.arange(len(order)), line.found.places]
    logs = []
    for sharpness in SHARPNESSES:
        likely = likelihoods(np.where(possible, line.found.cost, 0.0), possible, float(sharpness))
        best = -np.log(likely.max(1))
        logs.append(float((-sharpness * (own - order[:, 0]) - best).sum()))
    found = np.array(logs)
    near = SHARPNESSES[found >= found.max() - LIKELY]
    return float(SHARPNESSES[found.argmax()]), float(near.min()), float(near.max())


def ceiling(line: Line) -> float:
    """How often what is predicted to be the fastest is the fastest of a tuning whose times are the predicted ones with
    noise."""
    rng, cost = np.random.default_rng(0), line.found.cost
    fastest = cost.argmin(1)
    return float(np.mean([fastest == (cost + rng.normal(0, SPREAD, cost.shape)).argmin(1) for _ in range(TUNINGS)]))


def text_of(line: Line, cases: Sequence[Case]) -> str:
    """A row of the table."""
    found = line.found
    if not len(found.places):
        return f"    {line.method:40} {0:5}"
    off = np.abs(np.exp(found.errors) - 1)
    first, five = (100 * float((found.places < most).mean()) for most in (1, 5))
    inside = "" if line.inside is None else f"{100 * line.inside.mean():4.0f} %"
    known = measured_efficiency(line, cases)
    likeliest, least, most = sharpness_of(line)
    (mean, tenth), (low, _), (high, _) = (efficiency(line, one) for one in (likeliest, least, most))
    between = f"±{50 * (high - low):.1f} %"
    if known is not None:
        (mean, tenth), between = known, "measured"
    return (
        f"    {line.method:40} {len(found.places):5} {first:6.1f} % {five:5.1f} % {100 * np.median(off):6.1f} %"
        f" {100 * np.quantile(off, 0.9):6.1f} % {inside:>6} {100 * mean:6.1f} {between:8}"
        f" {100 * tenth:5.1f} % {100 * ceiling(line):5.0f} %"
    )


def tables(cases: Sequence[Case], known: Sequence[Case], fitted: set[str], origami: Path | None) -> Iterable[str]:
    """The lines that are printed, family by family."""
    asked = {case.row.key for case in cases}
    for family, mine in by_family({case.row.key: case for case in (*known, *cases)}.values()).items():
        if not any(case.row.key in asked for case in mine):
            continue
        design = design_of(mine)
        learnable = {case.row.key for case in known}
        rows = np.array([at for at, case in enumerate(mine) if case.row.key in asked], dtype=np.int64)
        lines = lines_of(
            design, np.array([at for at, case in enumerate(mine) if case.row.key in learnable]), rows, fitted
        )
        lines += compiled_lines(family, mine, rows)
        if origami is not None:
            lines += by_origami(mine, rows, origami)
        slices = np.array([case.slice for case in mine])
        m = np.array([case.row.m for case in mine])
        groups = {f"{family}, all": np.ones(len(mine), dtype=bool)}
        groups |= {name: slices == name for name in sorted(set(slices[rows].tolist()))}
        if family == "a8w8_rowwise":
            low, high = MIDDLE_M
            groups[f"{family}, M {low} to {high}"] = (m >= low) & (m <= high)
            groups[f"{family}, MI308X and f8"] = np.array(
                [case.row.dtype == "f8" or case.row.units == 80 for case in mine]
            )
        for title, chosen in groups.items():
            if len(groups) == 2 and title.endswith(", all"):
                continue
            most = max((len(mine[at].candidates) for at in rows.tolist() if chosen[at]), default=0)
            typical = statistics.median(len(mine[at].candidates) for at in rows.tolist() if chosen[at]) if most else 0
            yield f"{title}: up to {most} candidates, {typical:.0f} in the median"
            yield f"    {'':40} shapes  first    five      off      p90     in        eff      p10    most"
            for line in lines:
                part = line.of(chosen)
                if len(part.rows):
                    yield text_of(part, mine)


def compiled_lines(family: str, cases: Sequence[Case], rows: Numbers) -> list[Line]:
    """How predictions of compiled instances come out, where the figures of all of them are stored."""
    if family != "a8w8_rowwise":
        return []
    reports = {
        (dtype, arch): compiled_figures.reports(dtype, arch) for dtype in ("i8", "f8") for arch in ("gfx942", "gfx950")
    }
    whole = np.array(
        [
            at
            for at in rows.tolist()
            if all(name in reports[cases[at].row.dtype, cases[at].row.gfx] for name in cases[at].candidates)
        ],
        dtype=np.int64,
    )
    if not len(whole):
        return []
    mine = [cases[at] for at in whole.tolist()]
    return [
        Line("`rank`, with the row (no test)", whole, shipped(mine, {})),
        Line("`rank`, compiled, with the row (no test)", whole, shipped(mine, reports)),
    ]


def by_origami(cases: Sequence[Case], rows: Numbers, program: Path) -> list[Line]:
    """By AMD's analytic model (`origami_driver.cpp`). It knows no pipelines. The winner stands behind what ties with
    it, and last where it is refused. Cases with slices of K are left out."""
    told, asked = [], []
    for at in rows.tolist():
        case = cases[at]
        row, part = case.row, case.target.part
        if row.slices > 1 or row.batch > 1 or (row.gfx, row.dtype, 16) not in INSTRUCTION_DEPTHS:
            continue
        machine = case.target.machine((row.dtype, row.dtype))
        assert machine is not None  # every known part multiplies what AITER has tuned on it
        words: list[object] = [
            row.gfx,
            part.compute_units,
            part.local_memory_bytes,
            4 << 20,
            int(part.clock_mhz * 1000),
        ]
        words += [row.m, row.n, row.k, 1, row.dtype, len(case.candidates)]
        for instance in case.candidates.values():
            together = gemm_time(instance, estimated_figures(instance, case.sizes), case.sizes, machine).together
            m, n = instance.instruction
            depth = INSTRUCTION_DEPTHS[row.gfx, row.dtype, m]
            words += [instance.tile.m, instance.tile.n, instance.tile.k, m, n, depth, together]
        told.append(" ".join(map(str, words)))
        asked.append(at)
    done = subprocess.run([str(program)], input="\n".join(told), capture_output=True, text=True, check=True)
    most = max((len(cases[at].candidates) for at in asked), default=0)
    cost, winners = np.full((len(asked), most), np.inf), []
    for number, (at, text) in enumerate(zip(asked, done.stdout.splitlines(), strict=True)):
        for place, _, value in (word.partition(":") for word in text.split()):
            cost[number, int(place)] = np.log(float(value) / cases[at].target.part.clock_mhz)
        winners.append(list(cases[at].candidates).index(cases[at].row.winner))
    own = cost[np.arange(len(asked)), winners]
    measured = np.log([cases[at].row.us for at in asked])
    nothing = np.zeros(len(asked), dtype=np.int64)
    found = Outcomes((cost <= own[:, None]).sum(1) - 1, own - measured, nothing.astype(float), nothing, cost)
    return [Line("rocm-origami 0.0.3, without slices of K", np.array(asked, dtype=np.int64), found)] if asked else []


def main() -> int:
    """The exit status: 0, 1 where there is no such folder or nothing in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FOLDER or FILE")
    parser.add_argument("--known", type=Path, default=MEASURED, help="what may be learned from")
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="of each family, at most; all")
    parser.add_argument("--origami", type=Path, metavar="PROGRAM", help="what origami_driver.cpp became")
    options = parser.parse_args()
    left_out: Counter[str] = Counter()
    asked = options.paths or [MEASURED, cutlass_cases.PATH]
    try:
        rows = read_rows(files_of(asked), left_out)
        whole = read_matrices(files_of(asked), left_out)
        others = read_rows(files_of([options.known]), Counter()) if options.known.exists() else rows
    except (CkwatchError, OSError, ValueError, KeyError, csv.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    kept = without_copies(rows, others, left_out)
    originals = without_copies(others, rows, Counter())
    cases, known = [*cases_of(kept, originals), *whole], [*cases_of(originals, kept), *whole]
    cases, known = sampled(cases, options.rows), sampled(known, LEARNED_FROM_AT_MOST)
    fitted = set(FITTED_ON.read_text().split())
    if not cases:
        print("error: no row that a model of ckwatch can be asked about", file=sys.stderr)
        return 1
    print(f"{len(cases)} rows are predicted; what may be learned from has {len(known)}")
    for text in tables(cases, known, fitted, options.origami):
        print(text, flush=True)
    for reason, number in left_out.most_common():
        print(f"left out: {number} rows: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
