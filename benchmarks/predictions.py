"""Predictions of Composable Kernel instances, held against the fastest ones that AITER's tuner found on AMD GPUs.

    python -m benchmarks.predictions [FOLDER or FILE …]     the table; by default of ../shared/measured
    python -m benchmarks.predictions --fit [FILE …]         learn the corrections again, and store them

The files are those that `shared/measured/README.md` describes: winners and their times in µs. Instances are ranked for
each row, at the row's kBatch, by `ckwatch.prediction.ranking.rank`. Of `a8w8_rowwise` they are all that AITER's list
has (the kernel files in `results/aiter.json`), and a winner that the list lacks. Of other lists only the winners' names
are known: they are the candidates, which makes choosing easier. What is left out is counted at the end.

*first*, *five*: how often the winner is the first choice, or one of the first five. *off*: the median of how far the
winner's predicted time is from the measured one. Rows that a correction was fitted on are predicted by one that is
fitted without any shape of the same N and K.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import compiled_figures
from benchmarks.aiter import load as load_aiter
from benchmarks.reporting import RESULTS
from ckwatch.checks.aiter_instances import LISTS, ListError, read_name
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.cli.imports.kernel_texts import kernel_text
from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import ParameterValue
from ckwatch.prediction import learned
from ckwatch.prediction.instances import WAVE
from ckwatch.prediction.learned import PredictionRecord, features, instance_key, learned_corrections
from ckwatch.prediction.predict import PredictionTarget, modelled_gemm, target_of
from ckwatch.prediction.ranking import RankingCandidate, rank
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import table_text

MEASURED = Path(__file__).parents[2] / "shared" / "measured"
STORED = Path(learned.__file__).with_name(learned.FILE)
FITTED_ON = RESULTS / "predictions_fitted_on.txt"
SOURCE = "ROCm/aiter at e4048607 (2026-08-22), aiter/configs, MIT"
PARTS = {("gfx942", 304): "MI300X", ("gfx942", 80): "MI308X", ("gfx950", 256): "MI355X"}
DTYPES = {"int8": "i8", "float8_e4m3fn": "f8", "float8_e4m3fnuz": "f8"}
BLOCKS = {"a": (1, 128), "b": (128, 128)}
"""Of the scales of every instance that AITER has in its lists of scales per block."""

FOLDS = 5

SHARPNESS = 15.0
"""Of the choice: what wins by 1 / 15 of the time is e times as likely."""

TIME_WEIGHT = 50.0
"""Of a winner's squared error in log(time), as if times were off by 1 / √50 = 14 %."""

ROBUST = 0.15
"""Errors in log(time) beyond this count linearly."""

FEATURE_PENALTY, INSTANCE_PENALTY = 100.0, 300.0
"""On half the square of a feature's weight, and of an instance's own."""

Floats = npt.NDArray[np.float64]
"""An array of numbers."""


@dataclass(frozen=True, slots=True)
class Row:
    """A winner; `dtype` by ckwatch's name, `us` its time."""

    family: str
    gfx: str
    units: int
    batch: int
    m: int
    n: int
    k: int
    dtype: str
    slices: int
    winner: str
    us: float

    @property
    def key(self) -> str:
        """The row's identity, without its measurement."""
        return "/".join(map(str, (self.family, self.gfx, self.units, self.batch, self.m, self.n, self.k, self.dtype)))


@dataclass(frozen=True, slots=True)
class Case:
    """A row, its problem and its candidates."""

    row: Row
    problem: KernelProblem
    target: PredictionTarget
    candidates: Mapping[str, Mapping[str, ParameterValue]]

    @property
    def slice(self) -> str:
        """As `learned.slice_of` names it."""
        return f"{self.row.family}, {self.target.part.name}, {self.row.dtype}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The winner's place, from 0, and its predicted time over the measured one (0: there is none)."""

    place: int
    ratio: float


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """The rows of all files, each shape once; lines without the columns of winners are left out."""
    rows: dict[str, Row] = {}
    for path in paths:
        for line in csv.DictReader(path.read_text().splitlines()):
            if not all(line.get(key) for key in ("instance", "us", "M", "N", "K")):
                continue
            name, slices = line["instance"], 1 << int(line["splitK_log2"] or 0) if "splitK_log2" in line else 1
            family = next((one for one in LISTS if name.startswith(f"{one}_")), line.get("backend") or "of no list")
            if "bpreshuffle" in line.get("file", "") and family in LISTS and "bpreshuffle" not in family:
                family += "_bpreshuffle"
            dtype = DTYPES.get(line.get("dtype", "")) or str(operation_of(family)["a"]["dtype"])
            units, batch, m, n, k = (int(line.get(key) or 1) for key in ("compute_units", "batch", "M", "N", "K"))
            row = Row(family, line["gfx"], units, batch, m, n, k, dtype, slices, name, float(line["us"]))
            rows.setdefault(row.key, row)
    return list(rows.values())


def operation_of(family: str, dtype: str = "") -> dict[str, Any]:
    """The problem of a list's kernels, of that dtype or as the list has it first."""
    operations = LISTS[family].operations if family in LISTS else {"": {"a": {"dtype": "bf16"}}}
    table = dict(operations.get(dtype) or next(iter(operations.values())))
    if family in LISTS and LISTS[family].scale_blocks:
        table |= {f"scale_{side}": {**table[f"scale_{side}"], "block": list(block)} for side, block in BLOCKS.items()}
    return table


def problems_of(rows: Sequence[Row]) -> dict[Row, KernelProblem]:
    """The problem of the winners of one list and dtype."""
    family = LISTS[rows[0].family]
    table = operation_of(rows[0].family, rows[0].dtype)
    batched = table["kind"] == "batched_gemm"
    if not batched:
        table["split_k"] = True
    shapes: list[Mapping[str, int | str]] = [
        {"name": str(at), **({"B": row.batch} if batched else {}), "M": row.m, "N": row.n, "K": row.k}
        for at, row in enumerate(rows)
    ]
    text = kernel_text("", family.template, table_text(table), shapes, {"any": by_name(rows[0].winner)}, ())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
        (Path(folder) / "k.kernel.toml").write_text(text)
        (kernel,) = load_workspace(Path(folder)).kernels
    problems = {}
    for shape in kernel.shapes:
        row = rows[int(shape.name)]
        runtime = dict(shape.runtime) | ({} if batched else {"kBatch": row.slices})
        problems[row] = problem_of(kernel.operation, replace(shape, runtime=runtime), row.gfx)
    return problems


@cache
def listed(family: str) -> Mapping[str, Mapping[str, ParameterValue]]:
    """The instances of a list by their names, empty where it is not at hand, or names them in another way."""
    kernels = load_aiter().get("kernels", {})
    table = tomllib.loads(kernels.get(f"{family}_i8") or kernels.get(family) or "instance = []")
    usual = table.get("defaults", {})
    return {
        one["name"]: {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in {**usual, **one}.items()
            if name != "name"
        }
        for one in table["instance"]
    }


def by_name(name: str) -> Mapping[str, ParameterValue]:
    """The parameters of an instance, by its list or by its name alone. Raises ListError."""
    found = read_name(name)
    if found is None or not found.parameters:
        raise ListError("its name does not have the parts of a name in a list that templates are there for")
    if name in listed(found.list):
        return {**listed(found.list)[name], "GemmSpec": "MNKPadding"}
    known = {name: value for name, value in found.parameters.items() if not name.startswith("ScaleBlock")}
    return {"GemmSpec": "MNKPadding", **known, **wave_map(known)}


def wave_map(parameters: Mapping[str, ParameterValue]) -> Mapping[str, ParameterValue]:
    """`MXdlPerWave` and `NXdlPerWave` where a name does not say them: the threads that write C together write the rows
    and columns of all waves once (so in all of `gemm_a8w8_bpreshuffle_common.py`). Raises ListError."""
    if "MXdlPerWave" in parameters:
        return {}
    sizes: dict[str, Any] = dict(parameters)
    _, rows, _, columns = sizes["CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"]
    widths = sizes.get("CDEShuffleBlockTransferScalarPerVectors") or (
        sizes["CShuffleBlockTransferScalarPerVector_NPerBlock"],
    )
    waves_m = rows // (sizes["CShuffleMXdlPerWavePerShuffle"] * sizes["MPerXDL"])
    waves_n = columns * widths[0] // (sizes["CShuffleNXdlPerWavePerShuffle"] * sizes["NPerXDL"])
    if waves_m * waves_n * WAVE != sizes["BlockSize"]:
        raise ListError("the name does not say how waves share the tile")
    repeats_m = sizes["MPerBlock"] // (waves_m * sizes["MPerXDL"])
    return {"MXdlPerWave": repeats_m, "NXdlPerWave": sizes["NPerBlock"] // (waves_n * sizes["NPerXDL"])}


def cases_of(rows: Sequence[Row]) -> tuple[list[Case], Counter[str]]:
    """The rows that can be predicted, and how many of the others, by the reason."""
    found: dict[Row, tuple[PredictionTarget, Mapping[str, Mapping[str, ParameterValue]]]] = {}
    left_out: Counter[str] = Counter()
    winners: dict[tuple[str, str], dict[str, Mapping[str, ParameterValue]]] = {}
    for row in rows:
        if row.family not in LISTS:
            left_out[f"{row.family}: no kernel file is written for it"] += 1
            continue
        try:
            winners.setdefault((row.family, row.gfx), {})[row.winner] = by_name(row.winner)
        except (ListError, KeyError) as error:
            left_out[f"{row.family}: {error}"] += 1
    for row in rows:
        part = PARTS.get((row.gfx, row.units))
        mine = winners.get((row.family, row.gfx), {})
        if row.winner not in mine:
            continue
        target = None if part is None else target_of(row.gfx, part)
        if target is None:
            left_out[f"{row.gfx} with {row.units} compute units: no part is known"] += 1
            continue
        known = listed(row.family) or mine
        found[row] = (target, {**known, row.winner: mine[row.winner]})
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row.family, row.dtype), []).append(row)
    problems = {row: problem for group in groups.values() for row, problem in problems_of(group).items()}
    return [Case(row, problems[row], target, candidates) for row, (target, candidates) in found.items()], left_out


def ranked(case: Case, reports: Mapping[str, CodeObjectReport] | None = None, *, formulas: bool = False) -> Outcome:
    """By `rank`; without the learned correction if `formulas`, where the winner
    stands behind what ties with it."""
    entries = [
        RankingCandidate(name=name, parameters=parameters, report=None if reports is None else reports.get(name))
        for name, parameters in case.candidates.items()
    ]
    rows = rank(entries, case.problem, case.target)
    place = [row.name for row in rows].index(case.row.winner)
    found = rows[place].prediction
    if not formulas:
        return Outcome(place, (found.time_us or 0.0) / case.row.us)
    own = found.formula_us or float("inf")
    place = sum((row.prediction.formula_us or float("inf")) <= own for row in rows) - 1
    return Outcome(place, (found.formula_us or 0.0) / case.row.us)


def earlier(case: Case, reports: Mapping[str, CodeObjectReport] | None = None) -> Outcome:
    """As ckwatch predicted when it read the tile alone: the bound, or each resource of the compiled loop."""
    hidden = ("MPerXDL", "NPerXDL")
    entries = [
        RankingCandidate(
            name=name,
            parameters={key: value for key, value in parameters.items() if key not in hidden},
            report=None if reports is None else reports.get(name),
        )
        for name, parameters in case.candidates.items()
    ]
    rows = rank(entries, case.problem, case.target)
    place = [row.name for row in rows].index(case.row.winner)
    return Outcome(place, (rows[place].prediction.time_us or 0.0) / case.row.us)


INSTRUCTION_DEPTHS = {
    **{("gfx942", dtype, size): depth for dtype in ("i8", "f8") for size, depth in ((32, 16), (16, 32))},
    **{("gfx950", "i8", size): depth for size, depth in ((32, 32), (16, 64))},
    **{("gfx950", "f8", size): depth for size, depth in ((32, 64), (16, 128))},
}
"""K of the largest matrix instruction by arch, dtype and M."""


def by_origami(cases: Sequence[Case], program: Path) -> dict[str, Outcome]:
    """By AMD's analytic model (`origami_driver.cpp`), on the tiles that support the shape. It knows no pipelines. The
    winner stands behind what ties with it, and last where it is refused. Cases with slices of K are left out."""
    told, asked = [], []
    for case in cases:
        row, part = case.row, case.target.part
        if row.slices > 1 or row.batch > 1 or (row.gfx, row.dtype, 16) not in INSTRUCTION_DEPTHS:
            continue
        names = [
            name
            for name, parameters in case.candidates.items()
            if name == row.winner or not unsupported_reason(parameters, case.problem)
        ]
        found = {name: modelled_gemm(None, case.candidates[name], case.problem, case.target) for name in names}
        configs = [
            (one.instance.tile, *one.instance.instruction, one.time.together)
            for one in found.values()
            if one is not None
        ]
        clock = int(part.clock_mhz * 1000)
        words: list[object] = [row.gfx, part.compute_units, part.local_memory_bytes, 4 << 20, clock]
        words += [row.m, row.n, row.k, 1, row.dtype, len(configs)]
        for tile, m, n, together in configs:
            words += [tile.m, tile.n, tile.k, m, n, INSTRUCTION_DEPTHS[row.gfx, row.dtype, m], together]
        told.append(" ".join(map(str, words)))
        asked.append((case, names))
    done = subprocess.run([str(program)], input="\n".join(told), capture_output=True, text=True, check=True)
    outcomes_of = {}
    for (case, names), text in zip(asked, done.stdout.splitlines(), strict=True):
        clocks = {names[int(at)]: float(value) for at, _, value in (word.partition(":") for word in text.split())}
        own = clocks.get(case.row.winner, 0.0)
        place = sum(value <= own for value in clocks.values()) - 1 if own else len(clocks)
        outcomes_of[case.row.key] = Outcome(place, own / case.target.part.clock_mhz / case.row.us)
    return outcomes_of


def most_frequent(cases: Sequence[Case]) -> dict[str, Outcome]:
    """Always the winners of most rows of the same list and arch, in this order; knows these very rows."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for case in cases:
        counts.setdefault((case.row.family, case.row.gfx, case.row.dtype), Counter())[case.row.winner] += 1
    found = {}
    for case in cases:
        order = [name for name, _ in counts[case.row.family, case.row.gfx, case.row.dtype].most_common()]
        found[case.row.key] = Outcome(order.index(case.row.winner), 0.0)
    return found


@dataclass(frozen=True, slots=True)
class Design:
    """For n cases, c candidates and f features: log(time) by formulas (n × c), features (n × c × f), which candidates
    can run (n × c), the winner's index (n) and log of its time (n)."""

    names: tuple[str, ...]
    formulas: Floats
    features: Floats
    possible: npt.NDArray[np.bool_]
    winner: npt.NDArray[np.int64]
    measured: Floats

    def rows(self, chosen: npt.NDArray[np.bool_]) -> Design:
        """Some of the cases."""
        return Design(
            self.names,
            self.formulas[chosen],
            self.features[chosen],
            self.possible[chosen],
            self.winner[chosen],
            self.measured[chosen],
        )


def design_of(cases: Sequence[Case]) -> Design:
    """The data that the weights are learned from; the candidates are those of a8w8_rowwise."""
    instances = sorted({name for case in cases for name in case.candidates})
    found: list[list[dict[str, float]]] = []
    formulas = np.zeros((len(cases), len(instances)))
    possible = np.zeros((len(cases), len(instances)), dtype=bool)
    for at, case in enumerate(cases):
        found.append([])
        for number, name in enumerate(instances):
            parameters = case.candidates.get(name)
            modelled = None if parameters is None else modelled_gemm(None, parameters, case.problem, case.target)
            if parameters is None or modelled is None:
                found[-1].append({})
                continue
            named = features(modelled.instance, modelled.sizes, modelled.time, case.target.part.compute_units)
            found[-1].append({**named, f"= {instance_key(modelled.instance)}": 1.0})
            formulas[at, number] = np.log(modelled.time.time_us)
            possible[at, number] = name == case.row.winner or not unsupported_reason(parameters, case.problem)
    names = tuple(sorted({name for row in found for one in row for name in one}))
    values = np.array([[[one.get(name, 0.0) for name in names] for one in row] for row in found])
    winner = np.array([instances.index(case.row.winner) for case in cases])
    return Design(names, formulas, values, possible, winner, np.log([case.row.us for case in cases]))


def fit(design: Design, steps: int = 15) -> Floats:
    """The weights by Newton's method: the problem is convex but for the linear tails of errors in time."""
    x, every = design.features, np.arange(len(design.winner))
    chosen = x[every, design.winner]
    penalty = np.array([INSTANCE_PENALTY if name.startswith("= ") else FEATURE_PENALTY for name in design.names])
    weights = np.zeros(len(design.names))
    for _ in range(steps):
        cost = design.formulas + x @ weights
        scores = np.where(design.possible, -SHARPNESS * cost, -np.inf)
        likely = np.exp(scores - scores.max(1, keepdims=True))
        likely /= likely.sum(1, keepdims=True)
        mean = np.einsum("nc,ncf->nf", likely, x)
        off = cost[every, design.winner] - design.measured
        counted = TIME_WEIGHT / np.maximum(1.0, np.abs(off) / ROBUST)
        gradient = SHARPNESS * (chosen - mean).sum(0) + chosen.T @ (counted * off) + penalty * weights
        flat = (x * np.sqrt(likely)[:, :, None]).reshape(-1, x.shape[2])
        curvature = SHARPNESS**2 * (flat.T @ flat - mean.T @ mean) + (chosen * counted[:, None]).T @ chosen
        step = np.linalg.solve(curvature + np.diag(penalty), gradient)
        weights = weights - step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))
    return weights


def outcomes(design: Design, weights: Floats) -> list[Outcome]:
    """Evaluate the weights' predictions; the winner stands behind what ties with it."""
    cost = np.where(design.possible, design.formulas + design.features @ weights, np.inf)
    own = cost[np.arange(len(design.winner)), design.winner]
    places = (cost <= own[:, None]).sum(1) - 1
    return [
        Outcome(int(place), float(ratio)) for place, ratio in zip(places, np.exp(own - design.measured), strict=True)
    ]


def folded(cases: Sequence[Case], design: Design, seed: int = 0) -> list[Outcome]:
    """Each case as it is predicted by weights that were fitted without its N and K."""
    groups = sorted({(case.row.n, case.row.k) for case in cases})
    random.Random(seed).shuffle(groups)  # noqa: S311
    fold = {group: number % FOLDS for number, group in enumerate(groups)}
    mine = np.array([fold[case.row.n, case.row.k] for case in cases])
    found: dict[int, Outcome] = {}
    for number in range(FOLDS):
        if not (mine == number).any():
            continue
        weights = fit(design.rows(mine != number))
        held = np.nonzero(mine == number)[0]
        found |= dict(zip(held.tolist(), outcomes(design.rows(mine == number), weights), strict=True))
    return [found[number] for number in range(len(cases))]


def fingerprint(row: Row) -> str:
    """Of a row that was learned from."""
    return hashlib.sha256(row.key.encode()).hexdigest()[:12]


def by_list(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each of AITER's lists."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.row.family, []).append(case)
    return found


def store(cases: Sequence[Case]) -> None:
    """Learn from the cases, and write what chooses better than the formulas, with the records of all slices."""
    corrections: dict[str, Any] = {}
    records, fitted = [], []
    for family, mine in by_list(cases).items():
        design = design_of(mine)
        by_formulas = outcomes(design, np.zeros(len(design.names)))
        by_fit = folded(mine, design)
        better = False
        for name in sorted({case.slice for case in mine}):
            chosen = [at for at, case in enumerate(mine) if case.slice == name]
            most = max(len(mine[at].candidates) for at in chosen)
            both = [
                record([found[at] for at in chosen], name, most, learned=learned)
                for found, learned in ((by_formulas, False), (by_fit, True))
            ]
            records.append(max(both, key=lambda one: one.first + one.first_five - one.off))
            better |= records[-1].learned
        if better:
            weights = {name: round(float(value), 4) for name, value in zip(design.names, fit(design), strict=True)}
            corrections[family] = {
                "weights": {name: value for name, value in weights.items() if not name.startswith("= ")},
                "instances": {
                    name.removeprefix("= "): value for name, value in weights.items() if name.startswith("= ")
                },
            }
            fitted += [fingerprint(case.row) for case in mine]
    stored = {"source": SOURCE, "records": [asdict(one) for one in records], "corrections": corrections}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    FITTED_ON.write_text("\n".join(sorted(fitted)) + "\n")


def record(found: Sequence[Outcome], name: str, candidates: int, *, learned: bool) -> PredictionRecord:
    """Of predictions, all with a time."""
    off = statistics.median(abs(one.ratio - 1) for one in found)
    first, five = (sum(one.place < most for one in found) / len(found) for most in (1, 5))
    return PredictionRecord(
        slice=name, learned=learned, shapes=len(found), candidates=candidates,
        first=round(first, 4), first_five=round(five, 4), off=round(off, 4),
    )  # fmt: skip


def line(title: str, found: Sequence[Outcome]) -> str:
    """A row of the table."""
    if not found:
        return f"    {title:64}  none"
    first, five = (100 * sum(one.place < most for one in found) / len(found) for most in (1, 5))
    ratios = [one.ratio for one in found if one.ratio]
    off = f"{100 * statistics.median(abs(ratio - 1) for ratio in ratios):5.1f} %" if ratios else "   none"
    return f"    {title:64} {len(found):5} {first:6.1f} % {five:6.1f} % {off}"


def table(cases: Sequence[Case], left_out: Mapping[str, int], origami: Path | None) -> Iterable[str]:
    """The lines that are printed; `origami` is the program of `origami_driver.cpp`."""
    fitted = set(FITTED_ON.read_text().split())
    methods = judged(cases, fitted)
    if origami is not None:
        methods["rocm-origami 0.0.3, without slices of K"] = by_origami(cases, origami)
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.slice, []).append(case)
        if case.row.family == "a8w8_rowwise":
            groups.setdefault("a8w8_rowwise, all", []).append(case)
    for title, mine in groups.items():
        names = {case.row.key for case in mine}
        yield f"{title}"
        yield f"    {'':64} {'shapes':>5} {'first':>7} {'five':>8} {'off':>7}"
        for method, found in methods.items():
            here = [outcome for key, outcome in found.items() if key in names]
            if here:
                yield line(method, here)
    for reason, number in left_out.items():
        yield f"left out: {number} rows of {reason}"


def judged(cases: Sequence[Case], fitted: set[str]) -> dict[str, dict[str, Outcome]]:
    """Outcomes by method and by row."""
    found: dict[str, dict[str, Outcome]] = {"always the most frequent winners (of these rows)": most_frequent(cases)}
    found["earlier ckwatch, before a compile: the bound"] = {case.row.key: earlier(case) for case in cases}
    found["formulas, before a compile"] = {case.row.key: ranked(case, formulas=True) for case in cases}
    corrected = learned_corrections().corrections
    learned = [case for case in cases if case.row.family in corrected]
    known = [case for case in learned if fingerprint(case.row) in fitted]
    unseen = [case for case in learned if fingerprint(case.row) not in fitted]
    found["as `rank` does, rows not learned from"] = {case.row.key: ranked(case) for case in unseen}
    found["formulas and what was learned without its N, K"] = {
        case.row.key: one
        for mine in by_list(known).values()
        for case, one in zip(mine, folded(mine, design_of(mine)), strict=True)
    }
    found["as `rank` does, with the row (no test)"] = {case.row.key: ranked(case) for case in known}
    reports = {
        (dtype, arch): compiled_figures.reports(dtype, arch) for dtype in ("i8", "f8") for arch in ("gfx942", "gfx950")
    }
    compiled = [
        case
        for case in by_list(learned).get("a8w8_rowwise", ())
        if all(name in reports[case.row.dtype, case.row.gfx] for name in case.candidates)
    ]
    for title, predicted in (
        ("earlier ckwatch, compiled: its loop", earlier),
        ("formulas, compiled", lambda case, found_reports: ranked(case, found_reports, formulas=True)),
        ("as `rank` does, compiled, rows not learned from", ranked),
        ("as `rank` does, compiled, with the row (no test)", ranked),
    ):
        # the last two differ in their rows
        wanted = {"rows not learned from": unseen, "with the row (no test)": known}.get(
            title.rpartition(", ")[2], learned
        )
        found[title] = {
            case.row.key: predicted(case, reports[case.row.dtype, case.row.gfx]) for case in compiled if case in wanted
        }
    return found


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The CSV files, those of folders sorted. Raises CkwatchError."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob("*.csv"))
        elif path.is_file():
            found.append(path)
        else:
            raise CkwatchError(f"there is no {path}")
    return found


def main() -> int:
    """The exit status: 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FOLDER or FILE")
    parser.add_argument("--fit", action="store_true", help="learn the correction again, and store it")
    parser.add_argument("--origami", type=Path, metavar="PROGRAM", help="what origami_driver.cpp became")
    options = parser.parse_args()
    rows = read_rows(files_of(options.paths or [MEASURED]))
    cases, left_out = cases_of(rows)
    if options.fit:
        store(cases)
    else:
        for text in table(cases, left_out, options.origami):
            print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
