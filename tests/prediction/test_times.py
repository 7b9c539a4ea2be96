"""The terms of a product's time, worked out by hand for a part with round numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.gemm_instances import INSTANCE, MACHINE
from ckwatch.prediction.times import (
    CACHE_REACHED,
    LATENCY_US,
    LAUNCH_US,
    MEMORY_REACHED,
    Bottleneck,
    GemmSizes,
    KernelFigures,
    estimated_figures,
    gemm_time,
)

SIZES = GemmSizes(m=1024, n=1024, k=1024, x_bytes=1, w_bytes=1, y_bytes=2)
FIGURES = KernelFigures(waves_per_simd=1, lds_bytes=32768)


def test_each_resource_alone() -> None:
    found = gemm_time(INSTANCE, FIGURES, SIZES, MACHINE)
    assert (found.workgroups, found.rounds, found.together) == (64, 8, 1)
    # 2 · 128³ / 4 FLOP of a wave at 2048 a clock, 8 rounds, 1000 MHz
    assert found.terms[Bottleneck.MATRIX] == pytest.approx(8 * 0.512)
    # 32768 bytes written, and twice as many read, by two waves along each side; 131072 through the epilogue
    assert found.terms[Bottleneck.LDS] == pytest.approx((8 * 98304 + 131072) / 128 / 1000)
    assert found.terms[Bottleneck.L1] == pytest.approx(8 * 32768 / 64 / 1000)
    assert found.terms[Bottleneck.MEMORY] == pytest.approx((2 * 1024**2 + 2 * 1024**2) / 5e6 / MEMORY_REACHED)
    # 8 workgroups of a die are 8 along M and 1 along N: 1152 rows and columns for 8
    assert found.terms[Bottleneck.CACHE] == pytest.approx(64 * 8 * 128 * 1152 / 8 / 10e6 / CACHE_REACHED)
    assert found.time_us > LAUNCH_US + max(found.terms.values())
    assert sum(found.shares.values()) == pytest.approx(1)


def test_pipelines_leave_different_chains() -> None:
    slow = replace(MACHINE, matrix_reached=100.0, lds=1e9)
    chains = {
        name: gemm_time(replace(INSTANCE, pipeline=name), FIGURES, SIZES, slow).terms[Bottleneck.LATENCY]
        for name in ("v1", "v2", "v3", "v4", "v5")
    }
    # what is computed takes next to no time, barriers 0.32 µs: latency in each round, in half of them, ahead of them
    assert chains["v1"] - chains["v3"] == pytest.approx(8 * 0.325, rel=0.02)
    assert chains["v2"] < chains["v3"] == pytest.approx(chains["v4"])
    assert chains["v5"] < chains["v3"]
    assert chains["v3"] > 9 * LATENCY_US


def test_what_decides_between_equals() -> None:
    alone = gemm_time(INSTANCE, FIGURES, SIZES, MACHINE)
    small = gemm_time(replace(INSTANCE, instruction=(16, 16), repeats=(4, 4)), FIGURES, SIZES, MACHINE)
    assert alone.time_us < small.time_us < 1.01 * alone.time_us
    in_turns = gemm_time(replace(INSTANCE, pipeline="v1", interwave=True), FIGURES, SIZES, MACHINE)
    assert in_turns.time_us < gemm_time(replace(INSTANCE, pipeline="v1"), FIGURES, SIZES, MACHINE).time_us


def test_scaling_waits_for_matrix_instructions() -> None:
    fast = replace(MACHINE, lds=1e9, l1=1e9, l2=1e9, memory_tbs=1e3, cache_tbs=1e3)
    deep = replace(SIZES, k=1 << 16, scale_depth=128, vector_scaled=True)
    found = gemm_time(INSTANCE, FIGURES, deep, fast)
    # four instructions for each of 128² accumulators and 512 blocks, 128 lanes at 1000 MHz
    assert found.terms[Bottleneck.VECTOR] == pytest.approx(4 * 512 * 0.128)
    assert found.time_us > LAUNCH_US + found.terms[Bottleneck.MATRIX] + found.terms[Bottleneck.VECTOR]


def test_workgroups_beside_each_other_hide_latency() -> None:
    many = replace(SIZES, m=2048)
    alone = gemm_time(INSTANCE, FIGURES, many, MACHINE)
    beside = gemm_time(INSTANCE, KernelFigures(waves_per_simd=2, lds_bytes=32768), many, MACHINE)
    assert (alone.together, beside.together) == (1, 2)
    assert beside.terms[Bottleneck.LATENCY] == pytest.approx(alone.terms[Bottleneck.LATENCY] / 2)
    assert beside.terms[Bottleneck.MATRIX] == alone.terms[Bottleneck.MATRIX]
    assert beside.time_us < alone.time_us


def test_lds_limits_how_many_are_beside_each_other() -> None:
    found = gemm_time(INSTANCE, KernelFigures(waves_per_simd=8, lds_bytes=20000), SIZES, MACHINE)
    assert found.together == 3


def test_slices_shorten_a_deep_product_and_cost_a_second_kernel() -> None:
    deep = replace(SIZES, m=128, n=128, k=1 << 18)
    whole, cut = (gemm_time(INSTANCE, FIGURES, replace(deep, slices=slices), MACHINE) for slices in (1, 16))
    assert cut.time_us < whole.time_us / 8
    assert cut.launch_us > whole.launch_us + 1


def test_what_exceeds_the_last_level_cache_is_loaded_once_per_sweep() -> None:
    large = replace(SIZES, m=1 << 15, n=1 << 13, k=1 << 14)
    moved = (1 << 29) + 4 * (1 << 27) + (1 << 29)
    found = gemm_time(INSTANCE, FIGURES, large, MACHINE)
    # 256 tiles along M, 64 in a sweep of 8 dies
    assert found.terms[Bottleneck.MEMORY] == pytest.approx(moved / 5e6 / MEMORY_REACHED)


def test_without_a_last_level_cache_its_traffic_goes_to_memory() -> None:
    found = gemm_time(INSTANCE, FIGURES, replace(SIZES, k=1 << 14), replace(MACHINE, cache_tbs=0))
    assert found.terms[Bottleneck.CACHE] == 0
    # 1152 instead of 256 rows and columns for each 8 workgroups
    assert found.terms[Bottleneck.MEMORY] == pytest.approx(64 * 128 * 128 * 1152 / 8 / 5e6 / MEMORY_REACHED)


@given(*(st.integers(1, 20000) for _ in range(3)), st.integers(1, 8), st.sampled_from(["v1", "v2", "v3", "v4", "v5"]))
def test_no_time_is_below_any_resource(m: int, n: int, k: int, slices: int, pipeline: str) -> None:
    sizes = replace(SIZES, m=m, n=n, k=k, slices=slices)
    instance = replace(INSTANCE, pipeline=pipeline)
    found = gemm_time(instance, estimated_figures(instance, sizes), sizes, MACHINE)
    assert found.time_us >= LAUNCH_US + max(found.terms.values())
    assert all(time >= 0 for time in found.terms.values())
