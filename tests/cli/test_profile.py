"""`ckwatch profile`: what it asks, and what it prints of a profile."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.codeobject.profile_changes import changes_of
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.device_profiles import LineWeight
from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.model.profiles import KernelProfile
from ckwatch.wire.analysis import UnitDeviceProfile, UnitProfile
from cli.test_inspect import UNIT_INSPECTING, FakeClient
from codeobject.test_profile import figures, product_profile, profile_with

ROOT = Path(__file__).parents[2]


class ProfilingClient(FakeClient):
    """Answers with a profile of these kernels, compared with `before` if there is one."""

    root = ROOT

    def __init__(self, *kernels: KernelProfile, failure: str = "") -> None:
        super().__init__()
        self.kernels = kernels
        self.failure = failure
        self.before: tuple[KernelProfile, ...] = ()

    async def profile(
        self, unit: str, shape: str | None = None, *, lines: bool = True, against: str | None = None
    ) -> UnitProfile:
        self.asked.append(("profile", unit, shape, lines))
        return UnitProfile(
            unit=unit,
            artifact_key="abc",
            device="emulated:gfx942",
            shape="M=64 N=64",
            shape_name="small",
            kernels=self.kernels,
            hints=hints_of(self.kernels),
            failure=self.failure,
            against=against or "" if self.before else "",
            changes=changes_of(self.before, self.kernels) if self.before else (),
        )


def test_a_unit_is_built_and_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    client = ProfilingClient(product_profile())
    assert client.run("profile", UNIT_INSPECTING, "--shape", "small", "--no-lines", "--top", "2") == 0
    assert client.asked[-2:] == [("build", UNIT_INSPECTING), ("profile", UNIT_INSPECTING, "small", False)]
    title, _, name, executed, note, head, *rows = capsys.readouterr().out.splitlines()
    assert title == (
        f"{UNIT_INSPECTING}, small (M=64 N=64), counted (emulated gfx942): "
        "counts are exact for what was executed, and no times"
    )
    assert name.strip() == product_profile().name
    assert executed.endswith("instructions of 2 of 16 workgroups")
    assert note.endswith("have no source line")
    assert head.split()[:2] == ["share", "issued"]
    assert rows[0].split()[-2] == "tests/data/isa/templates/product.hip.j2:18"
    assert rows[2].endswith("more; --top shows them")


@pytest.mark.parametrize(
    ("by", "expected"), [("instruction", "v_mfma"), ("loop", "the main loop"), ("function", "product")]
)
def test_other_lists(by: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ProfilingClient(product_profile()).run("profile", UNIT_INSPECTING, "--by", by, "--top", "1000") == 0
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("by", ["line", "instruction", "function"])
def test_estimated_cycles_rank(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = ProfilingClient(product_profile(estimated=True))
    assert client.run("profile", UNIT_INSPECTING, "--by", by, "--top", "1000") == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(number for number, line in enumerate(lines) if "cycles (estimate)" in line)
    assert "  cycles are an estimate: of waves, with 2 on a SIMD at a time" in lines[:head]
    end = lines[head].index("cycles (estimate)") + len("cycles (estimate)")
    shares = [float(line[:end].removesuffix(" %").split()[-1]) for line in lines[head + 1 :] if line.strip()]
    templates = [share for share, line in zip(shares, lines[head + 1 :], strict=False) if ".hip.j2" in line]
    ranked = templates if by == "line" else shares
    assert len(ranked) > 1
    assert ranked == sorted(ranked, reverse=True)


def test_what_a_line_waits_for_is_said_with_its_part(capsys: pytest.CaptureFixture[str]) -> None:
    client = ProfilingClient(product_profile(estimated=True))
    assert client.run("profile", UNIT_INSPECTING, "--by", "instruction", "--top", "1000") == 0
    waits = [line for line in capsys.readouterr().out.splitlines() if ": s_waitcnt" in line]
    assert waits
    assert all(" load of " in line and " % " in line.partition(" load of ")[2] for line in waits)


def test_what_is_lost_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    column = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
    assert ProfilingClient(profile_with(figures(), column)).run("profile", UNIT_INSPECTING) == 0
    assert "  /w/k.hip.j2:2: 32-way LDS conflict: " in capsys.readouterr().out


def test_a_launch_that_failed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    client = ProfilingClient(product_profile(), failure="it does not end")
    assert client.run("profile", UNIT_INSPECTING) == 0
    assert "the launch did not end as it should: it does not end" in capsys.readouterr().out


def test_files_of_other_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = product_profile()
    small = replace(large, name="small", total=replace(large.total, counts=InstructionCounts(1, 1)))
    files = ("--speedscope", str(tmp_path / "s.json"), "--pprof", str(tmp_path / "p.pb.gz"))
    assert ProfilingClient(small, large).run("profile", UNIT_INSPECTING, *files) == 0
    assert large.name in json.loads((tmp_path / "s.json").read_bytes())["profiles"][0]["name"]
    assert b"product" in gzip.decompress((tmp_path / "p.pb.gz").read_bytes())
    capsys.readouterr()
    assert ProfilingClient().run("profile", UNIT_INSPECTING, *files) == 2
    assert "has no kernel to write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("against", "shown"),
    [(UNIT_INSPECTING, UNIT_INSPECTING), ("previous", "the previous build"), ("baseline", "the baseline")],
)
def test_another_profile_is_compared(against: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    column = figures(issued=10, lanes=640, accesses=10, turns=320, phases=20, fullest=16)
    row = figures(issued=10, lanes=640, accesses=10, turns=20, phases=20, fullest=1)
    client = ProfilingClient(profile_with(figures(), column))
    client.before = (profile_with(figures(), row),)
    assert client.run("profile", UNIT_INSPECTING, "--against", against) == 0
    *_, title, change = capsys.readouterr().out.splitlines()
    assert title == f"  against {shown}"
    assert change == "    /w/k.hip.j2:2: LDS conflict 1 → 16 ways"


def test_where_no_earlier_profile_is_kept_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert ProfilingClient(profile_with(figures())).run("profile", UNIT_INSPECTING, "--against", "previous") == 0
    assert "against the previous build: it was not profiled" in capsys.readouterr().out.splitlines()[-1]


class SamplingClient(ProfilingClient):
    """Answers with a profile of a device."""

    async def profile_on_device(self, unit: str, device: str, shape: str | None = None) -> UnitDeviceProfile:
        self.asked.append(("profile_on_device", unit, device, shape))
        line = LineWeight(
            path=f"{ROOT}/k.cu.j2",
            line=2,
            weight=8,
            issued=2,
            executed=4096,
            stalls={"memory": 5, "barrier": 1},
            instructions=1,
        )
        return UnitDeviceProfile(
            unit=unit,
            artifact_key="abc",
            source=f"ncu, {device}",
            device="NVIDIA H200",
            method="warp sampling (ncu)",
            weighed_by="samples",
            shape_name="small",
            total=8,
            lines=(line,),
            executed=self.kernels,
            hints=hints_of(self.kernels),
        )


def test_a_unit_is_profiled_on_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    column = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
    client = SamplingClient(profile_with(figures(), column))
    assert client.run("profile", UNIT_INSPECTING, "--device", "cuda:0", "--shape", "small") == 0
    assert client.asked[-2:] == [("build", UNIT_INSPECTING), ("profile_on_device", UNIT_INSPECTING, "cuda:0", "small")]
    title, head, line, _, hint = capsys.readouterr().out.splitlines()
    assert title == (
        f"{UNIT_INSPECTING}, small, on a device (ncu, cuda:0): warp sampling (ncu) on NVIDIA H200, 8 samples"
    )
    assert head.split() == ["share", "samples", "issued", "executed", "otherwise"]
    assert line.split() == ["100.0", "%", "8", "2", "4,096", "5", "memory,", "1", "barrier", "k.cu.j2:3"]
    assert hint.startswith("  /w/k.hip.j2:2: 32-way LDS conflict: ")


def test_what_is_counted_alone_is_refused_for_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--by", "loop"), ("--against", "previous"), ("--no-lines",)):
        assert SamplingClient().run("profile", UNIT_INSPECTING, "--device", "hip:0", *words) == 2
        assert f"{words[0]} is for counted profiles, without --device" in capsys.readouterr().err
