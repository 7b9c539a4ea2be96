"""From a job to a report or a failure: the real session, the real worker and the real hip-python on the stand-in.

Of what is measured here only the shape is looked at: the stand-in's times mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benches.bench_kernels import LIMITS_S, QUICK, gemm_problem
from ckwatch.bench.job import Contestant, Job
from ckwatch.bench.leases import FOLDER_VARIABLE
from ckwatch.bench.report import KERNEL_FAILURES, BenchmarkFailure, BenchmarkReport, Devices, FailureKind
from ckwatch.bench.worker_session import WorkerStart, find_devices, measure
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.roofline import CacheState
from fakes.hip_stand_in import DESCRIPTION, PCI, build_blas, build_hip, build_kernels, environment
from fakes.patience import PATIENCE_S

pytest.importorskip("rocm.bindings.hip")

LIMIT_S = PATIENCE_S


@dataclass(frozen=True)
class Machine:
    """A ROCm that is a stand-in, and kernels for it."""

    rocm: Path
    kernels: bytes
    leases: Path

    async def measure(
        self, asked: Job, *, time_limit_s: float = LIMIT_S, **settings: str
    ) -> BenchmarkReport | BenchmarkFailure:
        surroundings = environment(self.rocm, **settings) | {FOLDER_VARIABLE: str(self.leases)}
        return await measure(asked, [self.kernels], WorkerStart(environment=surroundings), time_limit_s=time_limit_s)

    async def failure(self, asked: Job, *, time_limit_s: float = LIMIT_S, **settings: str) -> BenchmarkFailure:
        found = await self.measure(asked, time_limit_s=time_limit_s, **settings)
        assert isinstance(found, BenchmarkFailure), found
        return found

    async def report(self, asked: Job, **settings: str) -> BenchmarkReport:
        found = await self.measure(asked, time_limit_s=LIMIT_S, **settings)
        assert isinstance(found, BenchmarkReport), found
        return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    rocm = build_hip(tmp_path_factory.mktemp("rocm with spaces"))
    kernels = build_kernels(rocm, rocm / "kernels.so").read_bytes()
    return Machine(rocm, kernels, tmp_path_factory.mktemp("leases"))


def problem() -> KernelProblem:
    """The tests' GEMM; the kernels here have no `kBatch`."""
    whole = gemm_problem()
    return replace(whole, arguments=tuple(one for one in whole.arguments if one.name != "kBatch"))


def job(*symbols: str, **changes: Any) -> Job:
    usual = Job(
        device="auto",
        kind="hip",
        arch="gfx90a",
        problem=problem(),
        contestants=tuple(Contestant(name=symbol, artifact=0, symbol=symbol) for symbol in symbols),
        caches=(CacheState.HOT,),
        precision=QUICK,
        lease_wait_s=LIMIT_S,
    )
    return replace(usual, **changes)


async def test_a_right_kernel_is_measured_cold_and_hot(machine: Machine) -> None:
    found = await machine.report(job("right", caches=(CacheState.COLD, CacheState.HOT)))
    assert found.device.description == DESCRIPTION  # whoever shows this shows what it is
    assert (found.device.name, found.device.pci) == ("hip:0", PCI)
    (measured,) = found.measured
    assert measured.workspace_bytes == 512
    assert [samples.cache for samples in measured.samples] == [CacheState.COLD, CacheState.HOT]
    assert all(len(samples.times_us) >= QUICK.minimum_samples for samples in measured.samples)
    assert measured.verification is not None
    assert measured.verification.worst_error <= 1
    assert found.versions["gate"] == "hipStreamWaitValue32 on signal memory"
    assert found.versions["runtime"] == "HIP 7.2.53211"
    assert {"hip-python", "driver", "amdsmi", "events", "ckwatch"} <= found.versions.keys()


async def test_two_kernels_and_the_vendors_library_take_turns(machine: Machine, tmp_path: Path) -> None:
    rocm = build_hip(tmp_path / "with libraries")
    build_blas(rocm, "libhipblaslt", "librocblas")
    whole = replace(machine, rocm=rocm)
    asked = job("right", "waits")
    asked = replace(asked, contestants=(*asked.contestants, Contestant(name="library")))
    found = await whole.report(asked)
    assert [measured.contestant for measured in found.measured] == ["right", "waits", "library"]
    assert found.versions["gate"].startswith("given up: the host waits")


async def test_without_the_vendors_library_the_rest_is_measured(machine: Machine) -> None:
    asked = job("right")
    asked = replace(asked, contestants=(*asked.contestants, Contestant(name="library")))
    found = await machine.report(asked)
    assert [measured.contestant for measured in found.measured] == ["right"]
    assert any("library" in note for note in found.notes)


async def test_a_device_that_cannot_gate_is_measured_too(machine: Machine) -> None:
    found = await machine.report(job("right"), WITHOUT="wait-value,fence-flag")
    assert found.versions["gate"] == "none: the device cannot wait for a value"
    assert found.versions["events"] == "with system fence"


async def test_the_device_is_found_by_its_address(machine: Machine) -> None:
    found = await machine.report(job("right", device="0000:C9:00.0"), DEVICES="2")
    assert found.device.name == "hip:1"


KERNELS = [
    ("wrong", FailureKind.WRONG),
    ("unwritten", FailureKind.UNWRITTEN),
    ("past_the_end", FailureKind.OUT_OF_BOUNDS),
    ("nondeterministic", FailureKind.NONDETERMINISTIC),
    ("refused", FailureKind.REFUSED),
    ("fails", FailureKind.ERROR_CODE),
    ("crashes", FailureKind.CRASHED),
    ("faults", FailureKind.FAULT),
    ("no_such_kernel", FailureKind.UNLOADABLE),
]


@pytest.mark.parametrize(("symbol", "kind"), KERNELS)
async def test_a_kernel_that_does_what_it_must_not(machine: Machine, symbol: str, kind: FailureKind) -> None:
    found = await machine.failure(job(symbol))
    assert (found.kind, found.contestant) == (kind, symbol)
    assert found.kind in KERNEL_FAILURES


async def test_a_kernel_that_never_ends(machine: Machine) -> None:
    for limit_s in LIMITS_S:
        found = await machine.failure(job("never_ends"), time_limit_s=limit_s)
        if found.contestant:
            break
    assert (found.kind, found.contestant) == (FailureKind.HUNG, "never_ends")


CALLS = [
    # which calls fail how, whose fault it is, what is said
    ("hipRuntimeGetVersion#*=35", FailureKind.NO_DRIVER, "older than libamdhip64 needs"),
    ("hipGetDeviceCount#*=100", FailureKind.NO_DEVICE, "HIP sees no device"),
    ("hipSetDevice#1=999", FailureKind.LOST, "hipSetDevice: hipErrorUnknown"),
    ("hipStreamCreateWithFlags#2=2", FailureKind.NO_MEMORY, "hipStreamCreateWithFlags"),
    ("hipMalloc#2=2", FailureKind.NO_MEMORY, "of device memory"),
    ("hipMemcpy#2=214", FailureKind.LOST, "hipMemcpy: hipErrorECCNotCorrectable"),
    ("hipMemsetAsync#3=719", FailureKind.FAULT, "hipMemsetAsync: hipErrorLaunchFailure"),
    ("hipStreamSynchronize#9=700", FailureKind.FAULT, "hipStreamSynchronize: hipErrorIllegalAddress"),
    ("hipEventSynchronize#3=700", FailureKind.FAULT, "hipEventSynchronize: hipErrorIllegalAddress"),
    ("hipEventCreateWithFlags#3=2", FailureKind.NO_MEMORY, "hipEventCreateWithFlags"),
    ("hipEventRecord#7=709", FailureKind.LOST, "hipEventRecord: hipErrorContextIsDestroyed"),
    ("hipEventElapsedTime#9=710", FailureKind.FAULT, "hipEventElapsedTime: hipErrorAssert"),
    ("hipStreamWaitValue32#4=719", FailureKind.FAULT, "hipStreamWaitValue32: hipErrorLaunchFailure"),
    ("hipMemGetInfo#1=999", FailureKind.LOST, "hipMemGetInfo: hipErrorUnknown"),
    ("hipGetLastError#9=209", FailureKind.WRONG_ARCH, "no device code for this device"),
    ("hipLaunchHostFunc#3=701", FailureKind.ERROR_CODE, "right returned 701"),
]


@pytest.mark.parametrize(("calls", "kind", "said"), CALLS)
async def test_a_call_of_hip_that_fails(machine: Machine, calls: str, kind: FailureKind, said: str) -> None:
    found = await machine.failure(job("right"), FAIL=calls)
    assert found.kind is kind, found
    assert said in found.message


ENDS = [
    ("hipEventRecord#12=abort", {FailureKind.FAULT}, "Memory access fault by GPU node-1"),
    ("hipStreamSynchronize#9=gpu-hang", {FailureKind.FAULT, FailureKind.HUNG}, "GPU Hang"),
    ("hipMemcpy#4=segv", {FailureKind.CRASHED, FailureKind.BROKEN}, ""),
]


@pytest.mark.parametrize(("calls", "kinds", "printed"), ENDS)
async def test_a_call_of_hip_that_ends_the_process(
    machine: Machine, calls: str, kinds: set[FailureKind], printed: str
) -> None:
    found = await machine.failure(job("right"), FAIL=calls)
    assert found.kind in kinds, found
    assert printed in found.detail


async def test_a_call_of_hip_that_hangs(machine: Machine) -> None:
    for limit_s in LIMITS_S:
        found = await machine.failure(job("right"), time_limit_s=limit_s, FAIL="hipEventSynchronize#3=hang")
        if found.contestant:
            break
    assert (found.kind, found.contestant) == (FailureKind.HUNG, "right")


async def test_too_little_memory_is_told_before_it_is_allocated(machine: Machine) -> None:
    found = await machine.failure(job("right", caches=(CacheState.COLD,)), MEMORY="10000000")
    assert found.kind is FailureKind.NO_MEMORY
    assert "flushing caches: 268435456 bytes" in found.detail


async def test_an_artifact_for_another_arch_is_not_loaded(machine: Machine) -> None:
    found = await machine.failure(job("right", arch="gfx942"))
    assert found.kind is FailureKind.WRONG_ARCH
    assert "gfx942" in found.message
    assert "gfx90a" in found.message


async def test_after_all_that_a_right_kernel_is_measured(machine: Machine) -> None:
    assert isinstance(await machine.measure(job("right")), BenchmarkReport)


async def devices(rocm: Path, **settings: str) -> Devices:
    found = await find_devices(WorkerStart(environment=environment(rocm, **settings)), time_limit_s=LIMIT_S)
    assert isinstance(found, Devices), found
    return found


async def test_the_stand_in_says_what_it_is(machine: Machine) -> None:
    found = await devices(machine.rocm)
    assert [device.description for device in found.devices if device.kind == "hip"] == [DESCRIPTION]


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"DEVICES": "0"}, "HIP sees no device"), ({"VERSION": "50731921"}, "HIP 5.7.31921, which is too old")],
)
async def test_why_there_is_no_device(machine: Machine, settings: dict[str, str], why: str) -> None:
    found = await devices(machine.rocm, **settings)
    (absent,) = [absence for absence in found.absent if absence.kind == "hip"]
    assert why in absent.why
    assert absent.hint


async def test_without_hip_there_are_the_other_kinds(tmp_path: Path) -> None:
    found = await devices(tmp_path)
    (absent,) = [absence for absence in found.absent if absence.kind == "hip"]
    assert "libamdhip64.so, cannot be loaded" in absent.why
    assert "cpu" in {device.kind for device in found.devices}
