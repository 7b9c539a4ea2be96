"""Sequences of instructions with their counts → the cycles that a wave spends at each, and what it waits for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ckwatch.codeobject.disassembly import Instruction, traits
from ckwatch.codeobject.llvm_mca import clocks_per_cycle
from ckwatch.codeobject.report import KernelReport, KernelResources, Occupancy, OccupancyLimit
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.gpu_specs import AMD_GPUS
from ckwatch.model.instruction_counts import InstructionCounts, KernelCounts
from ckwatch.prediction.cycle_costs import COSTS, costs_of, matrix_clocks, valu_clocks
from ckwatch.prediction.wait_and_issue import Residency, cycles_of, registers, residency_of
from helpers.each_row import each_row

Row = tuple[float, Mapping[str, float]]
"""Issue, and waits by what they are for: an instruction as `load @1`, by its place."""


def program(*texts: str) -> list[Instruction]:
    """Instructions of 4 bytes; a branch is written as `s_branch @0`, with the place that it goes to."""
    found = []
    for place, text in enumerate(texts):
        written, at, target = text.partition(" @")
        found.append(Instruction(4 * place, text.split()[0], written, 4, 4 * int(target) if at else None))
    return found


def rows_of(
    *texts: str,
    arch: str = "gfx942",
    waves: float = 1,
    workgroup_waves: int = 1,
    counts: Mapping[int, InstructionCounts] | None = None,
    issued: Mapping[int, int] | None = None,
) -> list[Row]:
    """Per issue. `counts` and `issued` by place; each instruction is issued once where neither says more."""
    instructions = program(*texts)
    counted = {
        4 * place: (counts or {}).get(place, InstructionCounts((issued or {}).get(place, 1), 64))
        for place in range(len(texts))
    }
    resident = Residency(arch=arch, waves_per_simd=waves, workgroup_waves=workgroup_waves)
    estimate = cycles_of(instructions, counted, resident)
    assert estimate is not None
    rows: list[Row] = []
    for one in instructions:
        found, times = estimate.instructions[one.address], counted[one.address].issued
        waits = {
            cause.what if cause.address is None else f"{cause.what} @{cause.address // 4}": clocks / times
            for cause, clocks in found.waits.items()
        }
        rows.append((found.issue / times, waits))
    return rows


ADD = "v_add_f32_e32 v1, v1, v1"


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("gfx90a", [(4, {}), (4, {}), (4, {})]),
        ("gfx942", [(4, {}), (4, {}), (4, {})]),
        ("gfx950", [(4, {}), (4, {}), (4, {})]),
        ("gfx1100", [(1, {}), (1, {"result @0": 4}), (1, {"result @1": 4})]),
    ],
)
def test_a_chain_of_results(arch: str, expected: list[Row]) -> None:
    assert rows_of(ADD, ADD, ADD, arch=arch) == expected


def test_a_quarter_of_the_rate() -> None:
    assert rows_of("v_exp_f32_e32 v2, v3", ADD, "s_add_u32 s0, s1, s2") == [(4, {}), (4, {"ALU": 12}), (4, {})]
    assert rows_of("v_exp_f32_e32 v2, v3", "s_add_u32 s0, s1, s2", ADD)[2] == (4, {"ALU": 8})


@each_row(
    ("arch", "text", "clocks"),
    [
        ("gfx90a", "v_mfma_f32_32x32x8f16 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 64),
        ("gfx90a", "v_mfma_f32_16x16x16f16 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 32),
        ("gfx942", "v_mfma_f32_32x32x8_f16 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 32),
        ("gfx942", "v_mfma_f32_32x32x4_2b_f16 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 64),
        ("gfx942", "v_mfma_f32_16x16x16_f16 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 16),
        ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 16),
        ("gfx942", "v_mfma_f32_32x32x2_f32 a[{0}:{1}], v0, v1, a[{0}:{1}]", 64),
        ("gfx950", "v_mfma_f32_32x32x16_bf16 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}]", 32),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[{0}:{1}], v[0:7], v[8:15], a[{0}:{1}]", 32),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[{0}:{1}], v[0:3], v[8:11], a[{0}:{1}] cbsz:4 blgp:4", 16),
        ("gfx950", "v_mfma_f64_16x16x4_f64 a[{0}:{1}], v[0:1], v[2:3], a[{0}:{1}]", 64),
        ("gfx1100", "v_wmma_f32_16x16x16_f16 v[{0}:{1}], v[64:71], v[72:79], v[{0}:{1}]", 32),
    ],
)
def test_matrix_instructions_in_a_row(arch: str, text: str, clocks: int) -> None:
    """Others begin when the matrix unit is free, and so does one that goes on with the sum."""
    first, second, again = text.format(16, 31), text.format(32, 47), text.format(32, 47)
    rows = rows_of(first, second, again, arch=arch)
    assert [waits for _, waits in rows] == [{}, *2 * [{"matrix unit": clocks - rows[0][0]}]]


@pytest.mark.parametrize(
    ("arch", "text", "clocks"),
    [
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", 16 + 12),
        ("gfx942", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0", 8 + 12),
        ("gfx950", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", 16 + 16),
        ("gfx950", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0", 8 + 12),
        ("gfx90a", "v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], 0", 32 + 12),
    ],
)
def test_who_reads_a_product_waits_for_its_last_pass(arch: str, text: str, clocks: int) -> None:
    assert rows_of(text, ADD, "v_mov_b32_e32 v9, v10", arch=arch) == [
        (4, {}),
        (4, {"matrix instruction @0": clocks - 4}),
        (4, {}),
    ]


def test_f32_products_of_gfx942_keep_the_alu() -> None:
    other = "v_mov_b32_e32 v9, v10"
    assert rows_of("v_mfma_f32_16x16x4_f32 a[0:3], v4, v5, 0", other)[1] == (4, {"ALU": 28})
    assert rows_of("v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], 0", other)[1] == (4, {})


def test_a_wait_is_for_the_operation_that_its_counter_names() -> None:
    rows = rows_of(
        *("global_load_dword v1, v[2:3], off", "global_load_dword v4, v[2:3], off"),
        *("s_load_dword s0, s[2:3], 0x0", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"),
    )
    scalar, first, second = (waits for _, waits in rows[3:])
    assert scalar == {"scalar load @2": 48 - 4}
    # the loads take the 4 clocks of their lanes each, and end 288 clocks later
    assert first == {"load @0": 4 + 288 - 1 - (12 + 44 + 4)}
    assert second == {}  # 4 clocks for the wait itself are enough


@pytest.mark.parametrize(("arch", "latency"), [("gfx90a", 292), ("gfx942", 288), ("gfx950", 320)])
def test_a_load_takes_its_cache_lines(arch: str, latency: int) -> None:
    counts = {0: InstructionCounts(1, 64, requests=1, cache_lines=64)}
    rows = rows_of("global_load_dword v1, v[2:3], off", "s_waitcnt vmcnt(0)", arch=arch, counts=counts)
    assert rows[1] == (4, {"load @0": 64 * 128 / 64 + latency - 1 - 4})


@pytest.mark.parametrize(
    ("arch", "text", "turns", "clocks"),
    [
        ("gfx942", "ds_read_b32 v1, v2", 2, 4 + 52),  # 64 lanes of 4 bytes through a port of 64
        ("gfx942", "ds_read_b32 v1, v2", 64, 64 + 52),
        ("gfx942", "ds_read_b128 v[4:7], v2", 8, 16 + 52),
        ("gfx942", "ds_read_b128 v[4:7], v2", 32, 32 + 52),
        ("gfx942", "ds_write_b128 v2, v[4:7]", 8, 20 + 52),
        ("gfx90a", "ds_write_b32 v2, v4", 2, 8 + 48),
        ("gfx950", "ds_read_b128 v[4:7], v2", 4, 8 + 20),
    ],
)
def test_conflicts_of_lds(arch: str, text: str, turns: int, clocks: int) -> None:
    counts = {0: InstructionCounts(1, 64, accesses=1, turns=turns, phases=2, fullest=turns)}
    ((_, waits),) = rows_of(text, "s_waitcnt lgkmcnt(0)", arch=arch, counts=counts)[1:]
    assert list(waits.values()) == [clocks - 1 - 4]


def test_a_loop_waits_for_what_its_last_round_began() -> None:
    """The load is issued at the end of a round, and has the branch back until it is waited for."""
    texts = ("s_mov_b32 s0, 0", "s_waitcnt vmcnt(0)", ADD, "global_load_dword v1, v[2:3], off", "s_cbranch_scc1 @1")
    rows = rows_of(*texts, "s_endpgm", issued=dict.fromkeys((1, 2, 3, 4), 100))
    # 99 of 100 branches go back, by the count of what follows
    assert rows[4][0] == pytest.approx(0.99 * 32 + 0.01 * 4)
    assert rows[1][1]["load @3"] == pytest.approx(288 + 4 - 1 - 4 - rows[4][0])


def test_what_is_never_executed_has_no_estimate() -> None:
    instructions = program("s_branch @2", ADD, "s_endpgm")
    counts = {0: InstructionCounts(1, 64), 8: InstructionCounts(1, 64)}
    estimate = cycles_of(instructions, counts, Residency(arch="gfx942", waves_per_simd=1, workgroup_waves=1))
    assert estimate is not None
    assert sorted(estimate.instructions) == [0, 8]


@pytest.mark.parametrize("waves", [1, 2, 8])
def test_waves_share_the_matrix_unit(waves: int) -> None:
    """A wave that has been issued in 4 clocks waits until each other one has had the unit."""
    product = "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"
    assert rows_of(product, waves=waves) == [(4, {"matrix unit": 32 * waves - 4} if waves > 1 else {})]


def test_hidden_waits_stay_those_of_their_wave() -> None:
    """Others fill the wait for a load: a wave takes no longer for them as long as the ALU has time."""
    texts = ("global_load_dword v1, v[2:3], off", "s_waitcnt vmcnt(0)", ADD)
    assert rows_of(*texts, waves=8) == rows_of(*texts, waves=1)


def test_a_barrier_waits_for_the_workgroup() -> None:
    """Four waves on four SIMDs share the banks of LDS: on average one waits for half of the other three."""
    counts = {0: InstructionCounts(1, 64, accesses=1, turns=32, phases=2, fullest=16)}
    rows = rows_of("ds_read_b32 v1, v2", "s_barrier", "s_barrier", counts=counts, workgroup_waves=4)
    assert rows[1:] == [(4, {"others at a barrier": 3 * 32 / 2}), (4, {})]
    assert rows_of("ds_read_b32 v1, v2", "s_barrier", counts=counts, workgroup_waves=1)[1] == (4, {})


def test_what_has_no_number_is_said() -> None:
    texts = (
        "v_mfma_f32_7x7x7_f16 a[0:3], v[0:1], v[2:3], 0",
        "global_store_dword v[0:1], v2, off",
        "s_waitcnt vmcnt(0)",
    )
    counts = {4 * place: InstructionCounts(1, 64) for place in range(3)}
    estimate = cycles_of(program(*texts), counts, Residency(arch="gfx942", waves_per_simd=2, workgroup_waves=4))
    assert estimate is not None
    assert estimate.notes == (
        "of waves, with 2 on a SIMD at a time",
        "each load is served by L2, after 288 cycles (measured on an MI300X by MT4G)",
        "no estimate of v_mfma_f32_7x7x7_f16, waits for stores and atomics",
    )
    assert not estimate.instructions[8].waits
    assert cycles_of(program(ADD), {}, Residency(arch="gfx906", waves_per_simd=1, workgroup_waves=1)) is None


@each_row(
    ("arch", "mnemonic", "dtype"),
    [
        *(("gfx90a", f"v_mfma_{name}", dtype) for name, dtype in (("f32_32x32x8f16", "f16"), ("i32_32x32x8i8", "i8"))),
        *(
            ("gfx90a", f"v_mfma_{name}", dtype)
            for name, dtype in (("f32_32x32x2f32", "f32"), ("f64_16x16x4f64", "f64"))
        ),
        *(("gfx942", f"v_mfma_f32_32x32x8_{dtype}", dtype) for dtype in ("f16", "bf16")),
        *(
            ("gfx942", f"v_mfma_{name}", dtype)
            for name, dtype in (("f32_16x16x32_fp8_fp8", "f8"), ("i32_32x32x16_i8", "i8"))
        ),
        *(
            ("gfx942", f"v_mfma_{name}", dtype)
            for name, dtype in (("f32_16x16x4_f32", "f32"), ("f64_16x16x4_f64", "f64"))
        ),
        *(("gfx950", f"v_mfma_f32_{name}", "f16") for name in ("16x16x32_f16", "32x32x16_f16")),
        *(("gfx950", f"v_mfma_i32_{name}", "i8") for name in ("16x16x64_i8", "32x32x32_i8")),
        *(("gfx950", f"v_mfma_f32_{name}_f8f6f4", "f8") for name in ("16x16x128", "32x32x64")),
        ("gfx950", "v_mfma_f64_16x16x4_f64", "f64"),
    ],
)
def test_the_fastest_matrix_instructions_reach_the_peak_of_the_data_sheet(arch: str, mnemonic: str, dtype: str) -> None:
    part = AMD_GPUS[arch][0][1]
    clocks = matrix_clocks(mnemonic, COSTS[arch])
    assert clocks is not None
    reached = traits(mnemonic).flops / clocks * 4 * part.compute_units * part.clock_mhz / 1e6
    assert reached == pytest.approx(part.peak_tflops[dtype], rel=0.01)


def test_the_documentation_has_these_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text()
    archs = [cell.strip() for cell in re.findall(r"^\| \|( gfx90a .*)\|$", page, re.MULTILINE)[0].split("|")]

    def numbers(row: str) -> list[list[int]]:
        (cells,) = re.findall(rf"^\| {row} \|(.*)\|$", page, re.MULTILINE)
        return [[int(number) for number in re.findall(r"\d+", cell)] for cell in cells.split("|")]

    costs = [COSTS[arch] for arch in archs]
    assert archs == [*COSTS]
    assert numbers("load from memory, served by L2") == [[one.memory] for one in costs]
    assert numbers("LDS") == [[one.lds] for one in costs]
    assert numbers("scalar load") == [[one.scalar_load] for one in costs]
    assert numbers("taken branch") == [[one.branch] for one in costs]
    assert numbers("VALU result, and at a quarter of the rate") == [
        [one.valu, valu_clocks("v_exp_f32_e32", one)[1]] for one in costs
    ]
    assert numbers("until another instruction may read it") == [[one.matrix_result] for one in costs]


def test_registers_of_an_operand() -> None:
    assert registers("v[2:4]") == ("v2", "v3", "v4")
    assert registers("-|a7|") == ("a7",)
    assert registers("vcc") == ("vcc",)
    assert registers("0x3ff") == ()


@pytest.mark.parametrize(
    ("workgroups", "waves"),
    [(1_000_000, 2), (304, 1), (1, 1), (305, 2)],
)
def test_a_launch_may_be_too_small_to_fill_the_device(workgroups: int, waves: float) -> None:
    """Of MI300X, with workgroups of four waves."""
    resources = KernelResources(
        symbol="k", name="k", vgprs=256, agprs=0, sgprs=32, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0, lds_bytes=0,
        workgroup_size=256, wavefront_size=64, kernarg_bytes=0,
    )  # fmt: skip
    occupancy = Occupancy(waves_per_simd=2, limited_by=OccupancyLimit.VGPR, workgroups_per_cu=2)
    counts = KernelCounts(symbol="k", launches=1, workgroups=1, all_workgroups=workgroups, instructions={})
    resident = residency_of(KernelReport(resources=resources, occupancy=occupancy), counts, "gfx942:xnack-", 128)
    assert resident is not None
    assert (resident.waves_per_simd, resident.workgroup_waves) == (waves, 4)
    assert costs_of("gfx942:xnack-") is COSTS["gfx942"]


ALU_ROWS = ("v_add_f32_e32 v0, v1, v2", "v_exp_f32_e32 v0, v1", "v_rcp_f16_e32 v0, v1", "v_fma_f32 v0, v1, v2, v3")
CDNA_ROWS = (
    *("v_cvt_f32_f16_e32 v0, v1", "v_cvt_f64_f32_e32 v[0:1], v2", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]"),
    *("v_mul_lo_u32 v0, v1, v2", "v_lshlrev_b64 v[0:1], 2, v[2:3]"),
)
RDNA_ROWS = ("v_mul_lo_u32 v0, v1, v2", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]")
MEMORY_ROWS = {
    "gfx9": ("s_load_dword s0, s[2:3], 0x0", "ds_read_b32 v0, v1", "global_load_dword v0, v[2:3], off", "s_cbranch_scc0 0"),
    "gfx11": ("s_load_b32 s0, s[2:3], 0x0", "ds_load_b32 v0, v1", "global_load_b32 v0, v[2:3], off", "s_cbranch_scc0 0"),
}  # fmt: skip
PRODUCTS = {
    "gfx90a": (
        *("v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", "v_mfma_f32_4x4x4f16 a[0:3], v[0:1], v[2:3], a[0:3]"),
        "v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7]",
    ),
    "gfx942": (
        *("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "v_mfma_f32_32x32x2_f32 a[0:15], v0, v1, a[0:15]"),
        *("v_mfma_f32_16x16x32_fp8_fp8 a[0:3], v[0:1], v[2:3], a[0:3]", "v_smfmac_f32_16x16x32_f16 a[0:3], v[0:1], v[2:5], v6"),
    ),
    "gfx950": (
        *("v_mfma_f32_32x32x16_f16 a[0:15], v[0:3], v[4:7], a[0:15]", "v_mfma_i32_16x16x64_i8 a[0:3], v[0:3], v[4:7], a[0:3]"),
        *("v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7]", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]"),
        "v_mfma_f32_32x32x64_f8f6f4 a[0:15], v[0:3], v[4:7], a[0:15] cbsz:4 blgp:4",
    ),
}  # fmt: skip


@pytest.mark.toolchain
@pytest.mark.parametrize("arch", [*COSTS])
def test_what_llvm_says_of_latencies(arch: str, tmp_path: Path) -> None:
    costs, mca = COSTS[arch], discover().mca
    assert mca is not None
    alu = (*ALU_ROWS, *(RDNA_ROWS if arch == "gfx1100" else CDNA_ROWS))
    memory = MEMORY_ROWS["gfx11" if arch == "gfx1100" else "gfx9"]
    products = PRODUCTS.get(arch, ())
    source = tmp_path / "all.s"
    source.write_text("\n".join((*alu, *memory, *products, "")))
    arguments = [str(mca), "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "--json", str(source)]
    (region,) = json.loads(subprocess.run(arguments, capture_output=True, check=True).stdout)["CodeRegions"]
    rows = region["InstructionInfoView"]["InstructionList"]
    clocks = [clocks_per_cycle(arch) * row["Latency"] for row in rows]
    assert clocks[: len(alu)] == [valu_clocks(text.split()[0], costs)[1] for text in alu]
    scalar, lds, load, branch = clocks[len(alu) :][: len(memory)]
    assert branch == costs.branch
    if "LLVM" in costs.memory_source:  # of the others there are measurements
        assert [scalar, lds, load] == [costs.scalar_load, costs.lds, costs.memory]
    taken = [clocks_per_cycle(arch) * row["RThroughput"] for row in rows[len(alu) + len(memory) :]]
    assert taken == [matrix_clocks(text, costs) for text in products]
