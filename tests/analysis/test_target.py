"""Parts by their data sheets, against what their compute units do in a clock."""

from __future__ import annotations

import pytest

from ckwatch.analysis.target import RATES, target_of, targets
from ckwatch.timing.parts import AMD_PARTS, Part

# FLOPs of a compute unit in a clock, dense, by the white papers of CDNA 2, CDNA 3 and CDNA 4.
FLOPS = {
    "gfx90a": {"f16": 1024, "bf16": 1024, "i8": 1024, "f32": 256, "f64": 256},
    "gfx942": {"f16": 2048, "bf16": 2048, "f8": 4096, "i8": 4096, "f32": 256, "f64": 256},
    "gfx950": {"f16": 4096, "bf16": 4096, "f8": 8192, "i8": 8192, "f32": 256, "f64": 128},
}
PARTS = [(arch, part) for arch in FLOPS for _, part in AMD_PARTS[arch]]


@pytest.mark.parametrize(("arch", "part"), PARTS, ids=[part.name for _, part in PARTS])
def test_peaks_are_what_the_units_do(arch: str, part: Part) -> None:
    for dtype, flops in FLOPS[arch].items():
        per_second = part.compute_units * flops * part.clock_mhz * 1e6
        assert part.peak_tflops[dtype] * 1e12 == pytest.approx(per_second, rel=2e-3), dtype


@pytest.mark.parametrize(
    ("name", "arch", "bytes_per_clock"),
    [
        ("MI250X", "gfx90a", 4096),  # of a GCD: 32 slices of 128 B
        ("MI210", "gfx90a", 4096),
        ("MI300X", "gfx942", 8 * 2048),  # 8 dies with 16 channels of 128 B
        ("MI300A", "gfx942", 6 * 2048),
        ("MI355X", "gfx950", 8 * 2048),
    ],
)
def test_l2_of_all_dies(name: str, arch: str, bytes_per_clock: int) -> None:
    target = target_of(arch, name)
    assert target is not None
    assert target.l2_bytes_per_clock == bytes_per_clock


def test_every_arch_with_rates_has_parts() -> None:
    assert all(targets(arch) for arch in RATES)
    assert targets("gfx942:xnack-")[0] == "MI325X"
    assert targets("gfx1100") == ()
    assert target_of("gfx1100") is None
    with pytest.raises(ValueError, match="no part of gfx942 is called 'MI210': there are MI325X, MI300X, MI300A"):
        target_of("gfx942", "MI210")
