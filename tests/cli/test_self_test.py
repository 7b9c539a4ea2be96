"""`ckwatch bench --self-test`: its options, the choice of the device, the report, and what is built for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ckwatch.bench.job import SelfTestJob
from ckwatch.bench.report import BenchmarkFailure, Devices, FailureKind, UnavailableKind
from ckwatch.bench.self_test.session import KernelSteps
from ckwatch.bench.worker_protocol import SelfTestDone
from ckwatch.bench.worker_session import WorkerStart
from ckwatch.cli import main
from ckwatch.cli.self_test.command import Report, chosen_device, report_text, without_places
from ckwatch.cli.self_test.kernels import BuiltKernels, checked_problems, repeated_problems, shipped_instances
from ckwatch.model import self_test as names
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome

Capture = pytest.CaptureFixture[str]
GPU = DeviceFacts(
    name="cuda:0", description="test GPU", arch="sm_90", pci="0000:c1:00.0", driver="1", runtime="CUDA 13.0"
)
CPU = DeviceFacts(name="cpu", description="test processor", arch="host")
PASSED = AssumptionTrial(assumption=names.COPIES, outcome=TrialOutcome.PASSED, found="1 MiB came back", seconds=0.1)
FAILED = AssumptionTrial(assumption=names.GATE, outcome=TrialOutcome.FAILED, found="none: /opt/rocm/lib/libx.so is old")


FOUND = Devices(devices=(GPU, CPU), absent=(UnavailableKind(kind="hip", why="no library", hint="install it"),))


@dataclass
class FakeSelfTest:
    """Stands for finding devices, building and trying; nothing is measured. `jobs` are those that were tried."""

    found: Devices | BenchmarkFailure = FOUND
    trials: list[AssumptionTrial] = field(default_factory=lambda: [PASSED])
    jobs: list[tuple[SelfTestJob, WorkerStart]] = field(default_factory=list)

    def command(self, *words: str) -> int:
        """Run `bench --self-test` and return its exit status."""
        return main(
            ["bench", "--self-test", *words],
            find_devices=self._find,
            build_kernels=self._build,
            run_self_test=self._run,
        )

    async def _find(self, _start: WorkerStart) -> Devices | BenchmarkFailure:
        return self.found

    async def _build(self, *_: Any) -> BuiltKernels:
        return BuiltKernels(compiler="nvcc 13.0")

    async def _run(
        self,
        job: SelfTestJob,
        _artifacts: Sequence[bytes],
        _steps: KernelSteps,
        start: WorkerStart,
        on_trial: Callable[..., None],
        _on_stage: Any,
    ) -> SelfTestDone:
        self.jobs.append((job, start))
        for trial in self.trials:
            on_trial(trial)
        return SelfTestDone(device=GPU, versions={"driver": "1", "NVML": "2"})


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSelfTest:
    monkeypatch.chdir(tmp_path)
    return FakeSelfTest()


def test_a_report_for_an_issue(fake: FakeSelfTest, tmp_path: Path, capsys: Capture) -> None:
    fake.trials.append(FAILED)
    assert fake.command() == 1
    printed = capsys.readouterr().out
    assert "self-test of cuda:0, test GPU (sm_90)" in printed
    assert "1 passed, 1 failed in" in printed
    report = (tmp_path / "ckwatch-self-test.md").read_text()
    assert "✗ failed   gate: launches wait on the device until a batch is queued" in report
    assert "found: none: …/libx.so is old" in report
    assert "otherwise: times of short kernels contain the host's time between launches" in report
    found = json.loads(re.findall(r"```json\n(.*?)\n```", report, re.DOTALL)[0])
    assert (found["complete"], found["counts"]) == (True, {"passed": 1, "failed": 1, "skipped": 0})
    assert found["versions"] == {"driver": "1", "NVML": "2", "compiler": "nvcc 13.0"}
    assert "pci" not in found["device"]


def test_all_passed(fake: FakeSelfTest, tmp_path: Path, capsys: Capture) -> None:
    assert fake.command("--device", "cpu", "--output", "mine.md") == 0
    assert f"the report is in {tmp_path / 'mine.md'}" in capsys.readouterr().out
    assert fake.jobs[0][0].kind == "cpu"
    assert (tmp_path / "mine.md").exists()
    assert not (tmp_path / "ckwatch-self-test.md").exists()


def test_the_launcher_of_the_workspace(fake: FakeSelfTest, trusted: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "ckwatch.toml").write_text('[bench]\nlauncher = ["ssh", "box"]\ndevice = "cuda:0"\nlease_wait_s = 7\n')
    assert fake.command("--trust") == 0
    job, start = fake.jobs[0]
    assert (job.device, job.lease_wait_s) == ("0000:c1:00.0", 7.0)
    assert start.launcher == ("ssh", "box")
    assert start.command == ("python3", "-P", "-m", "ckwatch.bench.worker")
    assert start.folder == tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm"], "--self-test takes no PATTERN"),
        (["--shape", "s", "--force"], "--self-test takes no --shape and no --force"),
        (["--devices"], "--self-test takes no --devices"),
        (["--flush-instructions"], "--self-test takes no --flush-instructions"),
        (["--output", "there/is/none.md"], "there is no folder"),
        (["--output", "."], "is a folder"),
        (["--device", "cuda:7"], "there is no device cuda:7"),
        (["--device", "hip:0"], "no hip device: no library"),
        (["-C", "/there/is/none"], "there is no /there/is/none"),
    ],
)
def test_mistakes(fake: FakeSelfTest, arguments: list[str], message: str, capsys: Capture) -> None:
    assert fake.command(*arguments) == 2
    assert message in capsys.readouterr().err
    assert fake.jobs == []


def test_a_report_without_a_self_test(capsys: Capture) -> None:
    assert main(["bench", "--output", "x.md"]) == 2
    assert "add --self-test" in capsys.readouterr().err


def test_a_worker_that_cannot_be_started(fake: FakeSelfTest, capsys: Capture) -> None:
    fake.found = BenchmarkFailure(
        kind=FailureKind.LAUNCHER, message="the worker did not start", hint="see the launcher"
    )
    assert fake.command() == 2
    assert "the worker did not start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:0", "cuda:0"), ("0000:C1:00.0", "cuda:0"), ("cpu", "cpu")],
)
def test_the_device(wanted: str, name: str) -> None:
    assert chosen_device(Devices(devices=(GPU, CPU)), wanted).name == name


def test_no_such_device() -> None:
    with pytest.raises(CkwatchError, match=r"there is no device 0000:00:00\.0"):
        chosen_device(Devices(devices=(CPU,)), "0000:00:00.0")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("cannot load /home/someone/lib/libx.so.1: no", "cannot load …/libx.so.1: no"),
        ("12.5 ms / 3, and/or", "12.5 ms / 3, and/or"),
        ("cpp/gemm_f32/6x16 is right", "cpp/gemm_f32/6x16 is right"),
    ],
)
def test_what_is_nobody_elses_business(text: str, kept: str) -> None:
    assert without_places(text) == kept


def test_names_of_the_machine_and_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "someone")
    assert without_places("held by someone@build-box, process 7", "build-box") == "held by USER@HOST, process 7"


def test_a_report_that_did_not_come_to_its_end() -> None:
    report = Report(GPU, "2026-01-01", [PASSED], seconds=3.0)
    assert "1 passed in 3.0 s; it did not come to its end" in report_text(report)


@pytest.mark.parametrize(
    ("device", "least", "archs"),
    [
        (CPU, 3, {"host"}),
        (GPU, 8, {"sm_90a"}),
        (replace(GPU, arch="sm_80"), 8, {"sm_80"}),
        (replace(GPU, name="hip:0", arch="gfx942:sramecc+:xnack-"), 100, {"gfx942"}),
        (replace(GPU, name="hip:0", arch="gfx950"), 100, {"gfx950"}),
    ],
)
def test_shipped_instances(device: DeviceFacts, least: int, archs: set[str]) -> None:
    found = shipped_instances(device)
    assert len(found) >= least
    assert {one.unit.arch for one in found} == archs
    kernels = [one.name.rpartition("/")[0] for one in found]
    firsts = kernels[: len(set(kernels))]
    assert len(set(firsts)) == len(firsts), "the first of each kernel comes first"


def test_problems_are_small_enough() -> None:
    for one in shipped_instances(GPU):
        assert checked_problems(one.unit)
        assert all(problem.bytes_allocated <= 1 << 28 for problem in checked_problems(one.unit))
    f16 = next(one.unit for one in shipped_instances(GPU) if "gemm_f16" in one.name)
    assert repeated_problems(f16, "cuda")[0].flops == 2 * 4096**3
    cpp = shipped_instances(CPU)[0].unit
    assert [one.flops for one in repeated_problems(cpp, "cpu")] == [2 * 192**3]
