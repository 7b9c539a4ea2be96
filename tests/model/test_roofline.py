"""The time that no kernel can beat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cases.gemm_case import GemmCase
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape
from ckwatch.model.roofline import CacheState, bound
from helpers.each_row import each_row
from helpers.units import place

MI300X = DeviceFacts(
    name="hip:0", description="AMD Instinct MI300X", arch="gfx942", compute_units=304, clock_mhz=2100.0,
    last_level_cache_bytes=4 << 20,
)  # fmt: skip
H200 = DeviceFacts(name="cuda:0", description="NVIDIA H200", arch="sm_90", compute_units=132, clock_mhz=1980.0)
CPU = DeviceFacts(name="cpu", description="a CPU", arch="x86-64", compute_units=2, clock_mhz=2000.0)


def square(size: int, case: GemmCase | None = None, k: int | None = None) -> KernelProblem:
    depth = k or size
    sizes = {"M": size, "N": size, "K": depth, "LDA": depth, "LDB": depth, "LDC": size, "LDD": 0}
    return problem_of((case or GemmCase()).operation(), Shape("s", sizes, {"kBatch": 1}, place()), "gfx942")


@each_row(
    ("problem", "facts", "cache", "clock", "time_us", "limited_by"),
    [
        (square(4096), MI300X, CacheState.COLD, None, 2 * 4096**3 / 1307.4e6, "matrix"),
        (square(4096), MI300X, CacheState.COLD, 1050.0, 2 * 2 * 4096**3 / 1307.4e6, "matrix"),
        (square(4096, GemmCase(a="f8", b="f8")), MI300X, CacheState.HOT, None, 2 * 4096**3 / 2614.9e6, "matrix"),
        (square(4096, GemmCase(a="f8", b="f16")), MI300X, CacheState.HOT, None, 2 * 4096**3 / 2614.9e6, "matrix"),
        (square(4096, k=64), MI300X, CacheState.COLD, None, 2 * (4096**2 + 2 * 4096 * 64) / 5.3e6, "memory"),
        # it all stays in 256 MiB of cache, whatever one die reports
        (square(4096, k=64), MI300X, CacheState.HOT, None, 2 * 4096**2 * 64 / 1307.4e6, "matrix"),
        (square(16384, k=64), MI300X, CacheState.HOT, None, (2 * (16384**2 + 2 * 16384 * 64) - (256 << 20)) / 5.3e6, "memory"),
        # the highest clock, not that of the data sheet's peak
        (square(4096), H200, CacheState.COLD, None, 2 * 4096**3 / (989.4e6 * 1980 / 1830), "matrix"),
        (square(4096), replace(H200, clock_mhz=0.0), CacheState.COLD, None, 2 * 4096**3 / 989.4e6, "matrix"),
        # no matrix instruction for it
        (square(64, GemmCase(a="i32", b="i32", c="i32", accumulator="i32")), MI300X, CacheState.COLD, None, 4 * 3 * 64**2 / 5.3e6, "memory"),
    ],
)  # fmt: skip
def test_bounds(
    problem: KernelProblem, facts: DeviceFacts, cache: CacheState, clock: float | None, time_us: float, limited_by: str
) -> None:
    found = bound(problem, facts, cache, clock)
    assert found is not None
    assert found.time_us == pytest.approx(time_us)
    assert found.limited_by == limited_by


def test_a_larger_cache_that_the_device_reports_counts() -> None:
    reported = replace(MI300X, last_level_cache_bytes=1 << 30)
    problem = square(16384, k=64)
    found = bound(problem, reported, CacheState.HOT)
    assert found is not None
    assert found.limited_by == "matrix"


def test_of_a_custom_kernel_the_memory_is_known() -> None:
    custom = replace(square(4096), computed=None, flops=None)
    found = bound(custom, MI300X, CacheState.COLD)
    assert found is not None
    assert found.limited_by == "memory"
    assert bound(custom, MI300X, CacheState.HOT) is None


def test_of_an_unknown_device_nothing_is() -> None:
    assert bound(square(64), CPU, CacheState.COLD) is None
