"""Messages of ROCm before it ends a process; every error that hip-python knows has a cause."""

from __future__ import annotations

import pytest

from ckwatch.bench.report import KERNEL_FAILURES, FailureKind
from ckwatch.bench.runtimes.hip_api import ERRORS, HIP, LAUNCH_ERRORS, fault_in_stderr
from helpers.each_row import each_row

LAST_WORDS = [
    (
        "Memory access fault by GPU node-1 (Agent handle: 0x55ac14d27600) on address 0x7f9587e00000. Reason: Unknown.",
        FailureKind.FAULT,
    ),
    ("HW Exception by GPU node-1 (Agent handle: 0x1b0fc990) reason :GPU Hang", FailureKind.HUNG),
    ("HW Exception by GPU node-2 (Agent handle: 0x1b0fc990) reason :Unknown", FailureKind.FAULT),
    (
        "Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted. code: 0x1016",
        FailureKind.FAULT,
    ),
    (
        "Queue 0x7f aborting with error : HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: The agent attempted. code: 0x2a",
        FailureKind.FAULT,
    ),
    ("error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory", FailureKind.FAULT),
    ("error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate", FailureKind.NO_MEMORY),
    ("  what():  HIP runtime error: invalid argument. hip_check_error.hpp: 17in function: x", FailureKind.ERROR_CODE),
    ("  what():  HIP Function Failed (launch.hpp,51) out of memory", FailureKind.ERROR_CODE),
    ("k.hip:7: Device-side assertion `i < n' failed.", FailureKind.FAULT),
]


@each_row(("line", "kind"), LAST_WORDS)
def test_the_line_is_found_among_others(line: str, kind: FailureKind) -> None:
    found = fault_in_stderr(f"tile 128x128\n{line}\nAborted (core dumped)\n")
    assert found is not None
    assert found[0] is kind
    assert found[1].endswith(line.strip())


@pytest.mark.parametrize("text", ["", "Aborted", "terminate called after throwing an instance of 'std::bad_alloc'"])
def test_what_is_not_known_is_not_guessed(text: str) -> None:
    assert fault_in_stderr(text) is None


def test_the_last_of_several_counts() -> None:
    found = fault_in_stderr("HIP runtime error: a\nMemory access fault by GPU node-1 on address 0x1\n")
    assert found is not None
    assert found[0] is FailureKind.FAULT


def test_every_error_of_the_table_is_one_of_hip_pythons() -> None:
    hip = pytest.importorskip("rocm.bindings.hip")
    assert set(ERRORS) <= {error.name for error in hip.hipError_t}


def test_an_error_that_is_not_in_the_table_is_not_the_kernels() -> None:
    kind, _ = HIP.kind_of("hipErrorInvalidValue")
    assert kind is FailureKind.BROKEN
    assert kind not in KERNEL_FAILURES


def test_an_error_that_a_kernel_may_ignore_is_not_looked_for_after_a_launch() -> None:
    assert "hipErrorIllegalAddress" in LAUNCH_ERRORS
    assert not LAUNCH_ERRORS & {"hipErrorInvalidValue", "hipErrorNotReady", "hipErrorInvalidDevice"}
