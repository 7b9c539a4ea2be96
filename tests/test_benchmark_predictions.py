"""The benchmark of predictions: which rows it takes, and that it sees products as `rank` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.fit_predictions import LEAST_ROWS, design_of, fit, keys_of, learn, outcomes, stored_correction, text_of
from benchmarks.measured_rows import (
    Case,
    Row,
    by_name,
    cases_of,
    instance_called,
    is_refused,
    read_matrices,
    read_rows,
    sizes_of,
    without_copies,
)
from benchmarks.predictions import Line, ceiling, efficiency, scaled, sharpness_of, shipped
from ckwatch.checks.aiter_instances import LISTS
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.cli.imports.kernel_texts import kernel_text
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import ParameterValue
from ckwatch.prediction.learned import read_family
from ckwatch.prediction.predict import modelled_gemm
from ckwatch.prediction.times import estimated_figures, gemm_time
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import table_text

HEAD = "gfx,compute_units,batch,M,N,K,dtype,splitK_log2,instance,us\n"
BEHIND = "8x32x1_8x32x1_1x32x1x8_8x8x1"
ROWS = {
    "a8w8_rowwise, MI355X, i8": f"gfx950,256,1,64,1280,8192,int8,0,a8w8_rowwise_256x128x128x128_32x32_2x2_{BEHIND}_1x1",
    "a8w8_bpreshuffle, MI308X, f8": "gfx942,80,1,64,2048,1536,float8_e4m3fnuz,0,"
    f"a8w8_bpreshuffle_256x128x128x128_16x16_16x16_{BEHIND}_2x1",
    "a8w8_blockscale, MI300X, f8": "gfx942,304,1,64,2048,2048,,1,"
    "a8w8_blockscale_1x128x128_256x64x64x256_16x16_32x32_1x1_16x16x1_16x16x1_1x32x1x8_8_1x1",
    "a8w8_batched_rowwise, MI300X, i8": "gfx942,304,16,64,1280,8192,,0,"
    f"a8w8_batched_rowwise_256x128x128x128_32x32_2x2_{BEHIND}_1x1",
    "bf16_batched, MI300X, bf16": f"gfx942,304,16,64,1280,8192,,0,bf16_batched_256x128x128x64_32x32_2x2_{BEHIND}_1x1",
}
BLOCKS = {"a": [1, 128], "b": [128, 128]}


def of_text(folder: Path, text: str, arch: str, runtime: Mapping[str, int]) -> KernelProblem:
    (folder / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
    (folder / "k.kernel.toml").write_text(text)
    (kernel,) = load_workspace(folder).kernels
    (shape,) = kernel.shapes
    return problem_of(kernel.operation, replace(shape, runtime={**shape.runtime, **runtime}), arch)


def as_rank_sees(folder: Path, row: Row) -> tuple[KernelProblem, Mapping[str, ParameterValue]]:
    """The problem of a row as a kernel file says it, and the winner's parameters."""
    family = LISTS[row.family]
    table: dict[str, Any] = dict(family.operations.get(row.dtype) or next(iter(family.operations.values())))
    if family.scale_blocks:
        table |= {f"scale_{side}": {**table[f"scale_{side}"], "block": block} for side, block in BLOCKS.items()}
    batched = table["kind"] == "batched_gemm"
    shape: dict[str, int | str] = {
        "name": "s",
        **({"B": row.batch} if batched else {}),
        "M": row.m,
        "N": row.n,
        "K": row.k,
    }
    parameters = by_name(row.winner)
    text = kernel_text("", family.template, table_text({**table, **({} if batched else {"split_k": True})}), [shape],
                       {"any": parameters}, ())  # fmt: skip
    return of_text(folder, text, row.gfx, {} if batched else {"kBatch": row.slices}), parameters


def test_products_are_seen_as_rank_sees_them(tmp_path: Path) -> None:
    lines = [f"{row}_intrawave_v3,30.5\n" for row in ROWS.values()]
    (tmp_path / "winners.csv").write_text(HEAD + "".join([*lines, lines[0]]))
    (tmp_path / "space.csv").write_text("block_size_x,A100_ms\n112,2.5\n")
    left_out: Counter[str] = Counter()
    cases = cases_of(read_rows(sorted(tmp_path.glob("*.csv")), left_out))
    assert left_out == {"a8w8_rowwise: a shape that another file has, too": 1}
    assert [case.slice for case in cases] == list(ROWS)
    for case in cases:
        problem, parameters = as_rank_sees(tmp_path, case.row)
        found = modelled_gemm(None, parameters, problem, case.target)
        assert found is not None
        assert (found.measured, found.sizes, found.instance) == (
            case.slice,
            case.sizes,
            case.candidates[case.row.winner],
        )
        assert bool(unsupported_reason(parameters, problem)) == is_refused(found.instance, found.sizes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + ROWS["a8w8_rowwise, MI355X, i8"].replace(",64,", ",many,") + "_intrawave_v3,30.5\n", "line 2: invalid"),
        ("instance,us\nx,1\n", "no column 'gfx'"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "winners.csv").write_text(text)
    with pytest.raises(CkwatchError, match=message):
        read_rows([tmp_path / "winners.csv"], Counter())


EXPERTS = """template = "ck/moe_gemm.hip.j2"
[operation]
kind = "moe_gemm"
stage = %d
dtype = "f8"
dtype_y = "bf16"
block_m = 32
[[shape]]
name = "s"
tokens = 64
topk = 8
experts = 128
N = %d
K = %d
"""


@pytest.mark.parametrize(("stage", "n", "k"), [(1, 384, 4096), (2, 4096, 384)])
def test_experts_are_seen_as_rank_sees_them(tmp_path: Path, stage: int, n: int, k: int) -> None:
    row = replace(EXPERT_ROW, family=f"moe_stage{stage}", n=n, k=k)
    (case,) = cases_of([row])
    parameters: dict[str, ParameterValue] = {
        "BlockSize": 256, "MPerBlock": 32, "NPerBlock": 64, "KPerBlock": 128, "MPerXDL": 16, "NPerXDL": 16,
        "MXdlPerWave": 2, "NXdlPerWave": 1, "BlkGemmPipelineVer": "v1", "NSwizzle": False,
        "CShuffleMXdlPerWavePerShuffle": 2, "CShuffleNXdlPerWavePerShuffle": 1,
    }  # fmt: skip
    text = EXPERTS % (stage, n, k) + '[[instance]]\nname = "any"\nMPerBlock = 32\n'
    problem = of_text(tmp_path, text, row.gfx, {})
    found = modelled_gemm(None, parameters, problem, case.target)
    assert found is not None
    assert (found.measured, found.sizes, found.instance) == (case.slice, case.sizes, case.candidates[row.winner])


EXPERT_ROW = Row(
    family="moe_stage1", gfx="gfx942", units=80, m=64, n=384, k=4096, dtype="f8", winner="256x32x64x128_1x4_v1", us=90.0,
    experts=128, topk=8, block_m=32, scales=" per row", stage="Silu 0",
)  # fmt: skip


def test_copies_are_no_measurements() -> None:
    rows = [replace(EXPERT_ROW, m=tokens) for tokens in (1, 4, 16)]
    rows += [replace(EXPERT_ROW, m=tokens, us=200.0) for tokens in (2048, 1024, 4096)]
    rows += [replace(EXPERT_ROW, m=64, us=100.0)]
    left_out: Counter[str] = Counter()
    assert [row.m for row in without_copies(rows, (), left_out)] == [16, 1024, 64]
    assert sum(left_out.values()) == 4
    # the measurement may be among the rows that are known
    assert without_copies(rows[:1], rows[1:], left_out) == []


@pytest.mark.parametrize(
    ("name", "wave_map"),
    [
        ("256x128x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8x8x1_2x1_intrawave_v3", (8, 2)),
        ("256x128x128x256_16x16_16x16_16x16x1_16x16x1_1x32x1x8_8x8x1_1x2_intrawave_v3", (4, 4)),
        ("256x256x224x128_16x16_16x16_8x32x1_8x32x1_1x64x1x4_8x8x1_2x1_intrawave_v3", (8, 7)),
        ("128x32x16x512_16x16_16x16_32x4x1_32x4x1_1x32x1x4_4x4x1_1x1_intrawave_v1", (1, 1)),
        ("256x16x512x256_16x16_16x16_16x16x1_16x16x1_1x16x1x16_8x8x1_1x2_intrawave_v2", (1, 8)),
    ],
)
def test_how_waves_share_a_tile_is_as_in_aiters_list(name: str, wave_map: tuple[int, int]) -> None:
    found = by_name(f"a8w8_bpreshuffle_{name}")
    assert (found["MXdlPerWave"], found["NXdlPerWave"]) == wave_map


def made_up(count: int) -> list[Case]:
    """Rows whose winners are those of the formulas, and take 1.5 times as long."""
    names = [f"{m}x{n}" for m in (32, 64, 128) for n in (64, 128)]
    rows = [
        replace(
            EXPERT_ROW, m=1 << at % 8, n=256 << at // 8 % 4, k=512 << at // 32, winner=f"256x{names[at % 6]}x128_1x4_v1"
        )
        for at in range(count)
    ]
    found = []
    for case in cases_of(rows):
        machine = case.target.machine(("f8", "f8"))
        assert machine is not None
        times = {
            name: gemm_time(one, estimated_figures(one, case.sizes), case.sizes, machine).time_us
            for name, one in case.candidates.items()
        }
        best = min(times, key=lambda name: times[name])
        found.append(replace(case, row=replace(case.row, winner=best, us=1.5 * times[best])))
    return found


def test_what_is_learned_is_what_is_shipped() -> None:
    cases = made_up(48)
    design, every = design_of(cases), np.arange(48)
    fitted = fit(design, every)
    found = outcomes(design, every, fitted)
    assert np.median(np.abs(found.errors)) < 0.1 < np.median(np.abs(outcomes(design, every, None).errors))
    stored, rows = learn(cases)
    assert len(rows) == 48
    assert stored["correction"] is not None
    assert stored["correction"]["points"] == stored_correction(design, fitted, [])["points"]
    correction = read_family(text_of(stored)).correction
    assert correction is not None
    for case, error in zip(cases, found.errors, strict=True):
        machine = case.target.machine(("f8", "f8"))
        assert machine is not None
        instance = case.candidates[case.row.winner]
        time = gemm_time(instance, estimated_figures(instance, case.sizes), case.sizes, machine)
        units = case.target.part.compute_units
        factor, _, _ = correction.factor(instance, case.sizes, time, units, case.slice, "gfx942")
        assert np.log(time.time_us * factor / case.row.us) == pytest.approx(error, abs=0.01)
    assert learn(cases[: LEAST_ROWS - 1])[0]["correction"] is None


def test_efficiency_of_right_and_of_wrong_choices() -> None:
    cases = made_up(48)
    design, every = design_of(cases), np.arange(48)
    right = Line("", every, outcomes(design, every, None))
    assert efficiency(right, 15.0) == (1.0, 1.0)
    found = right.found
    wrong = Line("", every, replace(found, places=np.full(48, 1)))
    sharp, blunt = efficiency(wrong, 50.0)[0], efficiency(wrong, 5.0)[0]
    assert 0.5 < blunt < sharp < 1
    likeliest, least, most = sharpness_of(wrong)
    assert least <= likeliest <= most
    apart, tied = np.log([[1.0, 2.0, np.inf]]), np.log([[1.0, 1.0, np.inf]])
    assert ceiling(replace(right, found=replace(found, cost=apart))) == 1
    assert ceiling(replace(right, found=replace(found, cost=tied))) < 1


def test_what_ships_predicts_rows_as_the_formulas_do_where_nothing_was_learned() -> None:
    row = replace(EXPERT_ROW, family="bf16_batched", dtype="bf16", scales="", experts=0, topk=0, block_m=0, batch=16,
                  winner=f"bf16_batched_256x128x128x64_32x32_2x2_{BEHIND}_1x1_intrawave_v3")  # fmt: skip
    assert instance_called(row.winner) is not None
    found = shipped(cases_of([row]), {})
    case = cases_of([row])[0]
    machine = case.target.machine(("bf16", "bf16"))
    assert machine is not None
    instance, sizes = case.candidates[row.winner], sizes_of(row)
    time = gemm_time(instance, estimated_figures(instance, sizes), sizes, machine)
    assert np.exp(found.errors[0]) == pytest.approx(time.time_us / row.us)


def test_a_row_that_no_part_can_reach_is_no_measurement(tmp_path: Path) -> None:
    path, left_out = tmp_path / "m.csv", Counter[str]()
    row = ROWS["a8w8_rowwise, MI355X, i8"]
    large = row.replace(",64,1280,8192,", ",65536,1280,8192,")
    path.write_text(f"{HEAD}{row}_intrawave_v3,9.5\n{large}_intrawave_v3,1.0\n")
    assert [found.m for found in read_rows([path], left_out)] == [64]
    assert left_out == {"a8w8_rowwise: more FLOP/s than the part has": 1}


def test_names_that_mean_one_instance_are_distinguished() -> None:
    row = replace(EXPERT_ROW, family="a4w4_blockscale", dtype="f4", scales="", experts=0, topk=0, block_m=0,
                  winner="a4w4_blockscale_256x64x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8_2x2_intrawave_v3")  # fmt: skip
    other = replace(row, m=row.m + 1, winner=row.winner.replace("1x32x1x8", "1x16x1x16"))
    third = replace(row, m=row.m + 2, winner=row.winner.replace("_256x64x128", "_256x64x256"))
    keys = keys_of(cases_of([row, other, third]))
    assert (keys[row.winner], keys[other.winner], keys[third.winner]) == (
        "256x64x128x128_16x16_4x2_2x2x8_intrawave_v3",
        "256x64x128x128_16x16_4x2_2x2x16_intrawave_v3",
        "256x64x256x128_16x16_4x4_2x2_intrawave_v3",
    )
    tiled = "a8w8_blockscale_cktile_192x256x128_4x2x1_16x16x128_intrawave_0x1x0_1"
    assert keys_of(cases_of([replace(row, family="a8w8_blockscale_cktile", winner=tiled)])) == {tiled: tiled}


def test_a_matrix_of_cutlass_has_the_times_of_those_that_lost(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    head = "ThreadblockM,ThreadblockN,ThreadblockK,WarpM,WarpN,Stages,SwizzleSize,512x512x512_ms,64x64x4096_ms\n"
    path.write_text(f"{head}128,128,32,64,64,4,8,0.010,0.3\n64,64,64,32,32,3,1,0.008,\n")
    large, deep = read_matrices([path], Counter())
    assert dict(large.times) == {"128_128_32_64_64_4_8": 10.0, "64_64_64_32_32_3_1": 8.0}
    assert (large.row.winner, large.row.us, large.slice) == (
        "64_64_64_32_32_3_1", 8.0, "gemm_universal_cutlass, H200 SXM, f16",
    )  # fmt: skip
    assert list(deep.candidates) == ["128_128_32_64_64_4_8"]
    instance = large.candidates["128_128_32_64_64_4_8"]
    # 128 accumulators, and of two steps 64 rows and 64 columns, 16 deep, shared by 32 lanes
    assert (instance.waves, instance.waves_m, instance.waves_n) == (4, 2, 2)
    assert (instance.lds_bytes(2, 2), instance.registers(2, 2)) == (4 * 256 * 32 * 2, 128 + 64 + 40)
    rows = np.arange(2)
    design = design_of([large, deep])
    found = outcomes(design, rows, None)
    # each by what the other is off by: the single time of the second, and the median of the first's two
    ratios = np.exp(design.formulas) / np.array([[10.0, 8.0], [300.0, np.nan]])
    expected = found.errors - np.log([ratios[1, 0], np.exp(np.log(ratios[0]).mean())])
    assert scaled(design, rows, found).errors == pytest.approx(expected)
