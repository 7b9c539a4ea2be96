"""Occupancy: how many waves of a kernel a SIMD holds, what keeps more out, and what would let more in.

The number of waves is counted as LLVM does (`AMDGPUSubtarget::getOccupancyWithWorkGroupSizes`, `computeOccupancy`), so
that it equals the compiler's remark `Occupancy [waves/SIMD]`: the least of what each resource alone allows, for the
size of workgroup that fits best of those allowed, that of the fullest SIMD. LLVM leaves two things out, which
`workgroups_per_cu` and the next step take into account: LDS is given in blocks (which LLVM 23 counts on gfx950), and
workgroups come whole and have one size, which is taken to be the largest. The smallest size that LLVM counts with is 1,
as `__launch_bounds__` has it; a code object does not tell another.

Sources of the limits by arch, as of LLVM 22 and 23: `getTotalNumVGPRs`, `getVGPRAllocGranule`, `getMaxWavesPerEU`,
`getMaxWorkGroupsPerCU` and `getOccupancyWithNumSGPRs` in llvm/lib/Target/AMDGPU/Utils/AMDGPUBaseInfo.cpp, the features
of each processor in GCNProcessors.td and AMDGPU.td; the blocks in which LDS is given: AMDGPUUsage
(GRANULATED_LDS_SIZE) for gfx9 and gfx10.1, Mesa's src/amd/common/ac_gpu_info.c (`lds_alloc_granularity`) for gfx10.3
and later. Tests compare all but the blocks of LDS, which clang 22 does not look at, with what clang says of compiled
kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ckwatch.codeobject.report import KernelResources, Occupancy, OccupancyLimit
from ckwatch.model.lazy_dataclass import dataclass

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

# a workgroup has one CU, and waves have 32 lanes only; LDS is given in 512 dwords (AMDGPUUsage, GRANULATED_LDS_SIZE)
_GFX1250 = replace(
    _RDNA2, lds_bytes=320 * KIB, workgroup_lds_bytes=320 * KIB, workgroups=16, wgp_mode=False, lds_block=2048,
)  # fmt: skip

_ARCHS: tuple[tuple[ArchLimits, tuple[str, ...]], ...] = (
    (_GFX9, ("gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90c", "gfx9-generic")),
    (_CDNA2, ("gfx90a", "gfx942", "gfx9-4-generic")),
    (_GFX950, ("gfx950",)),
    (_RDNA1, ("gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx10-1-generic")),
    (_RDNA2, ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx10-3-generic")),
    # these have RDNA 3's instructions and RDNA 2's registers; what is compiled for all of gfx11 counts with the fewest
    (_RDNA2, ("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153", "gfx1154", "gfx11-generic")),
    (_RDNA2, ("gfx1170", "gfx1171", "gfx1172", "gfx11-7-generic")),
    (_RDNA3, ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx12-generic")),
    (_GFX1250, ("gfx1250", "gfx1251", "gfx12-5-generic")),
)

LIMITS: Mapping[str, ArchLimits] = {arch: limits for limits, archs in _ARCHS for arch in archs}


def limits_of(arch: str) -> ArchLimits | None:
    """The limits of an arch, which may be written with its features (`gfx90a:xnack-`); None where it is not known."""
    return LIMITS.get(arch.partition(":")[0])


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel's demands on a CU: `waves` and `lds_bytes` of its largest workgroup, registers of a lane.

    `vgpr_word` is what its VGPRs are called in the next step.
    """

    waves: int
    vgprs: int
    vgpr_word: str
    sgprs: int
    lds_bytes: int


def occupancy_of(resources: KernelResources, arch: str, *, cu_mode: bool = False) -> Occupancy | None:
    """The occupancy of a kernel, None where the arch is not known.

    On gfx10 and later a CU stands for a WGP, unless the kernel runs in CU mode (`CodeObjectMetadata.cu_mode`). LDS that
    a launch asks for is not counted: the code object does not know it. A kernel that cannot run has 0 waves.
    """
    limits = _limits(resources, arch, cu_mode=cu_mode)
    if limits is None:
        return None
    kernel = _kernel(resources, limits)
    by = _by(kernel, limits)
    limited_by = min((limit for limit in _ORDER if limit in by), key=lambda limit: by[limit])
    workgroups = _workgroups(kernel, limits)
    return Occupancy(
        waves_per_simd=by[limited_by],
        limited_by=limited_by,
        workgroups_per_cu=workgroups,
        by=by,
        next_step=_next_step(kernel, limits, by[limited_by], workgroups),
    )


class ResourceUse(NamedTuple):
    """A kernel's use of a resource, and the most that would fit the goal."""

    present: int
    most: int

    @property
    def excess(self) -> int:
        """The amount above the limit."""
        return max(0, self.present - self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupancyStep:
    """The step to one more workgroup on a CU, `workgroups` in all: at least one resource exceeds its limit.

    `vgprs` of a lane, which `vgpr_word` names (on CDNA2 and later AGPRs are among them), `lds_bytes` of a workgroup.
    `waves` per SIMD are then held, None where those of the fullest SIMD stay as many.
    """

    workgroups: int
    waves: int | None
    vgprs: ResourceUse
    vgpr_word: str
    sgprs: ResourceUse
    lds_bytes: ResourceUse


def step_of(resources: KernelResources, arch: str, *, cu_mode: bool = False) -> OccupancyStep | None:
    """Return the step that would raise a kernel's occupancy (`Occupancy.next_step`), or None if nothing would or the
    arch is unknown."""
    limits = _limits(resources, arch, cu_mode=cu_mode)
    if limits is None:
        return None
    kernel = _kernel(resources, limits)
    return _step(kernel, limits, _workgroups(kernel, limits) + 1)


def _limits(resources: KernelResources, arch: str, *, cu_mode: bool) -> ArchLimits | None:
    limits = limits_of(arch)
    if limits is None or resources.wavefront_size not in (32, 64):
        return None
    limits = limits.for_wavefront(resources.wavefront_size)
    return limits.for_cu_mode() if cu_mode else limits


def _kernel(resources: KernelResources, limits: ArchLimits) -> _Kernel:
    return _Kernel(
        waves=max(1, -(-resources.workgroup_size // resources.wavefront_size)),
        vgprs=_registers(resources, limits),
        vgpr_word="VGPR+AGPR" if resources.agprs and limits.unified_vgprs else "VGPR",
        sgprs=resources.sgprs,
        lds_bytes=resources.lds_bytes,
    )


_ORDER = (OccupancyLimit.WAVES, OccupancyLimit.VGPR, OccupancyLimit.LDS, OccupancyLimit.SGPR)
"""Of limits that are equal the first is named: nothing is won by freeing registers where waves are at their most."""


def _registers(resources: KernelResources, limits: ArchLimits) -> int:
    """VGPRs of a lane: on CDNA2 and later accumulation VGPRs follow the others, at a multiple of 4."""
    if not limits.unified_vgprs:
        return max(resources.vgprs, resources.agprs)
    return (resources.vgprs + 3 & ~3) + resources.agprs if resources.agprs else resources.vgprs


def _by(kernel: _Kernel, limits: ArchLimits) -> dict[OccupancyLimit, int]:
    """Waves per SIMD that each resource alone allows."""
    by = {OccupancyLimit.WAVES: limits.waves, OccupancyLimit.VGPR: _waves_by_vgprs(kernel.vgprs, limits)}
    if limits.sgpr_steps:
        by[OccupancyLimit.SGPR] = _waves_by_sgprs(kernel.sgprs, limits)
    if kernel.lds_bytes > limits.workgroup_lds_bytes:
        by[OccupancyLimit.LDS] = 0
    elif kernel.lds_bytes:
        by[OccupancyLimit.LDS] = _waves_by_lds(kernel, limits)
    return by


def _waves_by_lds(kernel: _Kernel, limits: ArchLimits) -> int:
    """Of the largest workgroups, or of those of one wave where these make for more."""
    most = limits.lds_bytes // kernel.lds_bytes
    large = min(most, _slots(kernel.waves, limits)) * kernel.waves
    small = min(most, _slots(1, limits))
    return min(limits.waves, -(-max(small, large) // limits.simds))


def _waves(workgroups: int, kernel: _Kernel, limits: ArchLimits) -> int:
    """Of the fullest SIMD, when a CU holds so many of the largest workgroups."""
    return min(limits.waves, -(-workgroups * kernel.waves // limits.simds))


def _waves_by_vgprs(vgprs: int, limits: ArchLimits) -> int:
    given = _in_blocks(vgprs, limits.vgpr_block)
    return min(limits.waves, max(1, limits.vgprs // given)) if given else limits.waves


def _waves_by_sgprs(sgprs: int, limits: ArchLimits) -> int:
    return min(limits.waves, next((waves for most, waves in limits.sgpr_steps if sgprs <= most), limits.waves))


def _slots(waves: int, limits: ArchLimits) -> int:
    """Workgroups of so many waves that a CU has places for: each of more than one wave takes one of its barriers."""
    slots = limits.waves * limits.simds // waves
    return slots if waves == 1 else min(slots, limits.workgroups)


def _workgroups(kernel: _Kernel, limits: ArchLimits) -> int:
    """Whole workgroups that a CU holds at once."""
    found = _slots(kernel.waves, limits)
    waves = _waves_by_vgprs(kernel.vgprs, limits)
    if limits.sgpr_steps:
        waves = min(waves, _waves_by_sgprs(kernel.sgprs, limits))
    found = min(found, waves * limits.simds // kernel.waves)
    if kernel.lds_bytes > limits.workgroup_lds_bytes:
        return 0
    if kernel.lds_bytes:
        found = min(found, limits.lds_bytes // _in_blocks(kernel.lds_bytes, limits.lds_block))
    return found


def _next_step(kernel: _Kernel, limits: ArchLimits, waves: int, workgroups: int) -> str:
    """Describe what one more workgroup takes, and by how much LLVM's count is too high."""
    steps = []
    held = _waves(workgroups, kernel, limits)
    if held < waves:
        of = f", each of {kernel.waves} waves" if kernel.waves > 1 else ""
        fit = "workgroup fits" if workgroups == 1 else "workgroups fit"
        steps.append(f"only {workgroups} {fit}{of}: {held} of {waves} waves")
    if (step := _step(kernel, limits, workgroups + 1)) is not None:
        gain = f"{step.workgroups} workgroups" if step.waves is None else f"{step.waves} wave{'s' * (step.waves != 1)}"
        sgprs, lds = step.sgprs.excess, step.lds_bytes.excess
        words = {f"{step.vgprs.excess} {step.vgpr_word}": step.vgprs.excess, f"{sgprs} SGPR": sgprs}
        words[f"{lds:,} byte{'s' * (lds != 1)} of LDS"] = lds
        steps.append(f"{' and '.join(word for word, excess in words.items() if excess)} fewer → {gain}")
    return "; ".join(steps)


def _step(kernel: _Kernel, limits: ArchLimits, workgroups: int) -> OccupancyStep | None:
    """Return what that many workgroups take, or None if there is no room for them or the limit is not known."""
    if workgroups > _slots(kernel.waves, limits):
        return None
    needed = -(-workgroups * kernel.waves // limits.simds)
    sgprs = (most for most, allowed in limits.sgpr_steps if allowed >= needed)
    lds = min(limits.lds_bytes // workgroups // limits.lds_block * limits.lds_block, limits.workgroup_lds_bytes)
    held = _waves(workgroups, kernel, limits)
    step = OccupancyStep(
        workgroups=workgroups,
        waves=held if held > _waves(workgroups - 1, kernel, limits) else None,
        vgprs=ResourceUse(kernel.vgprs, limits.vgprs // needed // limits.vgpr_block * limits.vgpr_block),
        vgpr_word=kernel.vgpr_word,
        sgprs=ResourceUse(kernel.sgprs, max(sgprs, default=kernel.sgprs)),
        lds_bytes=ResourceUse(kernel.lds_bytes, lds),
    )
    return step if any(use.excess for use in (step.vgprs, step.sgprs, step.lds_bytes)) else None


def _in_blocks(size: int, block: int) -> int:
    return -(-size // block) * block
