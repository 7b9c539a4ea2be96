"""AMD devices as HIP describes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ckwatch.bench.runtimes import hip_calls
from ckwatch.bench.runtimes.hip_calls import call
from ckwatch.timing.parts import AMD_PARTS, MIB
from ckwatch.timing.report import DeviceFacts

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
    """The cache before memory, of the whole device: the largest that a part of this arch has.

    HIP does not report it: what it calls L2 is that of one die, 4 MiB of an MI300 that has 256 MiB of Infinity Cache. A
    partition of such a part may use the cache of the whole.
    """
    processor = arch.partition(":")[0]
    instinct = (part.last_level_cache_bytes for _, part in AMD_PARTS.get(processor, ()))
    return max(reported_l2_bytes, RADEON_CACHE_BYTES.get(processor, 0), *instinct)


def _facts(ordinal: int, version: str) -> DeviceFacts:
    properties = call("hipGetDeviceProperties", ordinal)
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
        driver=driver_version(),
        runtime=f"HIP {version}",
    )


def _pci(ordinal: int) -> str:
    return _text(call("hipDeviceGetPCIBusId", 32, ordinal)).lower()


def _text(value: object) -> str:
    """A C string as hip-python gives it: str, bytes, or its own CStr."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
