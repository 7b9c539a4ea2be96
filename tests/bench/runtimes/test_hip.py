"""The HIP runtime with the real hip-python on the stand-in: what it does when all goes well, or something lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckwatch.bench.runtimes.hip import last_level_cache_bytes
from fakes.hip_stand_in import DESCRIPTION, PCI, build_blas, build_hip, build_kernels, environment, scenario
from helpers.each_row import each_row

pytest.importorskip("rocm.bindings.hip")

GATED = "hipStreamWaitValue32 on signal memory"
GIVEN_UP = "given up: the host waits for the stream, or needs 1 s to fill it"


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hip(tmp_path_factory.mktemp("rocm"))


@pytest.fixture(scope="module")
def kernels(rocm: Path) -> str:
    return str(build_kernels(rocm, rocm / "kernels.so"))


def test_a_device_is_what_hip_says_of_it(rocm: Path) -> None:
    (device,) = scenario("find", environment(rocm))
    device.pop("driver")
    assert device == {
        "name": "hip:0",
        "description": DESCRIPTION,
        "arch": "gfx90a:sramecc+:xnack-",
        "pci": PCI,
        "total_memory_bytes": 1 << 30,
        "last_level_cache_bytes": 8 << 20,
        "local_memory_bytes": 65536,
        "compute_units": 110,
        "clock_mhz": 1700.0,
        "memory_clock_mhz": 1600.0,
        "runtime": "HIP 7.2.53211",
        "machine": "",
    }


@pytest.mark.parametrize(
    ("arch", "mib"), [("gfx90a", 8), ("gfx942", 256), ("gfx950", 256), ("gfx1100", 96), ("gfx1201", 64), ("gfx9999", 4)]
)
def test_the_cache_before_memory_is_not_the_l2_that_hip_reports(arch: str, mib: int) -> None:
    assert last_level_cache_bytes(f"{arch}:sramecc+:xnack-", 4 << 20) == mib << 20


def test_the_best_device_comes_first_and_keeps_its_number(rocm: Path) -> None:
    devices = scenario("find", environment(rocm, DEVICES="3"))
    assert [(device["name"], device["pci"], device["compute_units"]) for device in devices] == [
        ("hip:0", "0000:c1:00.0", 110),
        ("hip:1", "0000:c9:00.0", 104),
        ("hip:2", "0000:d1:00.0", 104),
    ]


def test_versions_say_what_timings_depend_on(rocm: Path) -> None:
    versions = scenario("versions", environment(rocm))
    assert versions["runtime"] == "HIP 7.2.53211"
    assert versions["gate"] == GATED
    assert versions["events"] == "without system fence"
    assert versions["hip-python"][0].isdecimal()
    assert set(versions) == {"runtime", "driver", "hip-python", "amdsmi", "gate", "events"}


def test_memory_is_copied_filled_and_given_back(rocm: Path) -> None:
    answer = scenario("memory", environment(rocm))
    assert answer == {"aligned": True, "copied": True, "filled": True, "used": 4096, "given back": True}


def test_nothing_begins_behind_a_gate(rocm: Path) -> None:
    answer = scenario("gated", environment(rocm))
    assert answer == {
        "nothing began": [True, True],
        "then": 3,
        "ordered": True,
        "gate": GATED,
    }


def test_a_host_that_waits_behind_a_gate_is_let_go(rocm: Path) -> None:
    assert scenario("waiting_inside", environment(rocm), 1) == {"inside": [0], "gate": GATED}


def test_a_host_that_always_waits_has_no_gates(rocm: Path) -> None:
    assert scenario("waiting_inside", environment(rocm), 5) == {"inside": [0, 1, 2, 3, 4], "gate": GIVEN_UP}


def test_a_gate_opens_when_its_block_fails(rocm: Path) -> None:
    answer = scenario("raising_inside", environment(rocm))
    assert answer == {"then": 4, "gate": GATED}


def test_what_a_device_lacks_is_done_otherwise(rocm: Path) -> None:
    lacking = ("wait-value", "signal-memory", "signal-memory,host-memory", "fence-flag")
    assert scenario("without", environment(rocm), *lacking) == {
        "wait-value": ["none: the device cannot wait for a value", "without system fence", True],
        "signal-memory": ["hipStreamWaitValue32 on host memory", "without system fence", True],
        "signal-memory,host-memory": ["none: no memory that host and device both see", "without system fence", True],
        "fence-flag": [GATED, "with system fence", True],
    }


def test_a_gate_that_would_never_open_is_found_when_the_device_is_opened(rocm: Path) -> None:
    answer = scenario("never_opening", environment(rocm, WITHOUT="opening"))
    assert answer["kind"] == "BROKEN"
    assert "does not see what the host writes" in answer["message"]


def test_a_kernel_of_the_abi_runs_on_the_stream(rocm: Path, kernels: str) -> None:
    answer = scenario("computing", environment(rocm), kernels, "right")
    assert answer == {"error": 0.0, "gate": GATED}


def test_a_kernel_whose_host_code_waits_is_run_without_gates(rocm: Path, kernels: str) -> None:
    answer = scenario("computing", environment(rocm), kernels, "waits")
    assert answer == {"error": 0.0, "gate": GIVEN_UP}


def test_a_second_hip_in_the_process_is_the_artifacts_fault(rocm: Path, tmp_path: Path) -> None:
    other = build_hip(tmp_path / "other") / "lib/libamdhip64.so"
    answer = scenario("another_hip", environment(rocm), str(other))
    assert answer["kind"] == "UNLOADABLE"
    assert "ROCM_PATH" in answer["hint"]


ROWS_AND_COLUMNS = [(x, w, y) for x in (True, False) for w in (True, False) for y in (True, False)]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("libraries", "names"),
    [
        (("libhipblaslt",), {"hipBLASLt 1.2.3"}),
        (("librocblas",), {"rocBLAS 0.0.0-stand-in"}),
        (("libhipblaslt", "librocblas"), {"hipBLASLt 1.2.3", "rocBLAS 0.0.0-stand-in"}),
    ],
)
def test_the_vendors_gemm_multiplies_in_every_layout(
    tmp_path: Path, libraries: tuple[str, ...], names: set[str], dtype: str
) -> None:
    rocm = build_hip(tmp_path)
    build_blas(rocm, *libraries)
    answer = scenario("library", environment(rocm), ROWS_AND_COLUMNS, dtype)
    assert answer["errors"] == [0.0] * len(ROWS_AND_COLUMNS)
    assert answer["name"] in names
    assert set(answer["before"].split(", ")) == names


def test_the_vendors_gemm_is_none_where_it_knows_no_such_types(tmp_path: Path) -> None:
    rocm = build_hip(tmp_path)
    build_blas(rocm, "libhipblaslt", "librocblas")
    answer = scenario("library", environment(rocm), [(True, True, True)], "bf16")
    assert answer["errors"] == [None]


def test_without_the_vendors_libraries_there_is_no_gemm_of_theirs(rocm: Path) -> None:
    answer = scenario("library", environment(rocm), [(True, True, True)], "f32")
    assert answer == {"before": "", "name": "", "errors": [None]}


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
        "needs 0.0 MiB of device memory; 1024.0 MiB of 1024.0 MiB is free",
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
]


@pytest.fixture(scope="module")
def failures(rocm: Path) -> dict[tuple[str, str], Any]:
    rows = [(calls, step) for calls, step, _, _ in FAILURES] + SILENT
    return dict(zip(rows, scenario("failing", environment(rocm), rows), strict=True))


@each_row(("calls", "step", "kind", "said"), FAILURES)
def test_a_call_that_fails(failures: dict[tuple[str, str], Any], calls: str, step: str, kind: str, said: str) -> None:
    failure = failures[calls, step]
    assert failure["kind"] == kind
    assert said in failure["message"]


@pytest.mark.parametrize(("calls", "step"), SILENT)
def test_a_call_whose_failure_means_nothing(failures: dict[tuple[str, str], Any], calls: str, step: str) -> None:
    answer = failures[calls, step]
    assert answer is None or isinstance(answer, float)


def test_memory_that_is_no_buffer_is_written(rocm: Path) -> None:
    kernels = build_kernels(rocm, rocm / "kernels.so")
    told, again = scenario("trespassing", environment(rocm), str(kernels))
    assert told["kind"] == again["kind"] == "FAULT"
    assert "hipErrorIllegalAddress" in told["message"]


def test_too_much_memory_is_told_with_the_sizes(rocm: Path) -> None:
    answer = scenario("fail", environment(rocm, MEMORY="8192"), "hipMalloc#1=2", "allocate")
    assert answer["message"] == "needs 0.0 MiB of device memory; 0.0 MiB of 0.0 MiB is free"
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
    answer = scenario("find", environment(build_hip(tmp_path, without="hipGetDevicePropertiesR0600")))
    assert answer["kind"] == "NO_DRIVER"
    assert "hipGetDeviceProperties" in answer["message"]


def test_no_device_says_what_to_look_at(rocm: Path) -> None:
    answer = scenario("find", environment(rocm, DEVICES="0"))
    assert answer["kind"] == "NO_DEVICE"
    assert "/dev/kfd" in answer["hint"]


def test_an_emulated_device_is_none(rocm: Path) -> None:
    answer = scenario("find", environment(rocm, DEVICE="emulated gfx90a"))
    assert answer["kind"] == "NO_DEVICE"
    assert "emulated gfx90a is not a GPU" in answer["message"]
    assert "ckwatch verify" in answer["hint"]


def test_a_device_that_went_away_is_not_taken_for_another(rocm: Path) -> None:
    name, answer = scenario("not_there", environment(rocm, DEVICES="2"))
    assert name == "hip:1"
    assert answer["kind"] == "NO_DEVICE"
    assert "0000:c9:00.0" in answer["message"]
