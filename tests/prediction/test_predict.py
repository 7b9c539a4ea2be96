"""Bounds and predictions, worked out by hand for an MI300X: 304 CUs of four SIMDs, 2100 MHz, 1307.4 TFLOP/s in f16."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.gemm_case import GemmCase
from ckwatch.codeobject.report import CodeObjectReport, main_kernel
from ckwatch.model.gpu_specs import AMD_GPUS, DeviceFacts, GpuSpecs
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.roofline import CacheState, bound
from ckwatch.prediction.predict import (
    MEMORY_RATES,
    Basis,
    MeasuredPrediction,
    Prediction,
    PredictionTarget,
    calibrate,
    predict,
    target_names,
    target_of,
    target_of_device,
)
from ckwatch.prediction.times import Bottleneck
from helpers.kernel_reports import TILE_128, kernel, loop, problem, report


def target(name: str = "MI300X", arch: str = "gfx942") -> PredictionTarget:
    found = target_of(arch, name)
    assert found is not None
    return found


def on_mi300x(
    found: CodeObjectReport | None, work: KernelProblem, parameters: dict[str, ParameterValue] | None = None
) -> Prediction:
    return predict(found, parameters or {**TILE_128}, work, target())


SQUARE = problem(4096, 4096, 4096)
ROOFLINE_US = 2 * 4096**3 / 1307.4e6
"""105.1 µs."""


def test_wave_quantization_is_part_of_the_bound() -> None:
    # 1024 workgroups of 128×128 on 304 CUs: one has 4, as if there were 1216
    found = on_mi300x(None, SQUARE)
    assert found.roofline_us == pytest.approx(ROOFLINE_US)
    assert found.bound_us == pytest.approx(ROOFLINE_US * 1216 / 1024)
    assert found.bound_tflops == pytest.approx(1307.4 * 1024 / 1216)
    assert found.time_us is None
    assert found.notes == ("it is not compiled: only a bound",)
    assert found.why == (
        "wave quantization: 1024 workgroups on 304 CUs fill them 3 times and leave 112 for the end, 84 % of the SIMDs' time used",
    )


def test_padding_is_part_of_the_bound() -> None:
    # 16 rows of 128: 64 workgroups, each 2·128·128·8192 FLOP at a 304th of the peak
    found = on_mi300x(None, problem(16, 8192, 8192))
    assert found.bound_us == pytest.approx(2 * 128 * 128 * 8192 / (1307.4e6 / 304))
    assert found.roofline_us == pytest.approx(2 * (8192**2 + 2 * 16 * 8192) / 5.3e6)
    assert found.roofline_by == "memory"
    assert found.why == (
        "padding: 88 % of the work is thrown away",
        "wave quantization: 64 workgroups on 304 CUs leave 240 idle, 21 % of the SIMDs' time used",
    )


def test_two_waves_fill_each_others_gaps() -> None:
    # one wave alone: 1080 clocks for 1024 clocks of matrix work; two: 2048 clocks for both
    found = on_mi300x(report(kernel(waves=2)), SQUARE)
    assert found.terms[Bottleneck.LOOP] == pytest.approx(64 * 2 * 2048 / 2100)
    assert found.time_us == pytest.approx(ROOFLINE_US * 1216 / 1024, rel=1e-3)
    assert found.matrix_use == pytest.approx(1.0)
    # two waves side by side, one iteration each: 2048 clocks
    assert found.iteration_us == pytest.approx(2048 / 2100, rel=1e-3)
    assert found.kernel == "gemm_universal<true, Full>"


def test_one_wave_has_gaps() -> None:
    # the busiest SIMD runs its 4 waves one after the other, 64 iterations of 270·4 clocks each
    found = on_mi300x(report(kernel(waves=1)), SQUARE)
    assert found.time_us == pytest.approx(4 * 64 * 1080 / 2100)
    assert found.limited_by is Bottleneck.LOOP
    assert found.matrix_use == pytest.approx(256 / 270)
    assert found.iteration_us == pytest.approx(1080 / 2100)
    assert found.tflops == pytest.approx(2 * 4096**3 / (4 * 64 * 1080 / 2100) / 1e6)
    assert found.why[0] == "the main loop keeps the matrix units 95 % busy"


def test_waves_that_are_not_there_fill_no_gaps() -> None:
    # 256 workgroups: one wave on each SIMD, whatever the occupancy allows
    found = on_mi300x(report(kernel(waves=8)), problem(2048, 2048, 4096))
    assert found.terms[Bottleneck.LOOP] == pytest.approx(64 * 1080 / 2100)


def test_small_workgroups_are_counted_as_they_are_launched() -> None:
    # compiled for 256 threads, launched with 64: 1024 workgroups of one wave, of which the busiest CU has 4, one per SIMD;
    # the 128·128·64·2 FLOP of a round are 4 iterations of that wave
    parameters: dict[str, ParameterValue] = {**TILE_128, "BlockSize": 64}
    found = on_mi300x(report(kernel(waves=2)), SQUARE, parameters)
    assert found.terms[Bottleneck.LOOP] == pytest.approx(4 * 64 * 1080 / 2100)
    assert found.quantisation is not None
    assert found.quantisation.balance == pytest.approx(1024 / 1216)


def test_small_workgroups_share_the_lds_with_fewer_waves() -> None:
    # 9728 workgroups of one wave: 32 on each CU, 8 on each SIMD; 64 KiB of LDS hold 4 of them at a time, one per SIMD
    parameters: dict[str, ParameterValue] = {"MPerBlock": 16, "NPerBlock": 16, "KPerBlock": 64, "BlockSize": 64}
    work = problem(16 * 9728, 16, 64)
    small = loop(flops=2 * 16 * 16 * 64, clocks=400.0, matrix_use=0.1)
    found = on_mi300x(report(kernel(waves=8, lds_bytes=16384, with_loop=small)), work, parameters)
    assert found.terms[Bottleneck.LOOP] == pytest.approx(8 * 400 / 2100)
    roomy = on_mi300x(report(kernel(waves=8, lds_bytes=2048, with_loop=small)), work, parameters)
    assert roomy.terms[Bottleneck.LOOP] == pytest.approx(400 / 2100)


def test_the_last_waves_are_alone() -> None:
    # 608 + 304 workgroups: three waves on each SIMD, two together and then one
    found = on_mi300x(report(kernel(waves=2)), problem(128 * 912, 128, 4096))
    assert found.terms[Bottleneck.LOOP] == pytest.approx(64 * (2048 + 1080) / 2100)


def test_vector_instructions_share_the_simd() -> None:
    busy = loop(mix={"mfma": 32, "valu": 300})
    found = on_mi300x(report(kernel(waves=2, with_loop=busy)), SQUARE)
    assert found.terms[Bottleneck.LOOP] == pytest.approx(64 * 2 * (2 * 300 * 4) / 2100)


def test_a_loop_of_several_rounds_runs_less_often() -> None:
    twice = loop(flops=2 * 32 * 16384, clocks=2160.0)
    found = on_mi300x(report(kernel(waves=1, with_loop=twice)), SQUARE)
    assert found.time_us == pytest.approx(4 * 64 * 1080 / 2100)


def test_the_lds_may_be_the_limit() -> None:
    # 4 workgroups of 4 waves, 64 iterations of 48 KiB each, at 128 bytes a clock
    heavy = loop(lds_read_bytes=40960)
    found = on_mi300x(report(kernel(with_loop=heavy)), SQUARE)
    assert found.limited_by is Bottleneck.LDS
    assert found.time_us == pytest.approx(4 * 4 * 64 * 49152 / 128 / 2100)
    assert found.why[0].startswith("the LDS cannot deliver")


def test_small_tiles_are_limited_by_l2() -> None:
    # X is loaded 256 times and W too: 17 GB through 8 dies of 16 channels of 128 bytes a clock
    small = {"MPerBlock": 16, "NPerBlock": 16, "KPerBlock": 128}
    found = on_mi300x(report(kernel(workgroup_size=64, with_loop=loop(lds_read_bytes=0))), SQUARE, {**small})
    assert found.limited_by is Bottleneck.L2
    assert found.terms[Bottleneck.L2] == pytest.approx(2 * 256 * 4096**2 * 2 / (8 * 16 * 128) / 2100)


def test_memory_may_be_the_limit() -> None:
    found = on_mi300x(report(kernel()), problem(4096, 4096, 64))
    assert found.limited_by is Bottleneck.MEMORY
    assert found.time_us == found.roofline_us == pytest.approx(2 * (4096**2 + 2 * 4096 * 64) / 5.3e6)
    assert found.why[0] == "memory: 35 MB, 5.30 TB/s at best"


def test_a_warm_cache_needs_no_memory() -> None:
    found = predict(report(kernel()), {**TILE_128}, problem(4096, 4096, 64), target(), CacheState.HOT)
    assert found.cache is CacheState.HOT
    assert Bottleneck.MEMORY not in found.terms
    assert found.bound_us is not None
    assert found.bound_us < 2 * 4096**2 / 5.3e6


def test_partial_sums_beyond_the_cache_go_to_memory_and_are_no_part_of_the_bound() -> None:
    once, split = (on_mi300x(report(kernel()), problem(4096, 4096, 8192, slices)) for slices in (1, 8))
    extra = 2 * (8 * 4096**2 * 4 - 256 * 2**20) / 5.3e6
    assert split.terms[Bottleneck.MEMORY] == pytest.approx(once.terms[Bottleneck.MEMORY] + extra)
    assert split.roofline_us == once.roofline_us


def test_dtypes_have_their_own_peak() -> None:
    eight = predict(None, {**TILE_128}, problem(4096, 4096, 4096, case=GemmCase(a="f8", b="f8")), target())
    assert eight.bound_us == pytest.approx(2 * 4096**3 / 2614.9e6 * 1216 / 1024)


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (report(), "the code object has no kernel: only a bound"),
        (report(kernel(with_loop=None)), "no main loop was found: only a bound"),
        (
            report(kernel(with_loop=loop(flops=0))),
            "the main loop has no instructions whose FLOPs are known: only a bound",
        ),
    ],
)
def test_without_a_loop_there_is_only_a_bound(found: CodeObjectReport, note: str) -> None:
    prediction = on_mi300x(found, SQUARE)
    assert prediction.time_us is None
    assert prediction.limited_by is None
    assert prediction.bound_us == pytest.approx(ROOFLINE_US * 1216 / 1024)
    assert prediction.notes == (note,)


def test_without_clocks_the_matrix_units_are_taken_as_busy_and_that_is_said() -> None:
    found = on_mi300x(report(kernel(with_loop=loop(clocks=None, matrix_use=None))), SQUARE)
    assert found.time_us == found.bound_us
    assert found.limited_by is Bottleneck.MATRIX
    assert "always busy" in found.notes[0]


def test_an_unknown_occupancy_counts_as_one_wave_and_that_is_said() -> None:
    found = on_mi300x(report(kernel(waves=None)), SQUARE)
    assert found.terms == on_mi300x(report(kernel(waves=1)), SQUARE).terms
    assert found.notes == ("the occupancy is not known: taken as one wave on a SIMD",)


def test_a_loop_without_matrix_instructions_takes_its_clocks() -> None:
    plain = loop(mix={"valu": 200}, clocks=1200.0, matrix_use=None)
    found = on_mi300x(report(kernel(waves=1, with_loop=plain)), SQUARE)
    assert found.limited_by is Bottleneck.LOOP
    assert found.matrix_use is None
    assert found.time_us == pytest.approx(4 * 64 * 1200 / 2100)
    assert found.why[0].endswith("it uses no matrix units")


def test_where_the_tile_is_not_known_the_roofline_remains() -> None:
    found = on_mi300x(report(kernel()), SQUARE, {"Tile": 1})
    assert found.bound_us == found.roofline_us == pytest.approx(ROOFLINE_US)
    assert found.quantisation is None
    assert "MPerBlock" in found.notes[0]


def test_blocks_that_share_tiles_have_no_tail() -> None:
    found = on_mi300x(report(kernel()), SQUARE, {"TileM": 128, "TileN": 128, "TileK": 64, "StreamKBlocks": 304})
    assert found.bound_us == found.roofline_us == pytest.approx(ROOFLINE_US)
    assert found.quantisation is None
    assert "StreamKBlocks" in found.notes[0]


def test_of_a_custom_kernel_the_memory_remains() -> None:
    found = on_mi300x(report(kernel()), replace(SQUARE, computed=None, flops=None))
    assert found.bound_us == pytest.approx(3 * 2 * 4096**2 / 5.3e6)
    assert found.bound_tflops is None
    assert found.notes == ("what it computes is not known",)


def test_a_shape_that_is_refused_has_no_bound() -> None:
    parameters: dict[str, ParameterValue] = {
        **TILE_128, "BlkGemmPipelineVer": "v3", "GemmSpec": "MNKPadding", "ABlockTransferSrcScalarPerVector": 8,
    }  # fmt: skip
    found = on_mi300x(report(kernel()), problem(128, 128, 1001), parameters)
    assert (found.bound_us, found.time_us, found.limited_by) == (None, None, None)
    assert found.notes == (
        "does not support the shape: K = 1001 is not a multiple of ABlockTransferSrcScalarPerVector = 8",
    )


def test_the_kernel_with_the_heaviest_loop_does_the_work() -> None:
    light = kernel(name="light", with_loop=loop(flops=1024))
    none = kernel(name="none", with_loop=None)
    heavy = kernel(name="heavy")
    found = main_kernel(report(none, light, heavy))
    assert found is heavy
    assert main_kernel(replace(report(light, heavy), own=1)) is light
    assert main_kernel(report(none)) is none
    assert main_kernel(report()) is None


ROWWISE: dict[str, ParameterValue] = {
    "BlockSize": 256,
    "MPerBlock": 128,
    "NPerBlock": 128,
    "KPerBlock": 64,
    "MPerXDL": 32,
    "NPerXDL": 32,
    "MXdlPerWave": 2,
    "NXdlPerWave": 2,
    "BlkGemmPipeSched": "Intrawave",
    "BlkGemmPipelineVer": "v3",
}


def test_parameters_that_say_enough_have_a_time_before_a_compile() -> None:
    found = on_mi300x(None, SQUARE, ROWWISE)
    assert (found.basis, found.learned, found.notes) == (Basis.PARAMETERS, False, ())
    assert found.time_us == found.formula_us
    assert found.time_us is not None
    assert found.bound_us is not None
    assert found.time_us > found.bound_us
    assert found.limited_by is Bottleneck.MATRIX
    assert found.why[0].startswith("matrix units alone would take ")


def test_a_compile_replaces_the_estimated_registers_and_lds() -> None:
    # estimated: 64 accumulators, 64 for operands, 32 on the way, 40: 200 registers, two workgroups together
    before, after = (on_mi300x(found, SQUARE, ROWWISE) for found in (None, report(kernel(waves=1))))
    assert (before.workgroups_per_cu, after.workgroups_per_cu) == (2, 1)
    assert (before.basis, after.basis) == (Basis.PARAMETERS, Basis.CODE_OBJECT)
    assert after.terms[Bottleneck.LATENCY] > before.terms[Bottleneck.LATENCY]


def test_what_was_learned_is_of_its_kernels_types_and_part() -> None:
    scaled = GemmCase(a="i8", b="i8", c="bf16", accumulator="i32", scale_a="row", scale_b="row", arch="gfx950")
    work = problem(4096, 4096, 4096, case=scaled)
    known = predict(None, ROWWISE, work, target("MI355X", "gfx950"))
    assert (known.learned, known.slice) == (True, "a8w8_rowwise, MI355X, i8")
    assert known.time_us != known.formula_us
    assert known.low_us is not None
    assert known.high_us is not None
    assert known.low_us < (known.time_us or 0.0) < known.high_us
    # of another part there is the record of parts that were left out
    assert predict(None, ROWWISE, work, target("MI350X", "gfx950")).learned
    for other, part in (
        (replace(scaled, c="f16"), target("MI355X", "gfx950")),
        (replace(scaled, scale_a=None), target("MI355X", "gfx950")),
        (replace(scaled, a="f16", b="f16", accumulator="f32"), target("MI355X", "gfx950")),
    ):
        found = predict(None, ROWWISE, problem(4096, 4096, 4096, case=other), part)
        assert (found.learned, found.time_us) == (False, found.formula_us)


def test_a_compile_does_not_change_an_order_that_was_learned() -> None:
    scaled = GemmCase(a="i8", b="i8", c="bf16", accumulator="i32", scale_a="row", scale_b="row", arch="gfx950")
    work, part = problem(4096, 4096, 4096, case=scaled), target("MI355X", "gfx950")
    before, after = (predict(one, ROWWISE, work, part) for one in (None, report(kernel(waves=1))))
    assert before.time_us == after.time_us
    assert before.formula_us != after.formula_us
    assert after.basis is Basis.CODE_OBJECT


def test_warm_caches_have_no_time_before_a_compile() -> None:
    found = predict(None, ROWWISE, SQUARE, target(), CacheState.HOT)
    assert found.time_us is None


def test_ck_tile_has_a_time_before_a_compile() -> None:
    tile: dict[str, ParameterValue] = {
        "TileM": 128,
        "TileN": 128,
        "TileK": 64,
        "WarpM": 2,
        "WarpN": 2,
        "WarpK": 1,
        "WarpTileM": 32,
        "WarpTileN": 32,
        "WarpTileK": 16,
        "Pipeline": "CompV3",
        "Scheduler": "Intrawave",
    }
    found = on_mi300x(None, SQUARE, tile)
    assert found.basis is Basis.PARAMETERS
    assert found.time_us == pytest.approx(on_mi300x(None, SQUARE, ROWWISE).time_us or 0.0)


def test_an_mi308x_has_four_dies() -> None:
    assert target("MI308X").dies == 4


@given(
    *(st.integers(1, 5000) for _ in range(3)),
    st.integers(1, 8),
    st.sampled_from([16, 64, 128, 224, 256]),
    st.sampled_from([64, 128, 256]),
    st.integers(1, 8),
)
def test_no_bound_is_below_the_roofline_and_no_prediction_below_the_bound(
    m: int, n: int, k: int, slices: int, tile: int, lanes: int, waves: int
) -> None:
    work = problem(m, n, k, slices)
    parameters: dict[str, ParameterValue] = {"MPerBlock": tile, "NPerBlock": tile, "KPerBlock": 64}
    found = on_mi300x(report(kernel(waves=waves, workgroup_size=lanes)), work, parameters)
    roof = bound(work, target().facts, CacheState.COLD)
    assert roof is not None
    assert found.roofline_us == roof.time_us
    assert found.bound_us is not None
    assert found.time_us is not None
    assert roof.time_us <= found.bound_us * (1 + 1e-9)
    assert found.bound_us <= found.time_us * (1 + 1e-9)
    assert found.limited_by is not None
    assert found.terms[found.limited_by] == pytest.approx(found.time_us, rel=2e-3)


@pytest.mark.parametrize(
    ("arch", "name", "expected"),
    [
        ("gfx942", "", "MI325X"),
        ("gfx942:sramecc+", "mi300x", "MI300X"),
        ("gfx90a", "MI210", "MI210"),
        ("gfx950", "", "MI355X"),
        ("gfx1100", "", None),
        ("sm_90", "", None),
    ],
)
def test_parts_by_name(arch: str, name: str, expected: str | None) -> None:
    found = target_of(arch, name)
    assert (None if found is None else found.part.name) == expected
    assert bool(target_names(arch)) == (expected is not None)


def test_a_part_that_the_arch_does_not_have() -> None:
    with pytest.raises(
        ValueError, match="no part of gfx942 is called 'MI210': there are MI325X, MI300X, MI308X, MI300A"
    ):
        target_of("gfx942", "MI210")


@pytest.mark.parametrize(("name", "arch", "dies"), [("MI300X", "gfx942", 8), ("MI300A", "gfx942", 6), ("MI355X", "gfx950", 8)])  # fmt: skip
def test_each_die_has_its_l2(name: str, arch: str, dies: int) -> None:
    assert target(name, arch).l2_bytes_per_clock == dies * 2048


def test_a_device_at_hand_is_a_target() -> None:
    facts = DeviceFacts(
        name="hip:0", description="AMD Instinct MI300X", arch="gfx942", compute_units=38, clock_mhz=2100.0
    )
    found = target_of_device(facts)
    assert found is not None
    assert found.part.compute_units == 38
    assert found.l2_bytes_per_clock == 2048
    assert target_of_device(DeviceFacts(name="cpu", description="a CPU", arch="x86-64")) is None


# FLOPs of a compute unit in a clock, dense, by the white papers of CDNA 2, CDNA 3 and CDNA 4.
FLOPS = {
    "gfx90a": {"f16": 1024, "bf16": 1024, "i8": 1024, "f32": 256, "f64": 256},
    "gfx942": {"f16": 2048, "bf16": 2048, "f8": 4096, "i8": 4096, "f32": 256, "f64": 256},
    "gfx950": {"f16": 4096, "bf16": 4096, "f8": 8192, "i8": 8192, "f32": 256, "f64": 128},
}
PARTS = [(arch, part) for arch in FLOPS for _, part in AMD_GPUS[arch]]


@pytest.mark.parametrize(("arch", "part"), PARTS, ids=[part.name for _, part in PARTS])
def test_peaks_are_what_the_units_do(arch: str, part: GpuSpecs) -> None:
    for dtype, flops in FLOPS[arch].items():
        per_second = part.compute_units * flops * part.clock_mhz * 1e6
        assert part.peak_tflops[dtype] * 1e12 == pytest.approx(per_second, rel=2e-3), dtype


@pytest.mark.parametrize(
    ("name", "arch", "bytes_per_clock"),
    [
        ("MI250X", "gfx90a", 4096),  # of a GCD: 32 slices of 128 B
        ("MI210", "gfx90a", 4096),
        ("MI300X", "gfx942", 8 * 2048),  # 8 dies with 16 channels of 128 B
        ("MI300A", "gfx942", 6 * 2048),
        ("MI355X", "gfx950", 8 * 2048),
    ],
)
def test_l2_of_all_dies(name: str, arch: str, bytes_per_clock: int) -> None:
    target = target_of(arch, name)
    assert target is not None
    assert target.l2_bytes_per_clock == bytes_per_clock


def test_every_arch_with_rates_has_parts() -> None:
    assert all(target_names(arch) for arch in MEMORY_RATES)
    assert target_names("gfx942:xnack-")[0] == "MI325X"
    assert target_names("gfx1100") == ()
    assert target_of("gfx1100") is None
    with pytest.raises(
        ValueError, match="no part of gfx942 is called 'MI210': there are MI325X, MI300X, MI308X, MI300A"
    ):
        target_of("gfx942", "MI210")


def pair(
    unit: str, predicted: float, measured: float, shape: str = "s", bound: float | None = None
) -> MeasuredPrediction:
    return MeasuredPrediction(
        unit=unit, shape=shape, device="hip:0", predicted_us=predicted, measured_us=measured, bound_us=bound
    )


def test_without_pairs_there_is_nothing() -> None:
    assert calibrate(()) is None


def test_the_worst_comes_first_and_a_common_ratio_is_not_off() -> None:
    good, fair, bad = pair("good", 100, 120), pair("fair", 200, 240), pair("bad", 100, 480)
    found = calibrate((good, fair, bad))
    assert found is not None
    assert found.pairs == (bad, fair, good)
    assert found.ratio == pytest.approx(1.2)
    # 1, 1 and 4 times the common ratio
    assert found.off == pytest.approx(4 ** (1 / 3))


def test_too_slow_a_prediction_is_as_wrong_as_too_fast_a_one() -> None:
    found = calibrate((pair("slow", 100, 50), pair("fast", 100, 200), pair("right", 100, 100)))
    assert found is not None
    assert found.ratio == 1.0
    assert found.off == pytest.approx(2 ** (2 / 3))


@pytest.mark.parametrize(
    ("pairs", "order"),
    [
        ((pair("a", 1, 10), pair("b", 2, 20), pair("c", 3, 30)), 1.0),
        ((pair("a", 1, 30), pair("b", 2, 20), pair("c", 3, 10)), 0.0),
        ((pair("a", 1, 10), pair("b", 2, 30), pair("c", 3, 20)), 2 / 3),
        # a tie in the prediction puts nothing in order; one in the measurement asks nothing
        ((pair("a", 1, 10), pair("b", 1, 20)), 0.0),
        ((pair("a", 1, 10), pair("b", 2, 10)), None),
        ((pair("a", 1, 10), pair("b", 2, 20, shape="t")), None),
    ],
)
def test_orders(pairs: tuple[MeasuredPrediction, ...], order: float | None) -> None:
    found = calibrate(pairs)
    assert found is not None
    assert found.order == (None if order is None else pytest.approx(order))


def test_what_is_below_its_bound_stands_out() -> None:
    wrong = pair("wrong", 100, 80, bound=90)
    found = calibrate((wrong, pair("right", 100, 95, bound=90), pair("unknown", 100, 10)))
    assert found is not None
    assert found.below_bound == (wrong,)
