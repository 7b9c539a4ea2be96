"""HIP through hip-python, and whose fault each of its errors is.

An error shows in one of two ways: a call returns it (`VendorApi.kind_of`), or ROCm's runtime ends the process, as it
does for most faults of a kernel, after one line on standard error (`fault_in_stderr`, which the session in the daemon
uses: nothing here loads HIP until it is called).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.vendor_api import VendorApi

_FAULT, _CODE, _MEMORY = FailureKind.FAULT, FailureKind.ERROR_CODE, FailureKind.NO_MEMORY
_BROKEN = FailureKind.BROKEN

ERRORS: Mapping[str, tuple[int, FailureKind, str]] = {
    # the kernel's
    "hipErrorIllegalAddress": (700, _FAULT, "the kernel read or wrote memory that is not its own"),
    "hipErrorLaunchFailure": (719, _FAULT, "the kernel failed while it ran"),
    "hipErrorPriorLaunchFailure": (53, _FAULT, "a kernel before it failed"),
    "hipErrorAssert": (710, _FAULT, "an assertion in the kernel failed"),
    "hipErrorLaunchTimeOut": (702, FailureKind.HUNG, "the kernel took longer than the driver allows"),
    "hipErrorLaunchOutOfResources": (
        701,
        FailureKind.LOCAL_MEMORY,
        "a workgroup needs more LDS or registers than there are",
    ),
    "hipErrorInvalidConfiguration": (9, _CODE, "the kernel's grid or workgroup is not one that the device can run"),
    "hipErrorCooperativeLaunchTooLarge": (720, _CODE, "more workgroups must run at once than the device has room for"),
    "hipErrorInvalidImage": (200, FailureKind.UNLOADABLE, "the device code is damaged"),
    "hipErrorInvalidKernelFile": (218, FailureKind.UNLOADABLE, "the device code is damaged"),
    "hipErrorSharedObjectInitFailed": (303, FailureKind.UNLOADABLE, "the device code cannot be loaded"),
    "hipErrorSharedObjectSymbolNotFound": (302, FailureKind.UNLOADABLE, "a symbol is missing in the device code"),
    "hipErrorNoBinaryForGpu": (209, FailureKind.WRONG_ARCH, "there is no device code for this device"),
    "hipErrorInvalidDeviceFunction": (98, FailureKind.WRONG_ARCH, "there is no such kernel for this device"),
    # the machine's
    "hipErrorOutOfMemory": (2, _MEMORY, "the device has too little memory left"),
    "hipErrorRuntimeMemory": (1052, _MEMORY, "the runtime has too little memory left"),
    "hipErrorNoDevice": (100, FailureKind.NO_DEVICE, "HIP sees no device"),
    "hipErrorInvalidDevice": (101, FailureKind.NO_DEVICE, "HIP has no device of this number"),
    # the host's
    "hipErrorInsufficientDriver": (35, FailureKind.NO_DRIVER, "the driver is older than libamdhip64 needs"),
    "hipErrorNotInitialized": (3, FailureKind.NO_DRIVER, "HIP could not be initialised"),
    "hipErrorECCNotCorrectable": (214, FailureKind.LOST, "the device's memory has an error that it cannot correct"),
    "hipErrorContextIsDestroyed": (709, FailureKind.LOST, "the device's context is gone"),
    "hipErrorDeinitialized": (4, FailureKind.LOST, "the driver is going down"),
    "hipErrorOperatingSystem": (304, FailureKind.LOST, "the operating system refused what the driver needs"),
    "hipErrorRuntimeOther": (1053, FailureKind.LOST, "the runtime below HIP failed"),
    "hipErrorUnknown": (999, FailureKind.LOST, "the runtime below HIP failed"),
    # whoever called HIP: here that is a bug of ours
    "hipErrorInvalidValue": (1, _BROKEN, "an argument has a value that HIP does not take"),
    "hipErrorInvalidPitchValue": (12, _BROKEN, "a pitch is none that HIP takes"),
    "hipErrorInvalidSymbol": (13, _BROKEN, "there is no such variable of the device"),
    "hipErrorInvalidDevicePointer": (17, _BROKEN, "a pointer is none to memory of the device"),
    "hipErrorInvalidMemcpyDirection": (21, _BROKEN, "HIP does not know the direction of a copy"),
    "hipErrorMissingConfiguration": (52, _BROKEN, "a kernel was called without a grid"),
    "hipErrorInvalidContext": (201, _BROKEN, "there is no such context"),
    "hipErrorMapFailed": (205, _BROKEN, "memory cannot be mapped"),
    "hipErrorInvalidSource": (300, _BROKEN, "the device code cannot be read"),
    "hipErrorFileNotFound": (301, _BROKEN, "there is no such file"),
    "hipErrorInvalidHandle": (400, _BROKEN, "HIP does not know this stream, event or function"),
    "hipErrorIllegalState": (401, _BROKEN, "this cannot be done in the present state"),
    "hipErrorNotFound": (500, _BROKEN, "there is nothing of this name"),
    "hipErrorNotReady": (600, _BROKEN, "work on the stream has not ended yet"),
    "hipErrorPeerAccessUnsupported": (217, _BROKEN, "one device cannot access the other's memory"),
    "hipErrorSetOnActiveProcess": (708, _BROKEN, "this can no longer be set"),
    "hipErrorHostMemoryAlreadyRegistered": (712, _BROKEN, "the host's memory is registered already"),
    "hipErrorHostMemoryNotRegistered": (713, _BROKEN, "the host's memory is not registered"),
    "hipErrorNotSupported": (801, _BROKEN, "the device or its runtime cannot do this"),
    "hipErrorStreamCaptureUnsupported": (900, _BROKEN, "this cannot be done while a stream is captured"),
    "hipErrorStreamCaptureInvalidated": (901, _BROKEN, "the capture of a stream failed before"),
}
"""Errors with their numbers (hipError_t of hip_runtime_api.h) and their meaning; all others mean that HIP was called
wrongly, which is a bug of ours."""

NUMBERS: Mapping[int, str] = {number: name for name, (number, _, _) in ERRORS.items()}

HINTS: Mapping[FailureKind, str] = {
    FailureKind.NO_DEVICE: "is /dev/kfd there, may this user open it (groups render and video), and do "
    "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES leave a device?",
    FailureKind.NO_DRIVER: "the amdgpu driver and ROCm must fit each other: see what `rocminfo` says",
    FailureKind.WRONG_ARCH: "compile for the device's own arch",
    FailureKind.LOST: "see what the kernel log says of amdgpu; a reset or a restart may be needed",
}

LAUNCH_ERRORS = frozenset(
    name
    for name, (_, kind, _) in ERRORS.items()
    if kind in (_FAULT, _CODE, FailureKind.LOCAL_MEMORY, FailureKind.UNLOADABLE, FailureKind.WRONG_ARCH, _MEMORY)
)
"""Errors that tell of a launch when they are found as the last error of a thread; others may be what a kernel's own
host code asked for and was refused, which is no failure."""


def explained_status(status: int) -> str:
    """` (hipErrorLaunchFailure: the kernel failed while it ran)` for 719, as kernels return it; empty for what is no
    error of HIP."""
    name = NUMBERS.get(status)
    return f" ({name}: {HIP.kind_of(name)[1]})" if name else ""


EMULATOR_BUG = "a bug in ckwatch's emulator"
"""How the line of verification/native/crash.c begins."""

_STDERR_FAULTS: tuple[tuple[re.Pattern[str], FailureKind, str], ...] = tuple(
    (re.compile(pattern), kind, meaning)
    for pattern, kind, meaning in (
        (EMULATOR_BUG, FailureKind.BROKEN, "the emulator crashed"),
        (r"Memory access fault by GPU node", _FAULT, "the kernel read or wrote memory that is not its own"),
        (r"HW Exception by GPU node.*GPU Hang", FailureKind.HUNG, "the kernel hung the device"),
        (r"HW Exception by GPU node", _FAULT, "the device stopped the kernel"),
        (
            r"HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
            _FAULT,
            "the kernel has an instruction that the device does not support",
        ),
        (r"HSA_STATUS_ERROR_MEMORY_(APERTURE_VIOLATION|FAULT)", _FAULT, "the kernel left the memory that it may use"),
        (r"HSA_STATUS_ERROR_(EXCEPTION|ASYNC_EXCEPTION)", _FAULT, "the device stopped the kernel"),
        (r"HSA_STATUS_ERROR_OUT_OF_RESOURCES", _MEMORY, "the runtime has too little memory left"),
        (r"Device-side assertion .* failed", _FAULT, "an assertion in the kernel failed"),
        (r"HIP runtime error: |HIP Function Failed ", _CODE, "CK's host code met an error of HIP"),
    )
)


def fault_in_stderr(standard_error: str) -> tuple[FailureKind, str] | None:
    """Find a fault that ROCm's runtime or CK printed before it ended the process: the kind of failure, and a sentence
    with the printed line. None if there is no known message."""
    for line in reversed(standard_error.splitlines()):
        for pattern, kind, meaning in _STDERR_FAULTS:
            if pattern.search(line):
                return kind, f"{meaning}: {line.strip()}"
    return None


OLDEST = 6
"""The oldest HIP whose device properties are those that hip-python reads (`hipGetDevicePropertiesR0600`)."""

_SEARCHED = (
    "hip-python looks for libamdhip64.so in the rocm_sdk package, ROCM_PATH, ROCM_HOME, /opt/rocm and LD_LIBRARY_PATH"
)


class _Hip(VendorApi):
    """HIP through hip-python."""

    name, prefix, success, not_ready = "HIP", "hip", "hipSuccess", "hipErrorNotReady"
    module, bindings, package = "rocm.bindings.hip", "hip-python", "rocm-bindings-hip"
    create_stream, create_event = "hipStreamCreateWithFlags", "hipEventCreateWithFlags"
    errors: Mapping[str, tuple[FailureKind, str]] = {name: row[1:] for name, row in ERRORS.items()}
    hints = HINTS

    def failure(self, function: str, name: str) -> BenchmarkError:
        """Return the error for this name, and clear the thread's last one."""
        self.forget_last_error()
        return super().failure(function, name)

    def last_error(self) -> str:
        """The name of the last error of this thread, which is forgotten."""
        return self.status("hipGetLastError")[0]

    def forget_last_error(self) -> None:
        """Nothing of what failed until now is found by `last_error`."""
        with suppress(BenchmarkError):
            self.last_error()

    def absent(self, function: str, reason: str) -> BenchmarkError:
        if "dlsym" in reason:
            message = f"libamdhip64 has no {function}: it is not of a version that hip-python fits"
            return BenchmarkError(
                FailureKind.NO_DRIVER, message, f"HIP {OLDEST} or newer is needed; {_SEARCHED}", reason
            )
        if "dlopen" in reason:
            message = "HIP's library, libamdhip64.so, cannot be loaded"
            return BenchmarkError(FailureKind.NO_DRIVER, message, f"install ROCm's runtime; {_SEARCHED}", reason)
        return BenchmarkError(FailureKind.BROKEN, f"{function} failed in hip-python: {reason}")


HIP = _Hip()


def version_text(number: int) -> str:
    """`7.2.53211` for 70253211: major × 10^7 + minor × 10^5 + patch (hip_runtime_api.h, hipRuntimeGetVersion)."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def check_version() -> str:
    """The runtime's version. BenchmarkError (NO_DRIVER) when it is older than `OLDEST`."""
    number = int(HIP.call("hipRuntimeGetVersion"))
    if number < OLDEST * 10_000_000:
        raise BenchmarkError(
            FailureKind.NO_DRIVER,
            f"libamdhip64 is that of HIP {version_text(number)}, which is too old",
            f"HIP {OLDEST} or newer is needed; {_SEARCHED}",
        )
    return version_text(number)
