"""What decides how many waves a SIMD holds, by arch.

Sources, as of LLVM 22: `getTotalNumVGPRs`, `getVGPRAllocGranule`, `getMaxWavesPerEU`, `getMaxWorkGroupsPerCU` and
`getOccupancyWithNumSGPRs` in llvm/lib/Target/AMDGPU/Utils/AMDGPUBaseInfo.cpp, the features of each processor in
GCNProcessors.td and AMDGPU.td; the blocks in which LDS is given: AMDGPUUsage (GRANULATED_LDS_SIZE) for gfx9 and
gfx10.1, Mesa's src/amd/common/ac_gpu_info.c (`lds_alloc_granularity`) for gfx10.3 and later. Tests compare all but the
blocks of LDS, which clang 22 does not look at, with what clang says of compiled kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchLimits:
    """The limits of one arch.

    A CU here is what a workgroup runs on: on gfx10 and later that is a WGP, two CUs, unless a kernel is compiled for CU
    mode. `vgprs` are those that the lanes of a SIMD share out among waves, and `vgpr_block` what they are given in,
    both for waves of 64 lanes where `wave32` is false, of 32 where it is true. `lds_bytes` of a CU, of which one
    workgroup may have `workgroup_lds_bytes`, in blocks of `lds_block` bytes. `sgpr_steps`: so many SGPRs at most, so
    many waves; empty where SGPRs do not matter. `unified_vgprs`: VGPRs and AGPRs are of one file.
    """

    waves: int
    simds: int
    vgprs: int
    vgpr_block: int
    lds_bytes: int
    workgroup_lds_bytes: int
    lds_block: int
    workgroups: int
    wave32: bool = False
    wgp_mode: bool = False
    unified_vgprs: bool = False
    sgpr_steps: tuple[tuple[int, int], ...] = ()

    def for_wavefront(self, lanes: int) -> ArchLimits:
        """The limits for waves of 32 or 64 lanes: of 64 lanes half as many registers fit, in blocks half as large."""
        if not self.wave32 or lanes == 32:
            return self
        return replace(self, vgprs=self.vgprs // 2, vgpr_block=self.vgpr_block // 2, wave32=False)

    def for_cu_mode(self) -> ArchLimits:
        """The limits in CU mode: half a WGP."""
        if not self.wgp_mode:
            return self
        return replace(
            self,
            wgp_mode=False,
            simds=self.simds // 2,
            lds_bytes=self.lds_bytes // 2,
            workgroups=self.workgroups // 2,
        )


_SGPR_STEPS = ((80, 10), (88, 9), (100, 8), (1 << 16, 7))

_GFX9 = ArchLimits(
    waves=10, simds=4, vgprs=256, vgpr_block=4, lds_bytes=64 * KIB, workgroup_lds_bytes=64 * KIB, lds_block=512,
    workgroups=16, sgpr_steps=_SGPR_STEPS,
)  # fmt: skip
_CDNA2 = replace(_GFX9, waves=8, vgprs=512, vgpr_block=8, unified_vgprs=True)
_GFX950 = replace(_CDNA2, lds_bytes=160 * KIB, workgroup_lds_bytes=160 * KIB, lds_block=1280)
_RDNA1 = ArchLimits(
    waves=20, simds=4, vgprs=1024, vgpr_block=8, lds_bytes=128 * KIB, workgroup_lds_bytes=64 * KIB, lds_block=512,
    workgroups=32, wave32=True, wgp_mode=True,
)  # fmt: skip
_RDNA2 = replace(_RDNA1, waves=16, vgpr_block=16, lds_block=1024)
_RDNA3 = replace(_RDNA2, vgprs=1536, vgpr_block=24)

_ARCHS: tuple[tuple[ArchLimits, tuple[str, ...]], ...] = (
    (_GFX9, ("gfx900", "gfx906", "gfx908")),
    (_CDNA2, ("gfx90a", "gfx942")),
    (_GFX950, ("gfx950",)),
    (_RDNA1, ("gfx1010", "gfx1011", "gfx1012", "gfx1013")),
    (_RDNA2, ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036")),
    # these have RDNA 3's instructions and RDNA 2's registers
    (_RDNA2, ("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153")),
    (_RDNA3, ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201")),
)

LIMITS: Mapping[str, ArchLimits] = {arch: limits for limits, archs in _ARCHS for arch in archs}


def limits_of(arch: str) -> ArchLimits | None:
    """The limits of an arch, which may be written with its features (`gfx90a:xnack-`); None where it is not known."""
    return LIMITS.get(arch.partition(":")[0])
