"""`inspect` and `rank` print what the daemon answers. The figures are test data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ckwatch.analysis.calibration import Pair, calibrate
from ckwatch.analysis.report import CodeObjectReport, KernelReport, Resources
from ckwatch.cli import main
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, IsaFold, IsaLine, PredictedRanking
from fake_engine import unit_of

UNIT = "gemm/m128@gfx942"
KERNEL = Resources(
    symbol="k", name="gemm<full>", vgprs=194, agprs=0, sgprs=50, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0,
    lds_bytes=32768, workgroup_size=256, wavefront_size=64, kernarg_bytes=120,
)  # fmt: skip


LISTING = Isa(
    unit=UNIT, artifact_key="abc", fresh=True, kernel="gemm<full>", kernels=("gemm<full>", "gemm<tail>"),
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

    async def units(self, *_patterns: str) -> list[Any]:
        return [unit_of(UNIT)]

    async def sync(self) -> None:
        pass

    async def build(self, *patterns: str) -> None:
        self.asked.append(("build", *patterns))

    async def analysis(self, unit: str) -> Analysis:
        self.asked.append(("analysis", unit))
        report = CodeObjectReport(arch="gfx942", kernels=(KernelReport(resources=KERNEL, occupancy=None),))
        return Analysis(unit=unit, artifact_key="abc", fresh=True, report=report)

    async def isa(self, unit: str, kernel: str | None = None, *, lines: bool = True) -> Isa:
        self.asked.append(("isa", unit, kernel, lines))
        return LISTING

    async def calibration(self) -> Calibrated:
        self.asked.append(("calibration",))
        return self.calibrated

    async def predicted(self, kernel: str, shape: str, *, arch: str | None, part: str) -> PredictedRanking:
        self.asked.append(("predicted", kernel, shape, arch, part))
        return PredictedRanking(
            kernel=kernel, shape=shape, arch="gfx942", part="MI300X", cache="cold", rows=(), measured_us={}
        )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    @asynccontextmanager
    async def asking(*_: Any) -> AsyncIterator[FakeClient]:
        yield fake

    monkeypatch.setattr("ckwatch.cli.inspecting.asking", asking)
    return fake


def test_a_unit_is_built_and_inspected(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", UNIT]) == 0
    assert client.asked == [("build", UNIT), ("analysis", UNIT)]
    printed = capsys.readouterr().out
    assert "gemm<full>" in printed
    assert "194 VGPR" in printed


def test_as_json(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", UNIT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["fresh"], found["kernels"][0]["resources"]["vgprs"]) == (UNIT, True, 194)


def test_a_ranking_names_part_and_shape(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank", "gemm", "--shape", "4096", "--arch", "gfx942", "--part", "MI300X"]) == 0
    assert client.asked == [("predicted", "gemm", "4096", "gfx942", "MI300X")]
    assert "predicted for MI300X" in capsys.readouterr().out


def test_a_ranking_needs_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rank", "gemm"])
    assert "--shape" in capsys.readouterr().err


def test_the_instructions_with_the_main_loop_open(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", UNIT, "--isa"]) == 0
    assert client.asked == [("build", UNIT), ("isa", UNIT, None, True)]
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
    assert main(["inspect", UNIT, "--kernel", "gemm<tail>", "--whole", "--no-lines"]) == 0
    assert client.asked[1:] == [("isa", UNIT, "gemm<tail>", False)]
    printed = capsys.readouterr().out
    assert printed.endswith(LISTING.text)


def test_instructions_as_json(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", UNIT, "--isa", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("schema") == 1
    assert Isa.model_validate(found) == LISTING


def test_no_calibration_without_timings(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--calibration"]) == 0
    assert client.asked == [("calibration",)]
    assert capsys.readouterr().out == (
        "no fresh timing has a prediction to compare it with; `ckwatch bench` takes timings\n"
    )


def test_a_calibration(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(
        unit=UNIT, shape="4096", device="hip:0 (a made-up MI300X)", predicted_us=100.0, measured_us=130.0, bound_us=90.0
    )
    client.calibrated = Calibrated(calibration=calibrate([pair]), timed=2, notes=("no predictions for gfx1100",))
    assert main(["inspect", "--calibration"]) == 0
    printed = capsys.readouterr().out
    assert "1 prediction: measured 1.30 × predicted" in printed
    assert "hip:0 (a made-up MI300X)" in printed
    assert printed.endswith("  no predictions for gfx1100\n")
    assert main(["inspect", "--calibration", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ratio"], found["timed"], found["pairs"][0]["measured_us"]) == (1.3, 2, 130.0)


def test_timings_that_none_was_predicted_for(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    client.calibrated = Calibrated(timed=1, notes=("no predictions for a made-up part (gfx1100)",))
    assert main(["inspect", "--calibration"]) == 0
    assert capsys.readouterr().out == (
        "1 fresh timing, none of them on a device that predictions know\n"
        "  no predictions for a made-up part (gfx1100)\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect"], "which unit?"),
        (["inspect", "--isa"], "which unit?"),
        (["inspect", UNIT, "--calibration"], "--calibration is of all units"),
        (["inspect", "--isa", "--calibration"], "--calibration is of all units"),
    ],
)
def test_options_that_do_not_go_together(
    client: FakeClient, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert client.asked == []
