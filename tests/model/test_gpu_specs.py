"""Which part a device is, and what it can do."""

from __future__ import annotations

import pytest

from ckwatch.model.gpu_specs import AMD_GPUS, NVIDIA_GPUS, DeviceFacts, GpuSpecs, specs_of
from helpers.each_row import each_row


def device(kind: str, arch: str, description: str, units: int = 0, clock: float = 0.0) -> DeviceFacts:
    return DeviceFacts(name=f"{kind}:0", description=description, arch=arch, compute_units=units, clock_mhz=clock)


@each_row(
    ("facts", "name"),
    [
        (device("hip", "gfx90a:sramecc+:xnack-", "AMD Instinct MI210", 104), "MI210"),
        (device("hip", "gfx90a", "AMD Instinct MI250X / MI250", 110), "MI250X"),
        (device("hip", "gfx90a", "AMD Instinct MI250X / MI250", 104), "MI210"),
        (device("hip", "gfx942", "AMD Instinct MI300X", 304), "MI300X"),
        (device("hip", "gfx942", "AMD Instinct MI325X", 304), "MI325X"),
        (device("hip", "gfx942", "AMD Instinct MI300A", 228), "MI300A"),
        (device("hip", "gfx942", "AMD Instinct MI300X VF", 304), "MI300X"),
        (device("hip", "gfx942", "AMD Instinct MI300X", 38), "38/304 of MI300X"),
        (device("hip", "gfx942", "", 304), "MI325X"),
        (device("hip", "gfx950", "AMD Instinct MI350X", 256), "MI350X"),
        (device("hip", "gfx950", "AMD Instinct MI355X", 256), "MI355X"),
        (device("hip", "gfx950", "", 256, 2200), "MI355X"),
        (device("hip", "gfx942", "", 80), "MI308X"),
        (device("hip", "gfx942", "", 81), None),
        (device("hip", "gfx942", ""), None),
        (device("hip", "gfx1100", "AMD Radeon RX 7900 XTX", 96), None),
        (device("cuda", "sm_90", "NVIDIA H200", 132), "H200 SXM"),
        (device("cuda", "sm_90", "NVIDIA H200 NVL", 132), "H200 NVL"),
        (device("cuda", "sm_90", "NVIDIA H200 MIG 1g.18gb", 16), "16/132 of H200 SXM"),
        (device("cuda", "sm_90", "NVIDIA GH200 480GB", 132), "GH200"),
        (device("cuda", "sm_90", "NVIDIA H100 80GB HBM3", 132), "H100 SXM"),
        (device("cuda", "sm_90", "NVIDIA H100 PCIe", 114), "H100 PCIe"),
        (device("cuda", "sm_90", "NVIDIA H20", 78), None),
        (device("cuda", "sm_80", "NVIDIA A100-SXM4-80GB", 108), "A100 80GB"),
        (device("cuda", "sm_80", "NVIDIA A100 80GB PCIe", 108), "A100 80GB"),
        (device("cuda", "sm_80", "NVIDIA A100-SXM4-40GB", 108), "A100 40GB"),
        (device("cuda", "sm_89", "NVIDIA L40S", 142), "L40S"),
        (device("cuda", "sm_89", "NVIDIA L40", 142), None),
        (device("cuda", "sm_89", "NVIDIA L4", 58), "L4"),
        (device("cuda", "sm_86", "NVIDIA A10", 72), "A10"),
        (device("cuda", "sm_86", "NVIDIA A10G", 80), None),
        (device("cuda", "sm_90", "NVIDIA H200", 999), None),
        (device("cpu", "x86-64", "a CPU named MI300X", 304), None),
    ],
)
def test_part_of(facts: DeviceFacts, name: str | None) -> None:
    part = specs_of(facts)
    assert (part and part.name) == name


ALL = [part for rows in AMD_GPUS.values() for _, part in rows] + [part for _, part in NVIDIA_GPUS]


@each_row("part", ALL)
def test_peaks_of_a_part_fit_one_another(part: GpuSpecs) -> None:
    peaks = part.peak_tflops
    assert set(peaks) - {"f4"} == {"f16", "bf16", "f8", "bf8", "i8", "f32", "f64"}
    assert peaks.get("f4", 2 * peaks["f8"]) == pytest.approx(2 * peaks["f8"], rel=1e-4)
    assert peaks["i8"] >= peaks["f16"] > peaks["f32"] >= peaks["f64"] > 0
    assert peaks["f8"] == peaks["bf8"] >= peaks["f16"] == peaks["bf16"]


FLOPS_PER_CLOCK = {"MI210": 1024, "MI250X": 1024, "MI300X": 2048, "MI325X": 2048, "MI300A": 2048, "MI350X": 4096,
    "MI355X": 4096, "H200 SXM": 4096, "H100 SXM": 4096, "H100 PCIe": 4096, "H200 NVL": 4096, "GH200": 4096,
    "B200": 8192, "A100 40GB": 2048, "A100 80GB": 2048, "L40S": 1024, "L4": 1024, "A10": 1024}  # fmt: skip


@each_row(("name", "per_clock"), FLOPS_PER_CLOCK.items())
def test_f16_peaks_are_units_times_clock(name: str, per_clock: int) -> None:
    part = next(part for part in ALL if part.name == name)
    assert part.peak_tflops["f16"] == pytest.approx(part.compute_units * per_clock * part.clock_mhz * 1e-6, rel=0.005)


def test_a_partition_has_its_share_of_the_peaks_and_all_of_the_bandwidth() -> None:
    whole = specs_of(device("hip", "gfx942", "AMD Instinct MI300X", 304))
    part = specs_of(device("hip", "gfx942", "AMD Instinct MI300X", 38))
    assert whole is not None
    assert part is not None
    assert part.peak_tflops["f16"] == pytest.approx(whole.peak_tflops["f16"] / 8)
    assert part.bandwidth_tbs == whole.bandwidth_tbs
