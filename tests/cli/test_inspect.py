"""The figures of a code object, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ckwatch.cli import main
from ckwatch.cli.inspect import (
    calibration_lines,
    calibration_report,
    inspect_lines,
    inspected_unit,
    rank_lines,
    ranked_predictions,
    with_rate,
)
from ckwatch.cli.kernel_figures import WAITS_SHOWN, Line, loop_words
from ckwatch.cli.output import to_plain
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, KernelResources
from ckwatch.model.amounts import size
from ckwatch.model.isa import IsaFold, IsaLine
from ckwatch.prediction.predict import (
    MeasuredPrediction,
    Prediction,
    PredictionTarget,
    calibrate,
    predict,
    target_of,
)
from ckwatch.prediction.ranking import RankingCandidate, rank
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, PredictedRanking, ShapePrediction
from ckwatch.wire.encoding import adapter
from fakes.fake_engine import unit_of
from helpers.kernel_reports import TILE_128, kernel, loop, problem, report

UNIT = "gemm_f16/v3_128x128x64_intrawave@gfx942"


def mi300x() -> PredictionTarget:
    found = target_of("gfx942", "MI300X")
    assert found is not None
    return found


def predicted(found: CodeObjectReport) -> Prediction:
    return predict(found, {**TILE_128}, problem(4096, 4096, 4096), mi300x())


def analysis(found: CodeObjectReport, **more: Any) -> Analysis:
    values: dict[str, Any] = {"unit": UNIT, "artifact_key": "", "fresh": True, "report": found}
    return Analysis(**values | more)


def values(printed: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(printed, default=to_plain))
    return found


def text_of(lines: list[Line]) -> str:
    return "\n".join(text for text, _ in lines)


def test_a_kernel_as_text() -> None:
    found = inspect_lines(analysis(report(kernel()), artifact_key="0123456789abcdef"))
    assert (
        text_of(found)
        == """\
gemm_f16/v3_128x128x64_intrawave@gfx942, artifact 0123456789ab

  gemm_universal<true, Full>
    registers  189 VGPR, 33 SGPR
    spills     none
    memory     32 KiB LDS, no scratch, 168 B of arguments
    workgroup  at most 256 threads, in waves of 64
    occupancy  2 waves per SIMD, limited by VGPR (each alone: VGPR 2, LDS 2, waves 8)
               2 workgroups of 256 threads per CU
               21 VGPR fewer → 3 waves
    main loop  95 instructions: 32 mfma, 20 wait, 16 lds read, 10 valu, 8 lds write, 8 global load, 1 branch
               each wave, each time: 16 KiB read from LDS, 8 KiB written to LDS, 8 KiB loaded, 524288 FLOP, 64.0 per byte of global memory
               predicted by llvm-mca: 1080 clocks, matrix units 95 % busy (one wave alone; no caches, no latency of memory)"""
    )


def test_what_is_not_known_is_said() -> None:
    bare = kernel(
        waves=None, with_loop=None, notes=("no back edge with matrix instructions",), agprs=128, vgpr_spills=3,
        sgpr_spills=1, scratch_bytes=12, dynamic_stack=True,
    )  # fmt: skip
    found = text_of(inspect_lines(analysis(report(bare, notes=("stripped",)))))
    for expected in (
        "  stripped",
        "189 VGPR, 128 AGPR, 33 SGPR",
        "spills     3 VGPR and 1 SGPR",
        "12 B scratch per lane, dynamic stack",
        "occupancy  not known",
        "note       no back edge with matrix instructions",
        "warning: 3 VGPRs and 1 SGPR spilled (12 B of scratch per lane) (gemm_universal<true, Full>)",
    ):
        assert expected in found
    assert "main loop" not in found
    assert text_of(inspect_lines(analysis(report()))) == f"{UNIT}\n  no kernels"


def test_loop_words() -> None:
    assert "nothing" in loop_words(loop(clocks=None))
    assert "matrix" not in loop_words(loop(matrix_use=None))


def test_waits_and_hints_have_lines_of_their_own() -> None:
    busy = loop(waits=("vmcnt(0) before the barrier", "lgkmcnt(0) 4 times"), hints=("rows are 128 bytes apart",))
    found = text_of(inspect_lines(analysis(report(kernel(with_loop=busy)))))
    assert (
        "    waits      vmcnt(0) before the barrier\n               lgkmcnt(0) 4 times\n    hint       rows are"
        in found
    )


def test_of_many_waits_the_first_are_shown() -> None:
    many = loop(waits=tuple(f"+{at} vmcnt(0)" for at in range(WAITS_SHOWN + 3)))
    found = text_of(inspect_lines(analysis(report(kernel(with_loop=many)))))
    assert f"+{WAITS_SHOWN - 1} vmcnt(0)\n               and 3 more" in found
    assert f"+{WAITS_SHOWN} vmcnt" not in found
    one_more = loop(waits=tuple(f"+{at} vmcnt(0)" for at in range(WAITS_SHOWN + 1)))
    found = text_of(inspect_lines(analysis(report(kernel(with_loop=one_more)))))
    assert f"+{WAITS_SHOWN} vmcnt(0)" in found


def test_an_iteration_without_loads_waits_for_none() -> None:
    code = report(kernel(with_loop=loop(global_load_bytes=0)))
    for expected, found in ((False, code), (True, report(kernel()))):
        shapes = (ShapePrediction(shape="4096", prediction=predicted(found)),)
        text = text_of(inspect_lines(analysis(found, shapes=shapes)))
        assert ("      an iteration takes 975 ns: loads that come later" in text) == expected
        assert ("iteration takes" in text) == expected


def test_changes_against_each_earlier_artifact() -> None:
    earlier = {"previous": report(kernel(waves=3)), "baseline": report(kernel()), "baseline_name": "main"}
    found = inspect_lines(analysis(report(kernel()), **earlier))
    assert ("    against previous: occupancy 3 → 2", "yellow") in found
    assert ("    against baseline main: the same", "") in found
    assert any(text.startswith("  warning: occupancy 3 → 2") for text, _ in found)
    assert ("    against previous: new", "") in inspect_lines(analysis(report(kernel()), previous=report()))


def test_too_much_lds_is_a_warning() -> None:
    found = inspect_lines(analysis(report(kernel()), lds_limit_bytes=16384))
    assert found[-1][0].startswith("  warning: 32768 B of LDS")


def test_prediction_and_measurement_stand_together() -> None:
    code = report(kernel(waves=1))
    shapes = (
        ShapePrediction(shape="4096", prediction=predicted(code), measured_us=263.3, device="hip:0"),
        ShapePrediction(shape="unknown", prediction=predict(report(), {}, problem(64, 64, 64), mi300x())),
    )
    found = text_of(inspect_lines(analysis(code, shapes=shapes)))
    assert "  predicted for MI300X, not measured\n" in found
    assert (
        "    4096, cold     roofline 105.1 µs  at best 124.8 µs (1101 TFLOP/s)  predicted 131.7 µs (1044 TFLOP/s)"
        "  no record  limited by main loop  measured 263.3 µs on hip:0 (2.00 × predicted)\n"
        "      the main loop keeps the matrix units 95 % busy\n      wave quantization: 1024 workgroups"
    ) in found
    assert "      the parameters do not say the tile" in found
    assert found.endswith("latencies, launch, prologue and epilogue")
    assert "not modeled: bank conflicts" in found


def test_json_is_json_and_says_what_is_predicted() -> None:
    code = report(kernel(waves=1))
    shapes = (ShapePrediction(shape="4096", prediction=predicted(code), measured_us=263.3, device="hip:0"),)
    previous = report(kernel(waves=3, sgprs=34), kernel(symbol="gone", name="gone"))
    found = analysis(code, artifact_key="ab", shapes=shapes, previous=previous)
    read: dict[str, Any] = values(inspected_unit(found))
    assert read["kernels"][0]["resources"]["vgprs"] == 189
    assert read["kernels"][0]["loop"]["intensity"] == 64.0
    assert read["kernels"][0]["occupancy"]["by"] == {"VGPR": 1, "LDS": 2, "waves": 8}
    assert read["shapes"][0]["prediction"]["predicted"] is True
    assert read["shapes"][0]["prediction"]["terms"]["main loop"] == pytest.approx(131.66, rel=1e-3)
    assert read["shapes"][0]["measured_us"] == 263.3
    first, gone = read["changes"]["previous"]
    assert [each["name"] for each in first["changes"]] == ["SGPR", "occupancy"]
    assert (gone["kernel"], gone["before"], gone["changes"]) == (None, "gone", [])
    assert read["warnings"][0]["code"] == "performance/occupancy"
    assert len(read["left_out"]) == 3


def test_json_of_a_kernel_without_a_loop() -> None:
    read = values(inspected_unit(analysis(report(kernel(with_loop=None)))))
    assert read["kernels"][0]["loop"] is None
    assert read["shapes"] == []


def ranking(**measured: float) -> PredictedRanking:
    entries = (
        RankingCandidate(name="alone", parameters={**TILE_128}, report=report(kernel(waves=1))),
        RankingCandidate(name="full", parameters={**TILE_128}, report=report(kernel())),
        RankingCandidate(name="broken", parameters={**TILE_128}, why_not="it does not compile"),
    )
    rows = rank(entries, problem(4096, 4096, 4096), mi300x())
    return PredictedRanking(
        kernel="gemm_f16", shape="4096", arch="gfx942", part="MI300X", cache="cold", rows=rows, measured_us=measured
    )


def test_a_ranking_as_text() -> None:
    assert (
        text_of(rank_lines(ranking()))
        == """\
gemm_f16, 4096, gfx942: predicted for MI300X, cold cache, not measured
     instance  predicted    80 % in     ×  TFLOP/s   at best  limited by
  1  full       124.8 µs  no record  1.00     1101  124.8 µs  matrix units
      the matrix units are busy all the time; wave quantization: 1024 workgroups on 304 CUs fill them 3 times and leave 112 for the end, 84 % of the SIMDs' time used
  2  alone      131.7 µs  no record  1.05     1044  124.8 µs  main loop
      matrix use of the loop 95 % against 100 %
  no record: no public measurements of such kernels on this part are known
  no prediction:
    broken  at best 124.8 µs  it does not compile
  not modeled: bank conflicts and broadcasts of the LDS, spills before a compile, and TLB misses; what the data do to power and clocks, and what else the device does; where only a loop is known (no CK or CK Tile parameters): latencies, launch, prologue and epilogue"""
    )


def test_a_ranking_shows_measurements_that_there_are() -> None:
    found = text_of(rank_lines(ranking(alone=200.0)))
    assert "limited by    measured\n" in found
    assert "main loop     200.0 µs\n" in found


def test_an_empty_ranking() -> None:
    empty = PredictedRanking(kernel="k", shape="s", arch="gfx942", part="MI300X", cache="cold", rows=(), measured_us={})
    assert text_of(rank_lines(empty)).endswith("  it has no instances")


def test_a_ranking_as_json() -> None:
    read: dict[str, Any] = values(ranked_predictions(ranking(alone=200.0)))
    assert [(row["instance"], row["place"]) for row in read["ranked"]] == [("full", 1), ("alone", 2), ("broken", None)]
    assert [row["measured_us"] for row in read["ranked"]] == [None, 200.0, None]
    assert read["predicted"] is True
    assert read["ranked"][2]["because"] == "it does not compile"


@pytest.mark.parametrize(
    ("slices", "learned", "expected"),
    [
        (
            ("a8w8_bpreshuffle, MI308X, f8",) * 2,
            True,
            "record on a8w8_bpreshuffle, MI308X, f8, before a compile, none of",
        ),
        (("bf16_batched, MI300X, bf16",) * 2, False, "record on bf16_batched, MI300X, bf16, before a compile: right"),
        (
            ("a8w8_rowwise, MI325X, i8",) * 2,
            True,
            "record on a8w8_rowwise, another part or dtype than the fit had seen, before a compile, none of",
        ),
        (
            ("gemm_universal_cktile, MI355X, f16",) * 2,
            False,
            "record on gemm_universal_cktile, MI355X, f16, before a compile: times off by 26 % in the median",
        ),
        (("gemm_universal_cktile, MI300X, f16",) * 2, False, "no record"),
        (("a8w8_rowwise, MI355X, i8", ""), True, "no record"),
        (("", ""), False, "no record"),
    ],
)
def test_a_record_is_of_the_kernels_types_and_part(slices: Sequence[str], learned: bool, expected: str) -> None:
    found = ranking()
    rows = [
        replace(row, prediction=replace(row.prediction, slice=name, learned=learned, formula_us=1.0))
        for row, name in zip(found.rows, slices, strict=False)
    ]
    found = replace(found, rows=tuple(rows))
    lines = [line.strip() for line in text_of(rank_lines(found)).splitlines()]
    assert [line for line in lines if line.startswith(expected)], lines
    assert ("by formulas alone" in lines) is not learned
    read: dict[str, Any] = values(ranked_predictions(found))
    assert (read["record"] is None) is (expected == "no record")
    assert bool(read["learned_from"]) is learned


def test_calibration_as_text() -> None:
    pairs = (
        MeasuredPrediction(
            unit="k/a@gfx942", shape="4096", device="hip:0", predicted_us=100.0, measured_us=120.0, bound_us=90.0
        ),
        MeasuredPrediction(
            unit="k/b@gfx942", shape="4096", device="hip:0", predicted_us=130.0, measured_us=60.0, bound_us=90.0
        ),
    )
    assert (
        text_of(calibration_lines(calibrate(pairs)))
        == """\
2 predictions: measured 0.83 × predicted (median), each off by 61 % from that (geometric mean); 0 % of pairs in the right order
  0.46 ×  k/b@gfx942  4096  hip:0  predicted 130.0 µs  measured 60.00 µs  below its bound: one of them is wrong
  1.20 ×  k/a@gfx942  4096  hip:0  predicted 100.0 µs  measured 120.0 µs"""
    )
    read: dict[str, Any] = values(calibration_report(Calibrated(calibration=calibrate(pairs))))
    assert [pair["ratio"] for pair in read["pairs"]] == pytest.approx([60 / 130, 1.2])
    assert len(read["below_bound"]) == 1


def test_without_measurements_there_is_no_calibration() -> None:
    assert "ckwatch bench" in text_of(calibration_lines(None))
    assert values(calibration_report(Calibrated()))["pairs"] == []


@pytest.mark.parametrize(
    ("size_bytes", "expected"), [(0, "0 B"), (1000, "1000 B"), (1024, "1 KiB"), (163840, "160 KiB")]
)
def test_sizes(size_bytes: int, expected: str) -> None:
    assert size(size_bytes) == expected


@pytest.mark.parametrize(
    ("time_us", "tflops", "expected"),
    [(105.12, 1307.4, "105.1 µs (1307 TFLOP/s)"), (10.0, 1.234, "10.00 µs (1.23 TFLOP/s)"), (10.0, None, "10.00 µs")],
)
def test_rates(time_us: float, tflops: float | None, expected: str) -> None:
    assert with_rate(time_us, tflops) == expected


UNIT_INSPECTING = "gemm/m128@gfx942"
KERNEL = KernelResources(
    symbol="k", name="gemm<full>", vgprs=194, agprs=0, sgprs=50, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0,
    lds_bytes=32768, workgroup_size=256, wavefront_size=64, kernarg_bytes=120,
)  # fmt: skip


LISTING = Isa(
    unit=UNIT_INSPECTING, artifact_key="abc", fresh=True, kernel="gemm<full>", kernels=("gemm<full>", "gemm<tail>"),
    text="""\
; gemm<full>: 3 instructions
;   1 of 3 instructions have no source line
; ▾ 1 instruction: 1 salu
  000100  s_mov_b32 s0, s1
; ▾ main loop L1, 1 instruction: 1 branch
    L1:
    000104  s_cbranch_scc1 L1
; ▾ 1 instruction: 1 other
  000108  s_endpgm  ; end
""",
    lines=(IsaLine(line=3, mnemonic="s_mov_b32", rendered=7),),
    folds=(
        IsaFold(start=0, end=8, kind="function", label="gemm<full>"),
        IsaFold(start=2, end=3, kind="block", label="a"),
        IsaFold(start=4, end=6, kind="loop", label="b", main=True),
        IsaFold(start=7, end=8, kind="block", label="c"),
    ),
    mnemonics={"s_mov_b32": "scalar: D = A"}, has_lines=True,
    notes=("no llvm-symbolizer", "1 of 3 instructions have no source line"),
)  # fmt: skip


class FakeClient:
    """Answers as a daemon would; `asked` are the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.calibrated = Calibrated()
        self.fresh = True

    @asynccontextmanager
    async def connected(self, *_: Any) -> AsyncIterator[FakeClient]:
        """As `ckwatch.cli.session.connected`."""
        yield self

    def run(self, *words: str) -> int:
        """Run a command that connects to this client, and return its exit status."""
        return main(words, connected=self.connected)

    async def units(self, *_patterns: str) -> list[Any]:
        return [unit_of(UNIT_INSPECTING)]

    async def sync(self) -> None:
        self.asked.append(("sync",))

    async def build(self, *patterns: str, lines: bool = False) -> None:
        self.asked.append(("build", *patterns, *(["lines"] if lines else [])))

    async def analysis(self, unit: str) -> Analysis:
        self.asked.append(("analysis", unit))
        report = CodeObjectReport(arch="gfx942", kernels=(KernelReport(resources=KERNEL, occupancy=None),))
        return Analysis(unit=unit, artifact_key="abc", fresh=self.fresh, report=report)

    async def isa(self, unit: str, kernel: str | None = None, *, lines: bool = True) -> Isa:
        self.asked.append(("isa", unit, kernel, lines))
        return LISTING

    async def calibration(self) -> Calibrated:
        self.asked.append(("calibration",))
        return self.calibrated

    async def predicted(self, kernel: str, shape: str | None, *, arch: str | None, part: str) -> PredictedRanking:
        self.asked.append(("predicted", kernel, shape, arch, part))
        return PredictedRanking(
            kernel=kernel, shape=shape or "first", arch="gfx942", part="MI300X", cache="cold", rows=(), measured_us={}
        )


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def test_a_unit_is_built_and_inspected(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", UNIT_INSPECTING) == 0
    assert client.asked == [("sync",), ("build", UNIT_INSPECTING), ("analysis", UNIT_INSPECTING)]
    printed = capsys.readouterr().out
    assert "gemm<full>" in printed
    assert "194 VGPR" in printed


def test_figures_of_an_earlier_input_are_called_that(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    client.fresh = False
    assert client.run("inspect", UNIT_INSPECTING) == 0
    assert capsys.readouterr().out.startswith(f"{UNIT_INSPECTING}, artifact abc, of an earlier input\n")
    assert client.run("inspect", UNIT_INSPECTING, "--json") == 0
    assert json.loads(capsys.readouterr().out)["fresh"] is False


def test_as_json(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", UNIT_INSPECTING, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["fresh"], found["kernels"][0]["resources"]["vgprs"]) == (UNIT_INSPECTING, True, 194)


def test_a_ranking_names_part_and_shape(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("rank", "gemm", "--shape", "4096", "--arch", "gfx942", "--part", "MI300X") == 0
    assert client.asked == [("sync",), ("predicted", "gemm", "4096", "gfx942", "MI300X")]
    assert "predicted for MI300X" in capsys.readouterr().out


def test_without_a_shape_the_daemon_takes_the_first(client: FakeClient) -> None:
    assert client.run("rank", "gemm") == 0
    assert client.asked == [("sync",), ("predicted", "gemm", None, None, "")]


def test_a_kernel_of_a_file_is_not_one_of_the_workspace(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("rank", "gemm", "--kernel", "other") == 2
    assert "--kernel is for a file with code objects" in capsys.readouterr().err


def test_the_instructions_with_the_main_loop_open(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", UNIT_INSPECTING, "--isa") == 0
    assert client.asked == [("sync",), ("build", UNIT_INSPECTING, "lines"), ("isa", UNIT_INSPECTING, None, True)]
    assert (
        capsys.readouterr().out
        == """\
gemm/m128@gfx942, artifact abc
  no llvm-symbolizer
  one of 2 kernels; --kernel NAME shows another:
    gemm<tail>
; gemm<full>: 3 instructions
;   1 of 3 instructions have no source line
; ▸ 1 instruction: 1 salu
; ▾ main loop L1, 1 instruction: 1 branch
    L1:
    000104  s_cbranch_scc1 L1
; ▸ 1 instruction: 1 other
"""
    )


def test_all_instructions_of_another_kernel(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", UNIT_INSPECTING, "--kernel", "gemm<tail>", "--whole", "--no-lines") == 0
    assert client.asked[2:] == [("isa", UNIT_INSPECTING, "gemm<tail>", False)]
    printed = capsys.readouterr().out
    assert printed.endswith(LISTING.text)


def test_instructions_as_json(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", UNIT_INSPECTING, "--isa", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("schema") == 1
    assert adapter(Isa).validate_python(found) == LISTING


def test_no_calibration_without_timings(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.run("inspect", "--calibration") == 0
    assert client.asked == [("sync",), ("calibration",)]
    assert capsys.readouterr().out == (
        "no fresh timing has a prediction to compare it with; `ckwatch bench` takes timings\n"
    )


def test_a_calibration(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    pair = MeasuredPrediction(
        unit=UNIT_INSPECTING,
        shape="4096",
        device="hip:0 (a made-up MI300X)",
        predicted_us=100.0,
        measured_us=130.0,
        bound_us=90.0,
    )
    client.calibrated = Calibrated(calibration=calibrate([pair]), timed=2, notes=("no predictions for gfx1100",))
    assert client.run("inspect", "--calibration") == 0
    printed = capsys.readouterr().out
    assert "1 prediction: measured 1.30 × predicted" in printed
    assert "hip:0 (a made-up MI300X)" in printed
    assert printed.endswith("  no predictions for gfx1100\n")
    assert client.run("inspect", "--calibration", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ratio"], found["timed"], found["pairs"][0]["measured_us"]) == (1.3, 2, 130.0)


def test_timings_that_none_was_predicted_for(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    client.calibrated = Calibrated(timed=1, notes=("no predictions for a made-up part (gfx1100)",))
    assert client.run("inspect", "--calibration") == 0
    assert capsys.readouterr().out == (
        "1 fresh timing, none of them on a device that predictions know\n"
        "  no predictions for a made-up part (gfx1100)\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect"], "no unit is given"),
        (["inspect", "--isa"], "no unit is given"),
        (["inspect", UNIT_INSPECTING, "--calibration"], "--calibration covers all units"),
        (["inspect", "--isa", "--calibration"], "--calibration covers all units"),
    ],
)
def test_options_that_do_not_go_together(
    client: FakeClient, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert client.run(*words) == 2
    assert message in capsys.readouterr().err
    assert client.asked == []
