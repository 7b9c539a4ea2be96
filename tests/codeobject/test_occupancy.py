"""Waves per SIMD: as the compiler remarks them, and what would bring more of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ckwatch.codeobject.metadata import read_metadata
from ckwatch.codeobject.occupancy import LIMITS, ResourceUse, limits_of, occupancy_of, step_of
from ckwatch.codeobject.report import KernelResources, OccupancyLimit
from helpers.code_objects import OBJECTS, content, remarks
from helpers.each_row import each_row


def kernel(
    vgprs: int = 1, lds: int = 0, workgroup: int = 256, agprs: int = 0, sgprs: int = 1, wavefront: int = 64
) -> KernelResources:
    return KernelResources(
        symbol="k", name="k", vgprs=vgprs, agprs=agprs, sgprs=sgprs, vgpr_spills=0, sgpr_spills=0, scratch_bytes=0,
        lds_bytes=lds, workgroup_size=workgroup, wavefront_size=wavefront, kernarg_bytes=0,
    )  # fmt: skip


@each_row("name", OBJECTS)
def test_every_occupancy_is_the_compilers(name: str) -> None:
    contents = read_metadata(content(name))
    remarked = remarks(name)
    assert len(contents.kernels) == len(remarked) > 0
    for kernel in contents.kernels:
        found = occupancy_of(kernel, contents.arch, cu_mode=kernel.symbol in contents.cu_mode)
        assert found is not None
        assert f"{found.waves_per_simd}" == remarked[kernel.symbol]["Occupancy [waves/SIMD]"], kernel.symbol
        assert found.waves_per_simd == min(found.by.values()) == found.by[found.limited_by]


@pytest.mark.parametrize(
    ("archs", "wavefront", "by_vgprs", "by_lds"),
    [
        # the remarks of clang 22 and 23 for kernels of 24, 96, 128 and 256 VGPR, and of 20,000, 40,000 and 65,536 bytes
        ("gfx900 gfx902 gfx904 gfx909 gfx90c gfx9-generic", 64, (10, 2, 2, 1), (3, 1, 1)),
        ("gfx942 gfx9-4-generic", 64, (8, 5, 4, 2), (3, 1, 1)),
        ("gfx1010 gfx10-1-generic", 32, (20, 10, 8, 4), (12, 6, 4)),
        ("gfx1036 gfx10-3-generic gfx11-generic gfx11-7-generic", 32, (16, 10, 8, 4), (12, 6, 4)),
        ("gfx1102 gfx1103 gfx1150 gfx1152 gfx1153 gfx1154 gfx1170", 32, (16, 10, 8, 4), (12, 6, 4)),
        ("gfx1100 gfx1101 gfx1151 gfx1200 gfx1201 gfx12-generic", 32, (16, 16, 10, 5), (12, 6, 4)),
        ("gfx1250 gfx1251 gfx12-5-generic", 32, (16, 10, 8, 4), (16, 16, 10)),
    ],
)
def test_archs_alike(archs: str, wavefront: int, by_vgprs: tuple[int, ...], by_lds: tuple[int, ...]) -> None:
    for arch in archs.split():
        kernels = [kernel(vgprs, wavefront=wavefront) for vgprs in (24, 96, 128, 256)]
        kernels += [kernel(8, lds, wavefront=wavefront) for lds in (20000, 40000, 65536)]
        found = [occupancy_of(one, arch) for one in kernels]
        assert tuple(one and one.waves_per_simd for one in found) == (*by_vgprs, *by_lds), arch


def test_the_data_reaches_every_row_of_the_tables() -> None:
    archs = {name.split(".")[1].partition("-")[0] for name in OBJECTS}
    assert {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"} <= archs
    assert {LIMITS[arch] for arch in archs} == set(LIMITS.values())


@each_row(
    ("resources", "arch", "waves", "limited_by", "workgroups", "next_step"),
    [
        # 512 VGPR in blocks of 8: 128 for 4 waves, 168 for 3
        (kernel(128), "gfx942", 4, OccupancyLimit.VGPR, 4, "32 VGPR fewer → 5 waves"),
        (kernel(129), "gfx942", 3, OccupancyLimit.VGPR, 3, "1 VGPR fewer → 4 waves"),
        (kernel(180), "gfx942", 2, OccupancyLimit.VGPR, 2, "12 VGPR fewer → 3 waves"),
        # VGPR up to a multiple of 4, then AGPR: 128 + 64
        (kernel(125, agprs=64), "gfx90a", 2, OccupancyLimit.VGPR, 2, "24 VGPR+AGPR fewer → 3 waves"),
        # of one file each before CDNA2: 256 in blocks of 4
        (kernel(125, agprs=64), "gfx908", 2, OccupancyLimit.VGPR, 2, "41 VGPR fewer → 3 waves"),
        (kernel(24), "gfx942", 8, OccupancyLimit.WAVES, 8, ""),
        (kernel(sgprs=101), "gfx942", 7, OccupancyLimit.SGPR, 7, "1 SGPR fewer → 8 waves"),
        (kernel(sgprs=101), "gfx908", 7, OccupancyLimit.SGPR, 7, "1 SGPR fewer → 8 waves"),
        (kernel(sgprs=89), "gfx908", 8, OccupancyLimit.SGPR, 8, "1 SGPR fewer → 9 waves"),
        (kernel(sgprs=81), "gfx908", 9, OccupancyLimit.SGPR, 9, "1 SGPR fewer → 10 waves"),
        (kernel(sgprs=106, wavefront=32), "gfx1100", 16, OccupancyLimit.WAVES, 8, ""),
        # 64 KiB, 160 KiB and 128 KiB of LDS
        (kernel(lds=32768), "gfx942", 2, OccupancyLimit.LDS, 2, "11,264 bytes of LDS fewer → 3 waves"),
        (kernel(lds=32000), "gfx950", 5, OccupancyLimit.LDS, 5, "5,120 bytes of LDS fewer → 6 waves"),
        (kernel(lds=32768, wavefront=32), "gfx1201", 8, OccupancyLimit.LDS, 4, "7,168 bytes of LDS fewer → 10 waves"),
        # as many waves by VGPR as by LDS: both must give
        (kernel(194, 32768), "gfx942", 2, OccupancyLimit.VGPR, 2, "26 VGPR and 11,264 bytes of LDS fewer → 3 waves"),
        # workgroups of one wave: four more of them are needed for each SIMD to have one more
        (kernel(lds=9000, workgroup=64), "gfx942", 2, OccupancyLimit.LDS, 7, "808 bytes of LDS fewer → 8 workgroups"),
        # LDS comes in blocks of 512 bytes: three times 22,016 are more than 65,536
        (
            kernel(lds=21800), "gfx942", 3, OccupancyLimit.LDS, 2,
            "only 2 workgroups fit, each of 4 waves: 2 of 3 waves; 296 bytes of LDS fewer → 3 waves",
        ),
        # or of 1,280 bytes: five times 33,280 are more than 163,840
        (
            kernel(lds=32768), "gfx950", 5, OccupancyLimit.LDS, 4,
            "only 4 workgroups fit, each of 4 waves: 4 of 5 waves; 768 bytes of LDS fewer → 5 waves",
        ),
        # workgroups come whole: 12 places for waves hold one of 8
        (
            kernel(140, workgroup=512), "gfx942", 3, OccupancyLimit.VGPR, 1,
            "only 1 workgroup fits, each of 8 waves: 2 of 3 waves; 12 VGPR fewer → 4 waves",
        ),
        # 32 places hold three workgroups of 9, and nothing brings a fourth
        (kernel(workgroup=576), "gfx942", 8, OccupancyLimit.WAVES, 3, "only 3 workgroups fit, each of 9 waves: 7 of 8 waves"),
        # nor more than 16 workgroups of several waves, for which a CU has barriers
        (kernel(workgroup=128), "gfx908", 10, OccupancyLimit.WAVES, 16, "only 16 workgroups fit, each of 2 waves: 8 of 10 waves"),
        # more than a workgroup may have
        (kernel(lds=65540), "gfx942", 0, OccupancyLimit.LDS, 0, "4 bytes of LDS fewer → 1 wave"),
        (kernel(lds=163841), "gfx950", 0, OccupancyLimit.LDS, 0, "1 byte of LDS fewer → 1 wave"),
        (kernel(lds=65540, wavefront=32), "gfx1100", 0, OccupancyLimit.LDS, 0, "4 bytes of LDS fewer → 2 waves"),
        # waves of 64 lanes have half the registers: 768 in blocks of 12
        (kernel(110, wavefront=64), "gfx1100", 6, OccupancyLimit.VGPR, 6, "2 VGPR fewer → 7 waves"),
        (kernel(110, wavefront=32), "gfx1100", 12, OccupancyLimit.VGPR, 6, "14 VGPR fewer → 14 waves"),
        (kernel(0, sgprs=0, workgroup=1024), "gfx942", 8, OccupancyLimit.WAVES, 2, ""),
    ],
)  # fmt: skip
def test_steps(
    resources: KernelResources, arch: str, waves: int, limited_by: OccupancyLimit, workgroups: int, next_step: str
) -> None:
    found = occupancy_of(resources, arch)
    assert found is not None
    assert (found.waves_per_simd, found.limited_by, found.workgroups_per_cu, found.next_step) == (
        waves, limited_by, workgroups, next_step,
    )  # fmt: skip


@each_row("arch", ["gfx90a", "gfx942", "gfx950", "gfx908"])
@each_row("workgroup", [64, 256, 512])
def test_what_the_next_step_promises_comes_true(arch: str, workgroup: int) -> None:
    steps = 0
    for vgprs in range(1, 257):
        before = occupancy_of(kernel(vgprs, workgroup=workgroup), arch)
        assert before is not None
        fewer, found, _ = before.next_step.rpartition("; ")[2].partition(" VGPR fewer → ")
        if found:
            steps += 1
            after = occupancy_of(kernel(vgprs - int(fewer), workgroup=workgroup), arch)
            almost = occupancy_of(kernel(vgprs - int(fewer) + 1, workgroup=workgroup), arch)
            assert after is not None
            assert almost is not None
            assert after.workgroups_per_cu > before.workgroups_per_cu == almost.workgroups_per_cu
    assert steps > 100


@pytest.mark.parametrize(
    ("arch", "wavefront", "most"), [("gfx942", 64, 65536), ("gfx950", 64, 163840), ("gfx1100", 32, 65536)]
)
@pytest.mark.parametrize("workgroup", [64, 256, 512])
def test_what_the_next_step_promises_of_lds_comes_true(arch: str, wavefront: int, most: int, workgroup: int) -> None:
    def workgroups(lds: int) -> int:
        found = occupancy_of(kernel(lds=lds, workgroup=workgroup, wavefront=wavefront), arch)
        assert found is not None
        return found.workgroups_per_cu

    steps = 0
    for lds in range(100, most, 331):
        found = occupancy_of(kernel(lds=lds, workgroup=workgroup, wavefront=wavefront), arch)
        assert found is not None
        promise = re.search(r"([\d,]+) bytes? of LDS fewer", found.next_step)
        if promise:
            steps += 1
            fewer = int(promise[1].replace(",", ""))
            assert workgroups(lds - fewer) > found.workgroups_per_cu == workgroups(lds - fewer + 1)
        else:
            assert workgroups(1) == found.workgroups_per_cu
    assert steps > 50


def test_a_step_says_what_may_be_used_at_most() -> None:
    found = step_of(kernel(vgprs=190, agprs=4, lds=32768), "gfx942")
    assert found is not None
    assert (found.workgroups, found.waves, found.vgpr_word) == (3, 3, "VGPR+AGPR")
    assert (found.vgprs, found.lds_bytes) == (ResourceUse(196, 168), ResourceUse(32768, 21504))
    assert (found.vgprs.excess, found.sgprs.excess, found.lds_bytes.excess) == (28, 0, 11264)
    # the fullest SIMD holds 2 waves of three workgroups of 2 waves, and of four
    small = step_of(kernel(lds=20000, workgroup=128), "gfx942")
    assert small is not None
    assert (small.workgroups, small.waves) == (4, None)
    assert step_of(kernel(), "gfx942") is None
    assert step_of(kernel(), "gfx777") is None


def test_cu_mode_has_half_of_a_wgp() -> None:
    resources = kernel(lds=24000, workgroup=320, wavefront=32)
    whole, half = occupancy_of(resources, "gfx1100"), occupancy_of(resources, "gfx1100", cu_mode=True)
    assert whole is not None
    assert half is not None
    assert (whole.waves_per_simd, whole.workgroups_per_cu) == (13, 5)
    assert (half.waves_per_simd, half.workgroups_per_cu) == (10, 2)
    small = kernel(workgroup=64, wavefront=32)
    whole, half = occupancy_of(small, "gfx1010"), occupancy_of(small, "gfx1010", cu_mode=True)
    assert whole is not None
    assert half is not None
    assert (whole.workgroups_per_cu, half.workgroups_per_cu) == (32, 16)
    assert occupancy_of(kernel(), "gfx942", cu_mode=True) == occupancy_of(kernel(), "gfx942")


@pytest.mark.parametrize(("arch", "wavefront"), [("gfx777", 64), ("", 64), ("sm_90", 32), ("gfx942", 0)])
def test_what_is_not_known_has_none(arch: str, wavefront: int) -> None:
    assert occupancy_of(replace(kernel(), wavefront_size=wavefront), arch) is None


def test_an_arch_may_have_its_features_written() -> None:
    assert limits_of("gfx90a:sramecc+:xnack-") == LIMITS["gfx90a"]
