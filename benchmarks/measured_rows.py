"""Measured rows as `shared/measured/README.md` describes them: winners of AITER's tuner, their sizes, and the instances
that they won against, as cases of predictions.

A case is one row: a product (or a stage of a mixture of experts) on one part, the instances to choose from, the winner
and its time. Instances to choose from are those of the same list that won anywhere on the same arch in any of the files
that are read, and for `a8w8_rowwise` all that AITER's list has; those that refuse the sizes are left out of the choice.

Whole matrices have the times of those that lost, too: what CK Tile's tile engine writes of grouped convolutions
(`benchmark_forward_*.csv` in ROCm's rocm-libraries, tile_engine/ops/grouped_conv), and CUTLASS's (`cutlass_cases`).
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import cutlass_cases
from benchmarks.aiter import load as load_aiter
from ckwatch.checks.aiter_instances import ListError, read_name
from ckwatch.checks.supported_shapes.universal_gemm import PREFETCH_STAGES, PRESHUFFLED_PREFETCH_STAGES
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.tensors import DTYPES
from ckwatch.prediction.instances import WAVE, GemmInstance, instance_of
from ckwatch.prediction.learned import slice_name
from ckwatch.prediction.predict import PredictionTarget, target_of
from ckwatch.prediction.times import GemmSizes, Routing

PARTS = {("gfx942", 304): "MI300X", ("gfx942", 80): "MI308X", ("gfx950", 256): "MI355X"}
AITER_DTYPES = {
    "int8": "i8",
    "float8_e4m3fn": "f8",
    "float8_e4m3fnuz": "f8",
    "float4_e2m1fn_x2": "f4",
    "float16": "f16",
    "bfloat16": "bf16",
}
FIRST_DTYPES = {"bf16_batched": "bf16", "a8w8_batched_rowwise": "i8", "a8w8_rowwise": "i8", "a4w4_blockscale": "f4"}
"""Of rows that do not say theirs; of other lists f8."""

MOE = re.compile(
    r"moe_ck2stages_gemm(?P<stage>[12])_(?P<tile>\d+x\d+x\d+x\d+)_(?P<waves>\d+x\d+)_.*?_(?P<pipeline>v\d)_"
)
CK_TILE = re.compile(r"(?P<list>\w+?)_cktile_\w*?(?P<tile>\d+x\d+x\d+)_(?P<waves>\d+x\d+x\d+)_(?P<warp>\d+x\d+x\d+)_.*")
TILE_ENGINE = re.compile(
    r"(?P<list>gemm_universal)_(?:fp8|fp16|bf16)_rcr_(?P<pipeline>\w+?)_(?P<epilogue>default|cshuffle)_(?P<scheduler>\w+?)_"
    r"(?:True_|False_){4}(?P<tile>\d+x\d+x\d+)_(?P<waves>\d+x\d+x\d+)_(?P<warp>\d+x\d+x\d+)"
)
"""Names of the tile engine's and the dispatcher's kernels in ROCm's rocm-libraries."""

MOE_INSTRUCTION = 16
"""MPerXDL and NPerXDL of all instances of gemm_moe_ck2stages_common.cuh."""

MOE_SCALES = {
    "No": "",
    "per_Tensor": " per tensor",
    "per_Token": " per row",
    "per_1x128": " 1x128",
    "per_1x32": " 1x32",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A winner: `dtype` by ckwatch's name, `us` its time. `experts`, `topk` and `block_m` are of a mixture of experts,
    whose `m` counts tokens."""

    family: str
    gfx: str
    units: int
    m: int
    n: int
    k: int
    dtype: str
    winner: str
    us: float
    batch: int = 1
    slices: int = 1
    experts: int = 0
    topk: int = 0
    block_m: int = 0
    scales: str = ""
    stage: str = ""

    @property
    def key(self) -> str:
        """The row's identity, without its measurement."""
        found = (self.family, self.gfx, self.units, self.batch, self.m, self.n, self.k, self.dtype)
        moe = (self.experts, self.topk, self.scales, self.stage)
        return "/".join(map(str, found + (moe if self.experts else ())))

    @property
    def group(self) -> tuple[int, ...]:
        """Return what a fold has all or nothing of: N and K, of experts also how many there are."""
        return self.n, self.k, self.experts, self.topk


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row and the instances to choose from, by name; the winner is among them. `times`: what each took, in µs, where
    that was measured."""

    row: Row
    target: PredictionTarget
    sizes: GemmSizes
    candidates: Mapping[str, GemmInstance]
    times: Mapping[str, float] = field(default_factory=dict)

    @property
    def slice(self) -> str:
        """The slice of the measurements that it is in."""
        return slice_name(self.row.family, self.target.part.name, f"{self.row.dtype}{self.row.scales}")


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The CSV files, those of folders and of folders in them sorted."""
    return [found for path in paths for found in (sorted(path.rglob("*.csv")) if path.is_dir() else [path])]


def read_rows(paths: Iterable[Path], left_out: Counter[str]) -> list[Row]:
    """The rows of all files that a model of ckwatch can be asked about, each shape once; others are counted. Raises
    CkwatchError for a row that cannot be read."""
    rows: dict[str, Row] = {}
    for path in paths:
        with path.open(newline="") as lines:
            reader = csv.DictReader(lines)
            for line in reader:
                try:
                    row = _row(line, left_out)
                except KeyError as error:
                    raise CkwatchError(f"{path}: it has no column {error}") from None
                except ValueError as error:
                    raise CkwatchError(f"{path}, line {reader.line_num}: {error}") from None
                if row is not None and _is_impossible(row):
                    left_out[f"{row.family}: more FLOP/s than the part has"] += 1
                elif row is not None and rows.setdefault(row.key, row) is not row:
                    left_out[f"{row.family}: a shape that another file has, too"] += 1
    return list(rows.values())


def _is_impossible(row: Row) -> bool:
    target, sizes = target_of(row.gfx, PARTS[row.gfx, row.units]), sizes_of(row)
    machine = None if target is None else target.machine((row.dtype, row.dtype))
    if machine is None:
        return False
    return 2 * sizes.matrices * sizes.m * sizes.n * sizes.k > row.us * (
        machine.flops * machine.compute_units * machine.clock_mhz
    )


def without_copies(rows: Sequence[Row], known: Sequence[Row], left_out: Counter[str]) -> list[Row]:
    """The rows that are measurements. AITER's tables of experts give the winner and the time of one number of tokens,
    to all digits, to other numbers, too: below 16 those of 16, above 1,024 those of 1,024. Of `rows` and `known` rows
    that differ in tokens alone, one is left: the one next to 16 to 1,024."""
    alike: dict[tuple[object, ...], set[int]] = {}
    for row in (*rows, *known):
        if row.experts:
            alike.setdefault(_copied(row), set()).add(row.m)
    found = []
    for row in rows:
        tokens = alike.get(_copied(row), {row.m})
        if row.experts and row.m != (max(tokens) if max(tokens) <= LEAST_TUNED else min(tokens)):
            left_out[f"{row.family}: the winner and time of another number of tokens, copied"] += 1
        else:
            found.append(row)
    return found


LEAST_TUNED = 16


def _copied(row: Row) -> tuple[object, ...]:
    return (*row.key.split("/")[:3], row.group, row.scales, row.stage, row.dtype, row.winner, row.us, row.block_m)


def _row(line: Mapping[str, str], left_out: Counter[str]) -> Row | None:
    if not all(line.get(key) for key in ("instance", "us")):
        return None  # no table of winners
    name, backend = line["instance"], line.get("backend") or "ck"
    units = int(line.get("compute_units") or 0)
    if (line["gfx"], units) not in PARTS:
        left_out[f"{line['gfx']} with {units} compute units: not a known part"] += 1
        return None
    if backend not in ("ck", "cktile"):
        left_out[f"won by {backend}, which is not Composable Kernel"] += 1
        return None
    dtype = AITER_DTYPES.get(line.get("q_a") or line.get("dtype") or "", "")
    us = float(line["us"])
    if "inter_dim" in line:
        return _expert_row(line, name, units, dtype, us, left_out)
    found = read_name(name.replace("_blockscale_bpreshuffle", "_blockscale"))
    tiled = CK_TILE.fullmatch(name) or TILE_ENGINE.fullmatch(name)
    family = tiled["list"] if tiled else "" if found is None else found.list
    if "bpreshuffle" in line.get("file", name) and "bpreshuffle" not in family:
        family = f"{family}_bpreshuffle"
    family = f"{family}_cktile" if tiled else family
    if not instance_called(name):
        left_out[f"{backend}: a name that does not say the instance"] += 1
        return None
    batch, m, n, k = (int(line.get(key) or 1) for key in ("batch", "M", "N", "K"))
    return Row(
        family=family,
        gfx=line["gfx"],
        units=units,
        batch=batch,
        m=m,
        n=n,
        k=k,
        dtype=dtype or FIRST_DTYPES.get(family.removesuffix("_bpreshuffle"), "f8"),
        slices=1 << int(line["splitK_log2"] or 0) if not tiled else max(1, int(line["splitK_log2"] or 0)),
        winner=name,
        us=us,
    )


def _expert_row(
    line: Mapping[str, str], name: str, units: int, dtype: str, us: float, left_out: Counter[str]
) -> Row | None:
    named = MOE.match(name)
    if named is None or line["q_a"] != line["q_w"] or line["g1u1"] != "1":
        left_out["experts: a name that does not say the instance, or operands of two dtypes"] += 1
        return None
    model, inner = int(line["model_dim"]), int(line["inter_dim"])
    first = line["stage"] == "1"
    return Row(
        family=f"moe_stage{line['stage']}",
        gfx=line["gfx"],
        units=units,
        m=int(line["token"]),
        n=inner if first else model,
        k=model if first else inner,
        dtype=dtype,
        slices=max(1, int(line["ksplit"] or 0)),
        winner="_".join((named["tile"], named["waves"], named["pipeline"])),
        us=us,
        experts=int(line["expert"]),
        topk=int(line["topk"]),
        block_m=int(line["block_m"]),
        scales=MOE_SCALES[line["q_type"]],
        # an activation, and where weights are applied
        stage=f"{line['act']} {line['doweight_stage1']}",
    )


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


@cache
def instance_called(name: str) -> GemmInstance | None:
    """The instance of CK or CK Tile that a name in AITER means, or a winner of experts; None for another name."""
    if re.fullmatch(r"\d+x\d+x\d+x\d+_\d+x\d+_v\d", name):
        return _of_experts(name)
    tiled = CK_TILE.fullmatch(name) or TILE_ENGINE.fullmatch(name)
    if tiled is not None:
        return _of_ck_tile(tiled)
    try:
        found = instance_of(by_name(name.replace("_blockscale_bpreshuffle", "_blockscale")))
    except (ListError, KeyError):
        return None
    return None if found is None else replace(found, preshuffled="bpreshuffle" in name)


def _of_experts(name: str) -> GemmInstance | None:
    tile, waves, pipeline = name.split("_")
    (threads, m, n, k), (waves_m, waves_n) = _sizes(tile), _sizes(waves)
    repeats = m // (MOE_INSTRUCTION * waves_m), n // (MOE_INSTRUCTION * waves_n)
    known: dict[str, ParameterValue] = {"BlockSize": threads, "MPerBlock": m, "NPerBlock": n, "KPerBlock": k}
    known |= {"MPerXDL": MOE_INSTRUCTION, "NPerXDL": MOE_INSTRUCTION, "BlkGemmPipelineVer": pipeline}
    known |= {"MXdlPerWave": max(1, repeats[0]), "NXdlPerWave": max(1, repeats[1])}
    found = instance_of(known)
    return None if found is None else replace(found, preshuffled=True)


def _of_ck_tile(named: re.Match[str]) -> GemmInstance | None:
    names = (("TileM", "TileN", "TileK"), ("WarpM", "WarpN", "WarpK"), ("WarpTileM", "WarpTileN", "WarpTileK"))
    said = named.groupdict()
    known: dict[str, ParameterValue] = {
        "Pipeline": TILE_PIPELINES.get(said.get("pipeline", "compv3"), ""),
        "Epilogue": "Default" if said.get("epilogue") == "default" else "CShuffle",
        "Scheduler": said.get("scheduler", "intrawave").capitalize(),
    }
    for words, part in zip(names, ("tile", "waves", "warp"), strict=True):
        known |= dict(zip(words, _sizes(named[part]), strict=True))
    found = instance_of(known)
    return None if found is None else replace(found, preshuffled="bpreshuffle" in named["list"])


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


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


def sizes_of(row: Row) -> GemmSizes:
    """The product of a row as `gemm_time` sees it."""
    dtype = DTYPES[row.dtype]
    each = dtype.size_bytes / dtype.packed
    scaled = "blockscale" in row.family or row.scales in (" 1x128", " 1x32")
    # e8m0 for 32 elements of a column of W, or f32 for 128 of 128 columns
    depth, columns, scale = (32, 1, 1) if row.dtype == "f4" else (128, 128, 4)
    first = row.family == "moe_stage1"
    return GemmSizes(
        m=row.m * max(1, row.topk),
        # gate and up are one after the other
        n=row.n * (2 if first else 1),
        k=row.k,
        x_bytes=each,
        w_bytes=each,
        y_bytes=2,
        slices=row.slices,
        matrices=row.batch,
        scale_depth=depth if scaled else 0,
        x_scale_bytes=scale / depth if scaled else 0.0,
        w_scale_bytes=scale / depth / columns if scaled else 0.0,
        vector_scaled=scaled and row.dtype != "f4",
        routing=Routing(tokens=row.m, topk=row.topk, experts=row.experts) if row.experts else None,
        gathered=first,
    )


def is_refused(instance: GemmInstance, sizes: GemmSizes) -> bool:
    """As `universal_gemm` and `moe_gemm` of `ckwatch.checks.supported_shapes` refuse sizes, of operands as AITER has
    them."""
    tile = instance.tile
    rounds = -(-sizes.k // (sizes.slices * tile.k))
    if instance.preshuffled or sizes.scale_depth:
        n = sizes.n // 2 if sizes.gathered else sizes.n
        if n % tile.n or sizes.k % (sizes.slices * tile.k):
            return True
    if sizes.routing is not None:
        return False
    if instance.preshuffled:
        stages = PRESHUFFLED_PREFETCH_STAGES.get(instance.pipeline, 0)
    elif instance.pipeline == "v2":
        stages = instance.stages(sizes.x_bytes, sizes.w_bytes)
    else:
        stages = PREFETCH_STAGES.get(instance.pipeline, 0)
    return rounds <= stages


def cases_of(rows: Sequence[Row], known: Iterable[Row] = ()) -> list[Case]:
    """The rows with what they can choose from: the winners of these and of `known` rows."""
    pools: dict[tuple[str, ...], dict[str, GemmInstance]] = {}
    for row in (*rows, *known):
        pool = pools.setdefault(_pool(row), {})
        if not pool:
            for name in listed(row.family):
                instance = instance_called(name)
                if instance is not None:
                    pool[name] = instance
        instance = instance_called(row.winner)
        if instance is not None:
            pool[row.winner] = instance
    found = []
    for row in rows:
        target, sizes = target_of(row.gfx, PARTS[row.gfx, row.units]), sizes_of(row)
        if target is None:
            continue
        fitting = {
            name: instance
            for name, instance in pools[_pool(row)].items()
            if name == row.winner or not is_refused(instance, sizes)
        }
        found.append(Case(row=row, target=target, sizes=sizes, candidates=fitting))
    return found


CONVOLUTION = re.compile(r"grouped_conv_(?P<kind>\w+?)_(?P<dtype>bf16|fp16)_2d_(?P<tile>\d+x\d+x\d+)_(?P<pipeline>\w+)")
TILE_PIPELINES = {"mem": "Mem", "compv3": "CompV3", "compv4": "CompV4", "compv5": "CompV5"}


def read_matrices(paths: Iterable[Path], left_out: Counter[str]) -> list[Case]:
    """The cases of all files that say how long each instance took on a convolution, as an implicit product of matrices:
    M is images · rows · columns of the output, N and K the filters and the filter's elements of a group."""
    found: dict[Row, tuple[dict[str, float], dict[str, GemmInstance]]] = {}
    cases = []
    for path in paths:
        cases += _cutlass_cases(path)
        with path.open(newline="") as lines:
            for line in csv.DictReader(lines):
                named = CONVOLUTION.fullmatch(line.get("kernel") or "")
                if named is None or not line.get("latency_ms"):
                    continue
                instance = _of_convolution(named)
                if instance is None or named["kind"] != "forward" or float(line["latency_ms"]) <= 0:
                    left_out["convolutions: another direction or pipeline, or no time"] += 1
                    continue
                times, instances = found.setdefault(_convolution_row(line, named), ({}, {}))
                times[named[0]], instances[named[0]] = 1000 * float(line["latency_ms"]), instance
    for row, (times, instances) in found.items():
        target = target_of(row.gfx, PARTS[row.gfx, row.units])
        if target is not None:
            winner = min(times, key=lambda name: times[name])
            won = replace(row, winner=winner, us=times[winner])
            cases.append(Case(row=won, target=target, sizes=sizes_of(won), candidates=instances, times=times))
    return cases


def _cutlass_cases(path: Path) -> list[Case]:
    """Those of CUTLASS on an NVIDIA GPU."""
    target, cases = cutlass_cases.h200(), []
    for (m, n, k), (times, instances) in cutlass_cases.matrices(path).items():
        winner = min(times, key=lambda name: times[name])
        row = Row(
            family=cutlass_cases.FAMILY, gfx=cutlass_cases.ARCH, units=target.part.compute_units, m=m, n=n, k=k,
            dtype="f16", winner=winner, us=times[winner],
        )  # fmt: skip
        sizes = cutlass_cases.sizes_of(m, n, k)
        cases.append(Case(row=row, target=target, sizes=sizes, candidates=instances, times=times))
    return cases


def _convolution_row(line: Mapping[str, str], named: re.Match[str]) -> Row:
    size = {name: int(line[name]) for name in ("N", "C", "K", "G", "Hi", "Wi", "Y", "X")}
    height, width = (
        (size[whole] + 2 * int(line[f"pad_{side}"]) - size[filter_]) // int(line[f"stride_{side}"]) + 1
        for whole, side, filter_ in (("Hi", "h", "Y"), ("Wi", "w", "X"))
    )
    groups = size["G"]
    return Row(
        family="grouped_convolution_forward_cktile",
        gfx="gfx950",
        units=256,
        batch=groups,
        m=size["N"] * height * width,
        n=size["K"] // groups,
        k=size["C"] // groups * size["Y"] * size["X"],
        dtype={"fp16": "f16"}.get(named["dtype"], named["dtype"]),
        winner="",
        us=0.0,
    )


def _of_convolution(named: re.Match[str]) -> GemmInstance | None:
    """Names do not say the waves: four, beside each other along N if the tile has 16 rows or so, else two by two."""
    m, n, k = _sizes(named["tile"])
    waves_m = 1 if m < 64 else 2
    size = 16 if min(m // waves_m, n * waves_m // 4) < 32 else 32
    known: dict[str, ParameterValue] = {"TileM": m, "TileN": n, "TileK": k, "WarpM": waves_m, "WarpN": 4 // waves_m}
    known |= {"WarpK": 1, "WarpTileM": size, "WarpTileN": size, "WarpTileK": 16, "Epilogue": "CShuffle"}
    return instance_of({**known, "Pipeline": TILE_PIPELINES.get(named["pipeline"], "")})


def _pool(row: Row) -> tuple[str, ...]:
    """Return what rows share that have the same instances to choose from."""
    return (row.family, row.gfx, row.dtype, row.scales) if row.experts else (row.family, row.gfx)
