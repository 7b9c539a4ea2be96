"""`ckwatch import profile`: what is printed of real files and of a unit's, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.model.device_profiles import LineWeight, MeasuredKernel
from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.wire.analysis import UnitDeviceProfile
from cli.test_inspect import UNIT_INSPECTING
from cli.test_profile import ProfilingClient
from codeobject.test_profile import figures, profile_with

PROFILES = Path(__file__).parents[2] / "data" / "profiles"


def test_lines_of_a_real_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "profile", str(PROFILES / "pc_sampling_stochastic_debug.csv"), "--top", "1"]) == 0
    title, head, first, more = capsys.readouterr().out.splitlines()
    assert title.endswith("pc_sampling_stochastic_debug.csv: PC sampling, stochastic, 97 samples")
    assert head.split() == ["share", "samples", "issued", "otherwise"]
    assert first.split()[:7] == ["23.7", "%", "23", "1", "21", "waitcnt,", "1"]
    assert first.endswith("vector-ops.cpp:82")
    assert more == "  and 13 more; --top shows them"


def test_several_files_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(PROFILES / f"pc_sampling_host_trap{kind}.csv") for kind in ("", "_debug")]
    assert main(["import", "profile", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profiles"]
    assert [(Path(one["source"]).name, one["total"]) for one in found] == [
        ("pc_sampling_host_trap.csv", 79),
        ("pc_sampling_host_trap_debug.csv", 21),
    ]
    assert found[0]["lines"][0]["line"] is None


@pytest.mark.parametrize(
    ("name", "why"), [("none.csv", "cannot read"), ("text.csv", "is not a profile: it has no column")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str) -> None:
    (tmp_path / "text.csv").write_text("a,b\n")
    assert main(["import", "profile", str(tmp_path / name)]) == 2
    assert why in capsys.readouterr().err


CONFLICTS = "SQ_LDS_BANK_CONFLICT"


class ImportingClient(ProfilingClient):
    """Answers with a profile of two launches, whose counters are what an emulator counts: 31 turns too many for each of
    ten accesses."""

    def __init__(self) -> None:
        column = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
        super().__init__(profile_with(column))

    async def import_profile(self, unit: str, path: str) -> UnitDeviceProfile:
        self.asked.append(("import_profile", unit, path))
        (kernel,) = self.kernels
        line = LineWeight(
            path=f"{self.root}/k.hip.j2", line=3, weight=4, issued=1, executed=0, stalls={"waitcnt": 3}, instructions=1
        )
        measured = MeasuredKernel(
            name=f"{kernel.name}.kd",
            launches=2,
            time_ns=3000,
            counters={CONFLICTS: 2480.0, "SQ_WAVES": 5.0},
            counted={CONFLICTS: 2, "SQ_WAVES": 2},
        )
        return UnitDeviceProfile(
            unit=unit,
            artifact_key="abc",
            source="results.db",
            device="AMD Instinct MI300X",
            method="counters",
            weighed_by="samples",
            shape_name="",
            total=4,
            lines=(line,),
            kernels=(measured,),
            other_build="1 of 4 samples are of instructions that the present build lacks",
        )


def test_counters_stand_beside_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    client = ImportingClient()
    (kernel,) = client.kernels
    counts = InstructionCounts(10, 640, accesses=10, turns=640, phases=20, fullest=32)
    assert kernel.total.counts == counts
    assert client.run("import", "profile", "/w/results.db", "--unit", UNIT_INSPECTING, "--shape", "small") == 0
    assert client.asked[-3:] == [
        ("build", UNIT_INSPECTING),
        ("import_profile", UNIT_INSPECTING, "/w/results.db"),
        ("profile", UNIT_INSPECTING, "small", False),
    ]
    title, other, head, line, name, columns, conflicts, waves = capsys.readouterr().out.splitlines()
    assert title == "/w/results.db: counters on AMD Instinct MI300X, 4 samples"
    assert other.strip().startswith("taken of another build: 1 of 4 samples")
    assert head.split()[:2] == ["share", "samples"]
    assert line.split() == ["100.0", "%", "4", "1", "3", "waitcnt", "k.hip.j2:4"]
    assert name.strip() == f"{kernel.name}.kd: 2 launches, 1.5 µs each"
    assert columns.split() == ["counter", "measured", "a", "launch"]
    whole = 620 * kernel.all_workgroups // kernel.workgroups
    assert conflicts.split()[:5] == [CONFLICTS, "2,480", "1,240", "counted", f"{whole:,}"]
    assert waves.split() == ["SQ_WAVES", "5", "2.5"]


def test_a_report_of_ncu_needs_ncu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(
        "ckwatch.codeobject.tools.profilers._USUAL", {"ncu": (("CUDA_HOME", "CUDA_PATH"), (f"{tmp_path}/*",))}
    )
    assert main(["import", "profile", str(tmp_path / "k.ncu-rep")]) == 2
    assert "ncu is not installed here" in capsys.readouterr().err
