"""Whose fault an error of HIP is.

Two ways lead here: a call returns an error (`kind_of`), or ROCm's runtime ends the process, which it does for most
faults of a kernel, after one line on standard error (`said_at_the_end`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckwatch.timing.report import FailureKind

_FAULT, _CODE, _MEMORY = FailureKind.FAULT, FailureKind.ERROR_CODE, FailureKind.NO_MEMORY

ERRORS: Mapping[str, tuple[FailureKind, str]] = {
    # the kernel's
    "hipErrorIllegalAddress": (_FAULT, "the kernel read or wrote memory that is not its own"),
    "hipErrorLaunchFailure": (_FAULT, "the kernel failed while it ran"),
    "hipErrorPriorLaunchFailure": (_FAULT, "a kernel before it failed"),
    "hipErrorAssert": (_FAULT, "an assertion in the kernel failed"),
    "hipErrorLaunchTimeOut": (FailureKind.HUNG, "the kernel took longer than the driver allows"),
    "hipErrorLaunchOutOfResources": (
        FailureKind.LOCAL_MEMORY,
        "a workgroup needs more LDS or registers than there are",
    ),
    "hipErrorInvalidConfiguration": (_CODE, "the kernel's grid or workgroup is not one that the device can run"),
    "hipErrorCooperativeLaunchTooLarge": (_CODE, "more workgroups must run at once than the device has room for"),
    "hipErrorInvalidImage": (FailureKind.UNLOADABLE, "the device code is damaged"),
    "hipErrorInvalidKernelFile": (FailureKind.UNLOADABLE, "the device code is damaged"),
    "hipErrorSharedObjectInitFailed": (FailureKind.UNLOADABLE, "the device code cannot be loaded"),
    "hipErrorSharedObjectSymbolNotFound": (FailureKind.UNLOADABLE, "the device code lacks a symbol"),
    "hipErrorNoBinaryForGpu": (FailureKind.WRONG_ARCH, "there is no device code for this device"),
    "hipErrorInvalidDeviceFunction": (FailureKind.WRONG_ARCH, "there is no such kernel for this device"),
    # the machine's
    "hipErrorOutOfMemory": (_MEMORY, "the device has too little memory left"),
    "hipErrorRuntimeMemory": (_MEMORY, "the runtime has too little memory left"),
    "hipErrorNoDevice": (FailureKind.NO_DEVICE, "HIP sees no device"),
    "hipErrorInvalidDevice": (FailureKind.NO_DEVICE, "HIP has no device of this number"),
    # the host's
    "hipErrorInsufficientDriver": (FailureKind.NO_DRIVER, "the driver is older than libamdhip64 needs"),
    "hipErrorNotInitialized": (FailureKind.NO_DRIVER, "HIP could not be initialised"),
    "hipErrorECCNotCorrectable": (FailureKind.LOST, "the device's memory has an error that it cannot correct"),
    "hipErrorContextIsDestroyed": (FailureKind.LOST, "the device's context is gone"),
    "hipErrorDeinitialized": (FailureKind.LOST, "the driver is going down"),
    "hipErrorOperatingSystem": (FailureKind.LOST, "the operating system refused what the driver needs"),
    "hipErrorRuntimeOther": (FailureKind.LOST, "the runtime below HIP failed"),
    "hipErrorUnknown": (FailureKind.LOST, "the runtime below HIP failed"),
}
"""What each error says; all others mean that HIP was called wrongly, which is ours to mend."""

HINTS: Mapping[FailureKind, str] = {
    FailureKind.NO_DEVICE: "is /dev/kfd there, may this user open it (groups render and video), and do "
    "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES leave a device?",
    FailureKind.NO_DRIVER: "the amdgpu driver and ROCm must fit each other: see what `rocminfo` says",
    FailureKind.WRONG_ARCH: "compile for the device's own arch",
    FailureKind.LOST: "see what the kernel log says of amdgpu; a reset or a restart may be needed",
}

AFTER_A_LAUNCH = frozenset(
    name
    for name, (kind, _) in ERRORS.items()
    if kind in (_FAULT, _CODE, FailureKind.LOCAL_MEMORY, FailureKind.UNLOADABLE, FailureKind.WRONG_ARCH, _MEMORY)
)
"""Errors that tell of a launch when they are found as the last error of a thread; others may be what a kernel's own
host code asked for and was refused, which is no failure."""


def kind_of(error: str) -> tuple[FailureKind, str]:
    """Whose fault the error of this name is, and what it means in words."""
    return ERRORS.get(error, (FailureKind.BROKEN, "HIP was not called as it wants to be"))


_LAST_WORDS: tuple[tuple[re.Pattern[str], FailureKind, str], ...] = tuple(
    (re.compile(pattern), kind, meaning)
    for pattern, kind, meaning in (
        (r"Memory access fault by GPU node", _FAULT, "the kernel read or wrote memory that is not its own"),
        (r"HW Exception by GPU node.*GPU Hang", FailureKind.HUNG, "the kernel hung the device"),
        (r"HW Exception by GPU node", _FAULT, "the device stopped the kernel"),
        (
            r"HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
            _FAULT,
            "the kernel has an instruction that the device does not know",
        ),
        (r"HSA_STATUS_ERROR_MEMORY_(APERTURE_VIOLATION|FAULT)", _FAULT, "the kernel left the memory that it may use"),
        (r"HSA_STATUS_ERROR_(EXCEPTION|ASYNC_EXCEPTION)", _FAULT, "the device stopped the kernel"),
        (r"HSA_STATUS_ERROR_OUT_OF_RESOURCES", _MEMORY, "the runtime has too little memory left"),
        (r"Device-side assertion .* failed", _FAULT, "an assertion in the kernel failed"),
        (r"HIP runtime error: |HIP Function Failed ", _CODE, "CK's host code met an error of HIP"),
    )
)


def said_at_the_end(standard_error: str) -> tuple[FailureKind, str] | None:
    """What ROCm's runtime or CK said of a fault before it ended the process: whose fault it is, and a sentence with
    the line it printed. None when it said nothing that is known."""
    for line in reversed(standard_error.splitlines()):
        for pattern, kind, meaning in _LAST_WORDS:
            if pattern.search(line):
                return kind, f"{meaning}: {line.strip()}"
    return None
