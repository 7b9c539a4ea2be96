"""The HIP runtime with the real hip-python on the stand-in, where calls fail: whose fault it is, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hip_stand_in import build_hip, build_kernels, environment, scenario

pytest.importorskip("rocm.bindings.hip")

FAILURES = [
    # the calls that fail, what is done, whose fault it is, what is said
    ("hipRuntimeGetVersion#1=35", "find", "NO_DRIVER", "older than libamdhip64 needs"),
    ("hipRuntimeGetVersion#1=3", "find", "NO_DRIVER", "could not be initialised"),
    ("hipGetDeviceCount#1=100", "find", "NO_DEVICE", "sees no device"),
    ("hipGetDevicePropertiesR0600#1=101", "find", "NO_DEVICE", "no device of this number"),
    ("hipDeviceGetPCIBusId#1=999", "find", "LOST", "hipDeviceGetPCIBusId: hipErrorUnknown"),
    ("hipSetDevice#1=709", "open", "LOST", "context is gone"),
    ("hipStreamCreateWithFlags#1=2", "open", "NO_MEMORY", "too little memory"),
    ("hipEventCreateWithFlags#1=1053", "open", "LOST", "the runtime below HIP failed"),
    ("hipEventCreateWithFlags#*=1", "open", "BROKEN", "hipEventCreateWithFlags: hipErrorInvalidValue"),
    (
        "hipMalloc#1=2",
        "allocate",
        "NO_MEMORY",
        "0.0 MiB of device memory are wanted, 1024.0 MiB of 1024.0 MiB are free",
    ),
    ("hipMalloc#1=700", "allocate", "FAULT", "read or wrote memory that is not its own"),
    ("hipFree#1=719", "free", "FAULT", "hipFree: hipErrorLaunchFailure"),
    ("hipMemcpy#1=1", "upload", "BROKEN", "hipMemcpy: hipErrorInvalidValue"),
    ("hipStreamSynchronize#1=700", "upload", "FAULT", "hipErrorIllegalAddress"),
    ("hipMemcpy#1=214", "download", "LOST", "an error that it cannot correct"),
    ("hipMemsetAsync#1=719", "fill", "FAULT", "hipErrorLaunchFailure"),
    ("hipEventCreateWithFlags#1=2", "event", "NO_MEMORY", "too little memory"),
    ("hipEventRecord#1=400", "record", "BROKEN", "hipErrorInvalidHandle"),
    ("hipEventElapsedTime#1=400", "elapsed", "BROKEN", "hipErrorInvalidHandle"),
    ("hipEventElapsedTime#*=600", "elapsed", "BROKEN", "hipErrorNotReady"),
    (
        "hipStreamSynchronize#1=700",
        "synchronize",
        "FAULT",
        "not its own (hipStreamSynchronize: hipErrorIllegalAddress)",
    ),
    ("hipStreamSynchronize#1=702", "synchronize", "HUNG", "longer than the driver allows"),
    ("hipStreamSynchronize#1=710", "synchronize", "FAULT", "an assertion in the kernel failed"),
    ("hipStreamSynchronize#1=999", "synchronize", "LOST", "hipErrorUnknown"),
    ("hipGetLastError#1=209", "synchronize", "WRONG_ARCH", "no device code for this device (a launch:"),
    ("hipGetLastError#1=98", "synchronize", "WRONG_ARCH", "no such kernel for this device"),
    ("hipGetLastError#1=9", "synchronize", "ERROR_CODE", "grid or workgroup"),
    ("hipGetLastError#1=701", "synchronize", "LOCAL_MEMORY", "more LDS or registers than there are"),
    ("hipGetLastError#1=200", "synchronize", "UNLOADABLE", "the device code is damaged"),
    ("hipMemGetInfo#1=101", "memory", "NO_DEVICE", "no device of this number"),
    ("hipStreamWaitValue32#1=999", "gate", "LOST", "hipStreamWaitValue32: hipErrorUnknown"),
    ("hipMalloc#1=12345", "allocate", "BROKEN", "an error that hip-python does not know"),
]

SILENT = [
    ("hipGetLastError#1=1", "synchronize"),  # what a kernel's own host code asked for and was refused
    ("hipEventElapsedTime#1=600", "elapsed"),  # not reached: waited for
    ("hipStreamDestroy#*=709;hipFree#*=709;hipEventDestroy#*=709", "close"),
]


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hip(tmp_path_factory.mktemp("rocm"))


@pytest.fixture(scope="module")
def failures(rocm: Path) -> dict[tuple[str, str], Any]:
    rows = [(calls, step) for calls, step, _, _ in FAILURES] + SILENT
    return dict(zip(rows, scenario("failing", environment(rocm), rows), strict=True))


@pytest.mark.parametrize(("calls", "step", "kind", "said"), FAILURES)
def test_a_call_that_fails(failures: dict[tuple[str, str], Any], calls: str, step: str, kind: str, said: str) -> None:
    failure = failures[calls, step]
    assert failure["kind"] == kind
    assert said in failure["message"]


@pytest.mark.parametrize(("calls", "step"), SILENT)
def test_a_call_whose_failure_means_nothing(failures: dict[tuple[str, str], Any], calls: str, step: str) -> None:
    answer = failures[calls, step]
    assert answer is None or isinstance(answer, float)


def test_memory_behind_a_buffer_is_written(rocm: Path) -> None:
    kernels = build_kernels(rocm, rocm / "kernels.so")
    told, again = scenario("trespassing", environment(rocm), str(kernels))
    assert told["kind"] == again["kind"] == "FAULT"
    assert "hipErrorIllegalAddress" in told["message"]


def test_too_much_memory_is_told_with_the_sizes(rocm: Path) -> None:
    answer = scenario("fail", environment(rocm, MEMORY="8192"), "hipMalloc#1=2", "allocate")
    assert answer["message"] == "0.0 MiB of device memory are wanted, 0.0 MiB of 0.0 MiB are free"
    assert answer["hint"]


def test_without_the_library_there_is_no_driver(tmp_path: Path) -> None:
    answer = scenario("find", environment(tmp_path))
    assert answer["kind"] == "NO_DRIVER"
    assert "libamdhip64.so, cannot be loaded" in answer["message"]
    assert "ROCM_PATH" in answer["hint"]


def test_without_the_binding_there_is_no_driver(rocm: Path) -> None:
    answer = scenario("find_without_binding", environment(rocm))
    assert answer["kind"] == "NO_DRIVER"
    assert "hip-python cannot be imported" in answer["message"]
    assert "rocm-bindings-hip" in answer["hint"]


def test_a_library_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libamdhip64.so").write_text("not an ELF file")
    assert scenario("find", environment(tmp_path))["kind"] == "NO_DRIVER"


def test_an_old_hip_is_named_with_its_version(rocm: Path) -> None:
    answer = scenario("find", environment(rocm, VERSION="50731921"))
    assert answer["kind"] == "NO_DRIVER"
    assert "HIP 5.7.31921" in answer["message"]
    assert "HIP 6 or newer" in answer["hint"]


def test_a_hip_without_a_function_that_is_needed(tmp_path: Path) -> None:
    answer = scenario("find", environment(build_hip(tmp_path, "-DWITHOUT_R0600")))
    assert answer["kind"] == "NO_DRIVER"
    assert "hipGetDeviceProperties" in answer["message"]


def test_no_device_says_what_to_look_at(rocm: Path) -> None:
    answer = scenario("find", environment(rocm, DEVICES="0"))
    assert answer["kind"] == "NO_DEVICE"
    assert "/dev/kfd" in answer["hint"]


def test_a_device_that_went_away_is_not_taken_for_another(rocm: Path) -> None:
    name, answer = scenario("not_there", environment(rocm, DEVICES="2"))
    assert name == "hip:1"
    assert answer["kind"] == "NO_DEVICE"
    assert "0000:c9:00.0" in answer["message"]
