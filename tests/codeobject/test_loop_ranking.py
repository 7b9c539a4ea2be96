"""Kernels by their loops: rates, ties, and those that have no place."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.codeobject.loop_ranking import rank_loops
from ckwatch.codeobject.report import KernelReport, KernelResources, MainLoop, Occupancy, OccupancyLimit

RESOURCES = KernelResources(
    symbol="k", name="k", vgprs=64, agprs=0, sgprs=32, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0, lds_bytes=0,
    workgroup_size=256, wavefront_size=64, kernarg_bytes=64,
)  # fmt: skip
LOOP = MainLoop(
    first=0, last=9, mix={}, lds_read_bytes=0, lds_write_bytes=0, global_load_bytes=1024, global_store_bytes=0,
    flops=65536, clocks=1024.0, matrix_use=0.25,
)  # fmt: skip


def kernel(name: str, loop: MainLoop | None, waves: int | None = 4, *notes: str) -> KernelReport:
    occupancy = None
    if waves is not None:
        occupancy = Occupancy(waves_per_simd=waves, limited_by=OccupancyLimit.VGPR, workgroups_per_cu=1)
    return KernelReport(resources=replace(RESOURCES, name=name), occupancy=occupancy, loop=loop, notes=notes)


def test_matrix_loops_are_ranked_by_what_a_simd_does_at_best() -> None:
    kernels = [
        kernel("half full", LOOP, 2),
        kernel("full", LOOP, 4),
        kernel("full with fewer waves", replace(LOOP, clocks=512.0, matrix_use=0.5), 4),
        kernel("overfull", LOOP, 8),
    ]
    found = rank_loops(("f", "", "gfx942", one) for one in kernels)
    assert [(one.kernel, one.place, one.rate, one.ratio) for one in found] == [
        ("full with fewer waves", 1, 256.0, 1.0),
        ("full", 2, 256.0, 1.0),
        ("overfull", 3, 256.0, 1.0),
        ("half full", 4, 128.0, 2.0),
    ]


def test_other_loops_are_ranked_by_bytes_and_apart() -> None:
    moves = replace(LOOP, matrix_use=None, flops=10)
    kernels = [
        ("gfx942", kernel("slow", replace(moves, clocks=2048.0))),
        ("gfx942", kernel("matrix", LOOP)),
        ("gfx942", kernel("fast", replace(moves, global_store_bytes=1024), None)),
        ("gfx90a", kernel("elsewhere", moves)),
    ]
    found = rank_loops(("f", "", arch, one) for arch, one in kernels)
    assert [(one.arch, one.work, one.kernel, one.place, one.rate) for one in found] == [
        ("gfx90a", "memory", "elsewhere", 1, 1.0),
        ("gfx942", "matrix", "matrix", 1, 256.0),
        ("gfx942", "memory", "fast", 1, 2.0),
        ("gfx942", "memory", "slow", 2, 0.5),
    ]


def test_what_has_no_place_says_why() -> None:
    kernels = [
        kernel("straight", None, 4, "no loop in 9 instructions"),
        kernel("no clocks", replace(LOOP, clocks=None)),
        kernel("no occupancy", LOOP, None),
        kernel("neither", replace(LOOP, matrix_use=None, global_load_bytes=0)),
    ]
    found = rank_loops(("f", "", "gfx942", one) for one in kernels)
    assert {one.place for one in found} == {None}
    assert [one.because for one in found] == [
        "no loop in 9 instructions",
        "its loop has no predicted clocks",
        "its occupancy is not known",
        "its loop has neither matrix instructions nor accesses to global memory",
    ]
