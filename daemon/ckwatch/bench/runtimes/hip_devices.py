"""AMD devices as HIP describes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ckwatch.bench.runtimes import hip_calls
from ckwatch.bench.runtimes.hip_calls import call
from ckwatch.timing.report import DeviceFacts

_MIB = 1 << 20

INFINITY_CACHE_BYTES: Mapping[str, int] = {
    "gfx942": 256 * _MIB,
    "gfx950": 256 * _MIB,
    "gfx1030": 128 * _MIB,
    "gfx1031": 96 * _MIB,
    "gfx1032": 32 * _MIB,
    "gfx1100": 96 * _MIB,
    "gfx1101": 64 * _MIB,
    "gfx1102": 32 * _MIB,
    "gfx1200": 32 * _MIB,
    "gfx1201": 64 * _MIB,
}
"""The memory-side cache of the largest part of an arch, which HIP does not report: what it calls L2 is that of one die
(4 MiB on MI300). From AMD's CDNA 3 and CDNA 4 white papers and the data sheets of the Radeon RX 6000, 7000 and 9000. A
partition of an MI300 may use the cache of the whole, so that the figure holds for it too."""

_KERNEL_MODULE = Path("/sys/module/amdgpu/version")


def find() -> tuple[DeviceFacts, ...]:
    """All devices, the one with the most compute units × clock first.

    RuntimeFailure: NO_DRIVER without a HIP that can be used, NO_DEVICE when it sees no device.
    """
    version = hip_calls.check_version()
    count = int(call("hipGetDeviceCount"))
    devices = [_facts(ordinal, version) for ordinal in range(count)]
    return tuple(sorted(devices, key=lambda device: -device.compute_units * device.clock_mhz))


def ordinal_of(device: DeviceFacts) -> int | None:
    """The number that HIP gives the device now, found by its PCI address; None when it is not there any more."""
    for ordinal in range(int(call("hipGetDeviceCount"))):
        if _pci(ordinal) == device.pci:
            return ordinal
    return None


def driver_version() -> str:
    """Version of the kernel's amdgpu module where it tells it, else that of HIP's driver interface."""
    try:
        return "amdgpu " + _KERNEL_MODULE.read_text().strip()
    except OSError:
        return "HIP " + hip_calls.version_text(int(call("hipDriverGetVersion")))


def last_level_cache_bytes(arch: str, reported_l2_bytes: int) -> int:
    """The cache before memory, of the whole device."""
    return max(reported_l2_bytes, INFINITY_CACHE_BYTES.get(arch, 0))


def _facts(ordinal: int, version: str) -> DeviceFacts:
    properties = call("hipGetDeviceProperties", ordinal)
    arch = _text(properties.gcnArchName).partition(":")[0]
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
        driver=driver_version(),
        runtime=f"HIP {version}",
    )


def _pci(ordinal: int) -> str:
    return _text(call("hipDeviceGetPCIBusId", 32, ordinal)).lower()


def _text(value: object) -> str:
    """A C string as hip-python gives it: str, bytes, or its own CStr."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
