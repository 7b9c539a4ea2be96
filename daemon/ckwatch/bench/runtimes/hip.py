"""AMD GPUs (`hip:N`) through hip-python: finding them, and the open device with its gated stream.

HIP must not be initialised in a process that forks afterwards; nothing here does, and callers of `open` must not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes import hip_api
from ckwatch.bench.runtimes.blas import blas_gemm
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes, Launch, version_of
from ckwatch.bench.runtimes.gpu_runtime import GpuRuntime
from ckwatch.bench.runtimes.hip_api import HIP, LAUNCH_ERRORS
from ckwatch.bench.runtimes.hip_blas import BlasLibrary, available_libraries
from ckwatch.bench.runtimes.hip_monitor import AmdsmiReadings
from ckwatch.bench.runtimes.stream_gate import GateSignal
from ckwatch.model.emulated_archs import EMULATED
from ckwatch.model.gpu_specs import AMD_GPUS, MIB, DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem

EVENTS: Mapping[int, str] = {0x20000000: "without system fence", 0: "with system fence"}
"""Flags of events, the better first. By default HIP writes back and invalidates the L2 cache at each event, which would
be timed and would leave no cache hot; `hipEventDisableSystemFence` (hip_runtime_api.h, ROCm 5.7 and newer) does not."""

_TRIALS = 3
"""Launches of each of the library's candidates, for the choice between them."""


def find() -> tuple[DeviceFacts, ...]:
    """All AMD devices, the one with the most compute units × clock first. BenchmarkError: NO_DRIVER without HIP or
    hip-python, or with one that does not fit; NO_DEVICE when HIP sees none."""
    version = hip_api.check_version()
    count = int(HIP.call("hipGetDeviceCount"))
    devices = [_facts(ordinal, version) for ordinal in range(count)]
    if devices and all(device.description.startswith(f"{EMULATED} ") for device in devices):
        raise BenchmarkError(
            FailureKind.NO_DEVICE,
            f"{devices[0].description} is not a GPU: nothing can be timed on it",
            "`ckwatch verify` says whether kernels are right; without the emulator as libamdhip64, GPUs are found",
        )
    return tuple(sorted(devices, key=lambda device: -device.compute_units * device.clock_mhz))


class HipRuntime(GpuRuntime):
    """An AMD device that `find` has found, opened. BenchmarkError as `find`, and NO_DEVICE when it is not there any
    more."""

    fill_function = "hipMemsetAsync"
    copy_function = "hipMemcpyDtoDAsync"

    def __init__(self, facts: DeviceFacts) -> None:
        hip_api.check_version()
        ordinal = _ordinal_of(facts)
        self._vendors: list[BlasLibrary] | None = None
        self._library_name = ""
        HIP.call("hipSetDevice", ordinal)
        super().__init__(facts, HIP, AmdsmiReadings(facts.pci or ""), _gate_signal(ordinal), _event_flags())
        HIP.forget_last_error()  # what was tried and refused until now is no failure of a launch

    @property
    def versions(self) -> dict[str, str]:
        """Versions; and how the stream is gated (`gate`) and what events do (`events`), which timings depend on."""
        return {
            "runtime": self.facts.runtime,
            "driver": self.facts.driver,
            "hip-python": version_of("rocm-bindings-hip"),
            "amdsmi": self._readings.version,
            "gate": self._gate.state,
            "events": EVENTS[self._event_flags],
        }

    def allocate(self, size_bytes: int) -> int:
        name, results = HIP.status("hipMalloc", max(size_bytes, 1))
        if name == "hipErrorOutOfMemory":
            HIP.forget_last_error()
            free, total = HIP.call("hipMemGetInfo")
            raise BenchmarkError(
                FailureKind.NO_MEMORY,
                f"needs {_mib(size_bytes)} of device memory; {_mib(free)} of {_mib(total)} is free",
                "a smaller shape, or a device that no other program uses",
            )
        if name != "hipSuccess":
            raise HIP.failure("hipMalloc", name)
        return int(results[0])

    def free(self, address: int) -> None:
        HIP.call("hipFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        self.synchronize()
        HIP.call("hipMemcpy", address, _address(data), data.nbytes, HIP.binding.hipMemcpyKind.hipMemcpyHostToDevice)

    def download(self, address: int, data: Bytes) -> None:
        self.synchronize()
        HIP.call("hipMemcpy", _address(data), address, data.nbytes, HIP.binding.hipMemcpyKind.hipMemcpyDeviceToHost)

    def _require_launched(self) -> None:
        # one that failed in the artifact is reported only as the thread's last error
        name = HIP.last_error()
        if name in LAUNCH_ERRORS:
            raise HIP.failure("a launch", name)

    def library(self, problem: KernelProblem, addresses: dict[str, int]) -> Launch | None:
        """The fastest of hipBLASLt's and rocBLAS's candidates, by a short trial of each on the buffers."""
        gemm = blas_gemm(problem)
        if gemm is None:
            return None
        tried: list[tuple[float, str, Launch]] = []
        for vendor in self._started():
            for candidate in vendor.candidates(gemm, addresses):
                took_us = self._trial(candidate, vendor.name)
                if took_us is not None:
                    tried.append((took_us, vendor.name, candidate))
        HIP.forget_last_error()
        if not tried:
            return None
        _, self._library_name, launch = min(tried, key=lambda one: one[0])
        return launch

    @property
    def library_name(self) -> str:
        """With its version: that of the last `library`, before that those that are there."""
        return self._library_name or ", ".join(vendor.name for vendor in self._started())

    def loaded(self) -> None:
        """To be called when an artifact has been loaded: BenchmarkError (UNLOADABLE) when it brought another
        libamdhip64 with it, whose streams are not those of this one."""
        libraries = _mapped("libamdhip64.so")
        if len(libraries) > 1:
            raise BenchmarkError(
                FailureKind.UNLOADABLE,
                "the artifact is linked with another HIP than the one that is loaded",
                "compile it with the ROCm whose libamdhip64.so is used here, or set ROCM_PATH to the one that it needs",
                "\n".join(libraries),
            )

    def _started(self) -> list[BlasLibrary]:
        if self._vendors is None:
            self._vendors = available_libraries(self.stream, self.allocate)
            HIP.forget_last_error()
        return self._vendors

    def _trial(self, launch: Launch, library: str) -> float | None:
        """Microseconds of `_TRIALS` launches after a first one; None when the library refuses."""
        begin, end = self.event(), self.event()
        try:
            launch()
            self.synchronize()
            with self.gate():
                self.record(begin)
                for _ in range(_TRIALS):
                    launch()
                self.record(end)
            self.synchronize()
        except BenchmarkError as failure:
            if failure.kind is FailureKind.BROKEN:
                return None
            raise BenchmarkError(FailureKind.LOST, f"{library}: {failure.message}", failure.hint) from failure
        return self.elapsed_us(begin, end)


open = HipRuntime  # noqa: A001  # the protocol's word


def _event_flags() -> int:
    """The best flags of events that this HIP takes."""
    for flags in EVENTS:
        name, results = HIP.status("hipEventCreateWithFlags", flags)
        if name == "hipSuccess":
            HIP.status("hipEventDestroy", int(results[0]))
            return flags
        if name != "hipErrorInvalidValue":
            raise HIP.failure("hipEventCreateWithFlags", name)
    raise HIP.failure("hipEventCreateWithFlags", "hipErrorInvalidValue")


def _address(data: Bytes) -> int:
    if not data.flags.c_contiguous:
        raise ValueError("an array that is copied to or from a device must be contiguous")
    return int(data.ctypes.data)


def _mib(size_bytes: Any) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


def _mapped(name: str) -> list[str]:
    """Paths of the libraries of this name that are mapped into this process, each once."""
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    found = {
        (words[3], words[4]): words[5] for words in lines if len(words) == 6 and Path(words[5]).name.startswith(name)
    }
    return sorted(found.values())


RADEON_CACHE_BYTES: Mapping[str, int] = {
    "gfx1030": 128 * MIB,
    "gfx1031": 96 * MIB,
    "gfx1032": 32 * MIB,
    "gfx1100": 96 * MIB,
    "gfx1101": 64 * MIB,
    "gfx1102": 32 * MIB,
    "gfx1200": 32 * MIB,
    "gfx1201": 64 * MIB,
}
"""Infinity Cache of the largest Radeon of an arch, from AMD's data sheets of the RX 6000, 7000 and 9000 series."""

_AMDGPU_VERSION_FILE = Path("/sys/module/amdgpu/version")


def _ordinal_of(device: DeviceFacts) -> int:
    """The number that HIP gives the device now, found by its PCI address."""
    for ordinal in range(int(HIP.call("hipGetDeviceCount"))):
        if _pci(ordinal) == device.pci:
            return ordinal
    raise BenchmarkError(FailureKind.NO_DEVICE, f"{device.description} at {device.pci} is gone")


def _driver_version() -> str:
    """Version of the kernel's amdgpu module where it tells it, else that of HIP's driver interface."""
    try:
        return "amdgpu " + _AMDGPU_VERSION_FILE.read_text().strip()
    except OSError:
        return "HIP " + hip_api.version_text(int(HIP.call("hipDriverGetVersion")))


def last_level_cache_bytes(arch: str, reported_l2_bytes: int) -> int:
    """The cache before memory, of the whole device: the largest that a part of this arch has.

    HIP does not report it: what it calls L2 is that of one die, 4 MiB of an MI300 that has 256 MiB of Infinity Cache. A
    partition of such a part may use the cache of the whole.
    """
    processor = arch.partition(":")[0]
    instinct = (part.last_level_cache_bytes for _, part in AMD_GPUS.get(processor, ()))
    return max(reported_l2_bytes, RADEON_CACHE_BYTES.get(processor, 0), *instinct)


def _facts(ordinal: int, version: str) -> DeviceFacts:
    properties = HIP.call("hipGetDeviceProperties", ordinal)
    arch = _text(properties.gcnArchName)  # with its target features, as in `gfx942:sramecc+:xnack-`
    return DeviceFacts(
        name=f"hip:{ordinal}",
        description=_text(properties.name) or arch,
        arch=arch,
        pci=_pci(ordinal),
        total_memory_bytes=int(properties.totalGlobalMem),
        last_level_cache_bytes=last_level_cache_bytes(arch, int(properties.l2CacheSize)),
        local_memory_bytes=int(properties.sharedMemPerBlock),
        compute_units=int(properties.multiProcessorCount),
        clock_mhz=properties.clockRate / 1000,
        memory_clock_mhz=properties.memoryClockRate / 1000,
        driver=_driver_version(),
        runtime=f"HIP {version}",
    )


def _pci(ordinal: int) -> str:
    return _text(HIP.call("hipDeviceGetPCIBusId", 32, ordinal)).lower()


def _text(value: object) -> str:
    """A C string as hip-python gives it: str, bytes, or its own CStr."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_SIGNAL_BYTES = 8
"""The only size that hipExtMallocWithFlags takes for signal memory."""

_WHOLE = 0xFFFFFFFF


def _gate_signal(ordinal: int) -> GateSignal | str:
    """Signal memory, or else host memory that the device sees; or why there is neither."""
    hip = HIP.binding
    attribute = hip.hipDeviceAttribute_t.hipDeviceAttributeCanUseStreamWaitValue
    answer, can = HIP.status("hipDeviceGetAttribute", attribute, ordinal)
    if answer != "hipSuccess" or not can[0]:
        return "the device cannot wait for a value"
    for function, flags, name in (
        ("hipExtMallocWithFlags", hip.hipMallocSignalMemory, "signal memory"),
        ("hipHostMalloc", hip.hipHostMallocMapped | hip.hipHostMallocCoherent, "host memory"),
    ):
        answer, memory = HIP.status(function, _SIGNAL_BYTES, flags)
        if answer == "hipSuccess" and memory[0] is not None:
            address = int(memory[0])
            number = ctypes.c_uint64.from_address(address)
            return GateSignal(HIP, name, number, address, (hip.hipStreamWaitValueGte, _WHOLE), shows_wait=False)
    return "no memory that host and device both see"
