"""The program that profilers run: it launches a kernel of the processor here, and says what became of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benches.bench_kernels import job, shared_object
from ckwatch.bench.profiled_launch import ProfiledLaunch, launch_command, main, read_result, write_job
from ckwatch.bench.report import FailureKind
from ckwatch.bench.run_job import Measurement
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime
from ckwatch.system.python_process import module_environment


def test_a_kernel_is_launched_and_the_program_ends(tmp_path: Path) -> None:
    write_job(tmp_path, ProfiledLaunch(job=job("ours"), artifacts=1), [shared_object()])
    done = subprocess.run(launch_command(tmp_path), env=module_environment(), check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    result = read_result(tmp_path)
    assert result is not None
    assert (result.launches, result.failure) == (1, None)
    assert result.device is not None
    assert result.device.name == "cpu"


def test_launches_go_on_for_a_while(processor_runtime: DeviceRuntime) -> None:
    launched = Measurement(processor_runtime, job("ours"), lambda *_: None).launch_for([shared_object()], 0.05)
    assert launched > 1
    with pytest.raises(BenchmarkError, match="behind Y"):
        Measurement(processor_runtime, job("ours"), lambda *_: None).launch_for(
            [shared_object(after="Y[(M - 1) * LDC + N + 5] = 1.0f;")], 0.0
        )


def test_a_device_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    asked = job("ours", device="cuda:0", kind="cuda", arch="sm_90a")
    write_job(tmp_path, ProfiledLaunch(job=asked, artifacts=1), [b"\x7fELF"])
    main(tmp_path)
    result = read_result(tmp_path)
    assert result is not None
    assert result.failure is not None
    assert result.failure.kind in (FailureKind.NO_DRIVER, FailureKind.NO_DEVICE)


def test_a_program_that_ended_before_it_could_say(tmp_path: Path) -> None:
    assert read_result(tmp_path) is None
    (tmp_path / "result.json").write_text("{")
    assert read_result(tmp_path) is None
