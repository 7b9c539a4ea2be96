"""CUDA's driver through cuda-bindings, and whose fault each of its errors is."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.vendor_api import VendorApi

_FAULT, _CODE, _LOST = FailureKind.FAULT, FailureKind.ERROR_CODE, FailureKind.LOST

ERRORS: Mapping[str, tuple[FailureKind, str]] = {
    # the kernel's
    "CUDA_ERROR_ILLEGAL_ADDRESS": (_FAULT, "the kernel read or wrote memory that is not its own"),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (_FAULT, "the kernel used an address that is not aligned for what it moves"),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (_FAULT, "the kernel used an address of another kind of memory"),
    "CUDA_ERROR_INVALID_PC": (_FAULT, "the kernel jumped to an address without code"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (_FAULT, "the kernel has an instruction that the device does not support"),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": (_FAULT, "the kernel's stack is damaged or too deep"),
    "CUDA_ERROR_LAUNCH_FAILED": (_FAULT, "the kernel failed while it ran"),
    "CUDA_ERROR_ASSERT": (_FAULT, "an assertion in the kernel failed"),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (FailureKind.HUNG, "the kernel took longer than the driver allows"),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        FailureKind.LOCAL_MEMORY,
        "a threadblock needs more shared memory or registers than there are",
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        _CODE,
        "more threadblocks must run at once than the device has room for",
    ),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": (_CODE, "the kernel's cluster is not one that the device can run"),
    "CUDA_ERROR_INVALID_IMAGE": (FailureKind.UNLOADABLE, "the device code is damaged"),
    "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED": (FailureKind.UNLOADABLE, "the device code cannot be loaded"),
    "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND": (FailureKind.UNLOADABLE, "a symbol is missing in the device code"),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (FailureKind.WRONG_ARCH, "there is no device code for this device"),
    # the machine's
    "CUDA_ERROR_OUT_OF_MEMORY": (FailureKind.NO_MEMORY, "the device has too little memory left"),
    "CUDA_ERROR_NO_DEVICE": (FailureKind.NO_DEVICE, "CUDA sees no device"),
    "CUDA_ERROR_INVALID_DEVICE": (FailureKind.NO_DEVICE, "CUDA has no device of this number"),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (FailureKind.BUSY, "another process has the device for itself"),
    # the host's
    "CUDA_ERROR_STUB_LIBRARY": (FailureKind.NO_DRIVER, "the libcuda that was loaded is a stub for linking"),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        FailureKind.NO_DRIVER,
        "libcuda and the kernel's driver do not fit each other",
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (FailureKind.NO_DRIVER, "the device cannot use this libcuda"),
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER": (FailureKind.NO_DRIVER, "the driver is older than cuda-bindings needs"),
    "CUDA_ERROR_NOT_INITIALIZED": (FailureKind.NO_DRIVER, "CUDA could not be initialised"),
    "CUDA_ERROR_SYSTEM_NOT_READY": (_LOST, "a service that the devices need does not run (fabric manager)"),
    "CUDA_ERROR_ECC_UNCORRECTABLE": (_LOST, "the device's memory has an error that it cannot correct"),
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": (_LOST, "NVLink has an error that it cannot correct"),
    "CUDA_ERROR_CONTAINED": (_LOST, "a hardware error stopped the work on the device"),
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": (_LOST, "the device's context is gone"),
    "CUDA_ERROR_DEINITIALIZED": (_LOST, "the driver is going down"),
    "CUDA_ERROR_OPERATING_SYSTEM": (_LOST, "the operating system refused what the driver needs"),
    "CUDA_ERROR_UNKNOWN": (_LOST, "the driver failed"),
}
"""Errors and their meaning; all others mean that CUDA was called wrongly, which is a bug of ours."""

HINTS: Mapping[FailureKind, str] = {
    FailureKind.NO_DEVICE: "does nvidia-smi show a device, and does CUDA_VISIBLE_DEVICES leave one?",
    FailureKind.NO_DRIVER: "install an NVIDIA driver that fits cuda-bindings; see what nvidia-smi says",
    FailureKind.WRONG_ARCH: "compile for the device's own arch",
    FailureKind.LOST: "see what the kernel log says of NVRM; a reset or a restart may be needed",
    FailureKind.BUSY: "nvidia-smi shows who has it; its compute mode may be exclusive",
}


OLDEST = 12
"""The oldest CUDA whose driver has the functions that are called here."""


class _Cuda(VendorApi):
    """CUDA's driver through cuda-bindings."""

    name, prefix, success, not_ready = "CUDA", "cu", "CUDA_SUCCESS", "CUDA_ERROR_NOT_READY"
    module, bindings, package = "cuda.bindings.driver", "cuda-bindings", "cuda-bindings"
    create_stream, create_event = "cuStreamCreate", "cuEventCreate"
    errors, hints = ERRORS, HINTS

    def absent(self, function: str, reason: str) -> BenchmarkError:  # noqa: ARG002  # as each
        why = f"CUDA's driver library, libcuda.so.1, cannot be used: {reason}"
        return BenchmarkError(FailureKind.NO_DRIVER, why, HINTS[FailureKind.NO_DRIVER])


CUDA = _Cuda()


def version_text(number: int) -> str:
    """`13.0` for 13000: major × 1000 + minor × 10 (cuda.h, cuDriverGetVersion)."""
    return f"{number // 1000}.{number % 1000 // 10}"


def start() -> str:
    """Initialise the driver; the CUDA version that it supports. BenchmarkError: NO_DRIVER, or by what it returned."""
    CUDA.call("cuInit", 0)
    number = int(CUDA.call("cuDriverGetVersion"))
    if number < OLDEST * 1000:
        raise BenchmarkError(
            FailureKind.NO_DRIVER,
            f"the NVIDIA driver is one for CUDA {version_text(number)}, which is too old",
            f"a driver for CUDA {OLDEST} or newer is needed",
        )
    return version_text(number)
