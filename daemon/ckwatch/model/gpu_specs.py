"""Data sheets of GPUs: what each device can do at best.

Peak throughputs are dense ones of the matrix units, in 10^12 operations per second (a multiply-add counts as two), at
`clock_mhz` with all compute units busy. Where a GPU has no matrix instruction for a dtype, the peak is that of the
dtype it must be converted to (f8 on CDNA2 and Ampere: f16), so that a bound computed from it stays a bound. f32 on
NVIDIA is TF32, which a kernel may use. f4 is that of microscaled operands, of parts that multiply them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ckwatch.model.lazy_dataclass import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpecs:
    """A device by its data sheet.

    `peak_tflops` by the operands' dtype; `bandwidth_tbs` of its memory in 10^12 bytes per second; `clock_mhz` the clock
    that the peaks belong to; `local_memory_bytes` of LDS or shared memory that one workgroup may have;
    `last_level_cache_bytes` of the whole device. `source` of the figures. `dies`: how many have an L2 of their own,
    where their compute units are not as many as those of the arch's other parts; 0 elsewhere.
    """

    name: str
    peak_tflops: Mapping[str, float]
    bandwidth_tbs: float
    clock_mhz: float
    compute_units: int
    local_memory_bytes: int
    last_level_cache_bytes: int
    source: str
    dies: int = 0


def _peaks(f16: float, f8: float, i8: float, f32: float, f64: float) -> dict[str, float]:
    return {"f16": f16, "bf16": f16, "f8": f8, "bf8": f8, "i8": i8, "f32": f32, "f64": f64}


def _amd(
    name: str, units: int, clock: float, peaks: Mapping[str, float], bandwidth: float, lds_kib: int, cache_mib: int
) -> GpuSpecs:
    return GpuSpecs(
        name=name,
        peak_tflops=peaks,
        bandwidth_tbs=bandwidth,
        clock_mhz=clock,
        compute_units=units,
        local_memory_bytes=lds_kib * KIB,
        last_level_cache_bytes=cache_mib * MIB,
        source=f"AMD Instinct {name} data sheet",
    )


AMD_GPUS: Mapping[str, tuple[tuple[str, GpuSpecs], ...]] = {
    "gfx90a": (
        (r"MI250X?", _amd("MI250X", 110, 1700, _peaks(191.5, 191.5, 191.5, 47.9, 47.9), 1.6, 64, 8)),
        (r"MI210|MI250", _amd("MI210", 104, 1700, _peaks(181.0, 181.0, 181.0, 45.3, 45.3), 1.6, 64, 8)),
    ),
    "gfx942": (
        (r"MI325X", _amd("MI325X", 304, 2100, _peaks(1307.4, 2614.9, 2614.9, 163.4, 163.4), 6.0, 64, 256)),
        (r"MI300X", _amd("MI300X", 304, 2100, _peaks(1307.4, 2614.9, 2614.9, 163.4, 163.4), 5.3, 64, 256)),
        (
            r"MI308X",
            replace(
                _amd("MI308X", 80, 1800, _peaks(294.9, 589.8, 589.8, 36.9, 36.9), 5.3, 64, 256),
                source="no data sheet is public: 4 dies of 20 of MI300X's compute units at 1.8 GHz, MI300X's memory",
                dies=4,
            ),
        ),
        (r"MI300A", _amd("MI300A", 228, 2100, _peaks(980.6, 1961.2, 1961.2, 122.6, 122.6), 5.3, 64, 256)),
    ),
    "gfx950": (
        (
            r"MI355X",
            _amd("MI355X", 256, 2400, _peaks(2516.6, 5033.2, 5033.2, 157.3, 78.6) | {"f4": 10066.3}, 8.0, 160, 256),
        ),
        (
            r"MI350X",
            _amd("MI350X", 256, 2200, _peaks(2306.9, 4613.7, 4613.7, 144.2, 72.1) | {"f4": 9227.5}, 8.0, 160, 256),
        ),
    ),
}
"""By arch: what the description says, and the part. A GCD of an MI250 or MI250X is a device of its own.

Of parts that fit equally the first is taken, which is the faster one.
"""


def _nvidia(
    name: str, units: int, clock: float, peaks: Mapping[str, float], bandwidth: float, shared_kib: int, cache_mib: int
) -> GpuSpecs:
    return GpuSpecs(
        name=name,
        peak_tflops=peaks,
        bandwidth_tbs=bandwidth,
        clock_mhz=clock,
        compute_units=units,
        local_memory_bytes=shared_kib * KIB,
        last_level_cache_bytes=cache_mib * MIB,
        source=f"NVIDIA {name} data sheet, dense",
    )


_HOPPER_SXM = _peaks(989.4, 1978.9, 1978.9, 494.7, 66.9)
_HOPPER_NVL = _peaks(835.5, 1670.5, 1670.5, 417.5, 60.0)
_A100 = _peaks(312.0, 312.0, 624.0, 156.0, 19.5)

NVIDIA_GPUS: tuple[tuple[str, GpuSpecs], ...] = (
    (r"B200", _nvidia("B200", 148, 1850, _peaks(2250.0, 4500.0, 4500.0, 1125.0, 40.0), 8.0, 227, 126)),
    (r"GH200", _nvidia("GH200", 132, 1830, _HOPPER_SXM, 4.9, 227, 50)),
    (r"H200 NVL", _nvidia("H200 NVL", 132, 1545, _HOPPER_NVL, 4.8, 227, 50)),
    (r"H200", _nvidia("H200 SXM", 132, 1830, _HOPPER_SXM, 4.8, 227, 50)),
    (r"H100 NVL", _nvidia("H100 NVL", 132, 1545, _HOPPER_NVL, 3.9, 227, 50)),
    (r"H100 PCIe", _nvidia("H100 PCIe", 114, 1620, _peaks(756.5, 1513.0, 1513.0, 378.0, 51.0), 2.0, 227, 50)),
    (r"H100", _nvidia("H100 SXM", 132, 1830, _HOPPER_SXM, 3.35, 227, 50)),
    (r"A100.*80GB", _nvidia("A100 80GB", 108, 1410, _A100, 2.039, 163, 40)),
    (r"A100", _nvidia("A100 40GB", 108, 1410, _A100, 1.555, 163, 40)),
    (r"L40S", _nvidia("L40S", 142, 2490, _peaks(362.1, 733.0, 733.0, 183.0, 1.4), 0.864, 99, 96)),
    (r"L4", _nvidia("L4", 58, 2040, _peaks(121.0, 242.5, 242.5, 60.0, 0.5), 0.3, 99, 48)),
    (r"A10", _nvidia("A10", 72, 1695, _peaks(125.0, 125.0, 250.0, 62.5, 0.5), 0.6, 99, 6)),
)
"""Pairs of text in a device's description and its part; the first that fits counts.

Peaks of the SXM parts belong to 1830 MHz, not to the highest clock of 1980 MHz: 132 · 4096 · 1.83 GHz = 989.4 TFLOP/s.
"""


def specs_of(facts: DeviceFacts) -> GpuSpecs | None:
    """The part that a device is, or None where it is not known, of the CPU always.

    A device with fewer compute units than its part (a partition of it) has its share of the peaks, but all of the
    bandwidth and cache, since the other partitions may be idle.
    """
    if facts.kind == "hip":
        return _amd_specs(facts)
    if facts.kind == "cuda":
        named = next((part for pattern, part in NVIDIA_GPUS if _description_matches(facts, pattern)), None)
        return None if named is None else _share(named, facts)
    return None


def _amd_specs(facts: DeviceFacts) -> GpuSpecs | None:
    candidates = AMD_GPUS.get(facts.arch.partition(":")[0], ())
    fitting = [(pattern, part) for pattern, part in candidates if facts.compute_units in (0, part.compute_units)]
    named = next((part for pattern, part in fitting if _description_matches(facts, pattern)), None)
    if named is not None:
        return named
    partitioned = next((part for pattern, part in candidates if _description_matches(facts, pattern)), None)
    if partitioned is not None:
        return _share(partitioned, facts)
    # a description that names no part: by the compute units, as far as the clock fits
    fitting = [row for row in fitting if facts.clock_mhz <= row[1].clock_mhz] or fitting
    return fitting[0][1] if fitting and facts.compute_units else None


def _description_matches(facts: DeviceFacts, pattern: str) -> bool:
    return re.search(rf"\b(?:{pattern})\b", facts.description, re.IGNORECASE) is not None


def _share(part: GpuSpecs, facts: DeviceFacts) -> GpuSpecs | None:
    """The part with as many compute units as the device has; None where the device has more."""
    units = facts.compute_units
    if units in (0, part.compute_units):
        return part
    if units > part.compute_units:
        return None
    peaks = {dtype: peak * units / part.compute_units for dtype, peak in part.peak_tflops.items()}
    return replace(part, name=f"{units}/{part.compute_units} of {part.name}", peak_tflops=peaks, compute_units=units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that units can be timed on.

    `pci` is its PCI address (`0000:c1:00.0`), None for the CPU. `machine` is the name of the host that has it, empty
    where the daemon's worker runs, here or behind its launcher.
    """

    name: str
    description: str
    arch: str
    pci: str | None = None
    driver: str = ""
    machine: str = ""

    @property
    def identity(self) -> str:
        """An identity among the devices of one machine that stays when their numbers change."""
        return self.pci or self.name

    @property
    def address(self) -> str:
        """The name of the device in requests, also when numbers change: `0000:c1:00.0`, `gpu-box/0000:c1:00.0`,
        `cpu`."""
        return f"{self.machine}/{self.identity}" if self.machine else self.identity

    @property
    def label(self) -> str:
        """As it is shown: `hip:0`, or `hip:0 on gpu-box`."""
        return f"{self.name} on {self.machine}" if self.machine else self.name

    @property
    def kind(self) -> str:
        """`hip`, `cuda` or `cpu`."""
        return self.name.partition(":")[0]

    def is_called(self, wanted: str) -> bool:
        """Return True if a setting or a request means it: `hip:0`, `gpu-box/hip:0`, or the PCI address in place of
        `hip:0`."""
        machine, _, name = wanted.rpartition("/")
        return machine == self.machine and name in (self.name, self.pci)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts(Device):
    """A device as its own runtime describes it.

    Clocks in MHz are the highest that its specification allows; 0 for what is not known. `last_level_cache_bytes` is
    that of the whole device. `local_memory_bytes`: LDS, or shared memory, that one workgroup may have at most.
    """

    total_memory_bytes: int = 0
    last_level_cache_bytes: int = 0
    local_memory_bytes: int = 0
    compute_units: int = 0
    clock_mhz: float = 0.0
    memory_clock_mhz: float = 0.0
    runtime: str = ""
