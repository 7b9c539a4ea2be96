"""`inspect` and `rank` print what the daemon answers. The figures are test data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ckwatch.analysis.report import CodeObjectReport, KernelReport, Resources
from ckwatch.cli import main
from ckwatch.wire.analysis import Analysis, PredictedRanking
from fake_engine import unit_of

UNIT = "gemm/m128@gfx942"
KERNEL = Resources(
    symbol="k", name="gemm<full>", vgprs=194, agprs=0, sgprs=50, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0,
    lds_bytes=32768, workgroup_size=256, wavefront_size=64, kernarg_bytes=120,
)  # fmt: skip


class FakeClient:
    """Answers as a daemon would; `asked` are the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

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
