"""How many waves of a kernel a SIMD holds, what keeps more out, and what would let more in.

The number of waves is counted as LLVM does (`AMDGPUSubtarget::getOccupancyWithWorkGroupSizes`, `computeOccupancy`), so
that it equals the compiler's remark `Occupancy [waves/SIMD]`: the least of what each resource alone allows, for the
size of workgroup that fits best of those allowed, that of the fullest SIMD. LLVM leaves two things out, which
`workgroups_per_cu` and the next step take into account: LDS is given in blocks, and workgroups come whole and have
one size, which is taken to be the largest. The smallest size that LLVM counts with is 1, as `__launch_bounds__` has it;
a code object does not tell another.
"""

from __future__ import annotations

from dataclasses import dataclass

from ckwatch.analysis.arch_limits import ArchLimits, limits_of
from ckwatch.analysis.report import Limit, Occupancy, Resources


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What a kernel asks of a CU: `waves` and `lds_bytes` of its largest workgroup, registers of a lane.

    `vgpr_word` is what its VGPRs are called in the next step.
    """

    waves: int
    vgprs: int
    vgpr_word: str
    sgprs: int
    lds_bytes: int


def occupancy_of(resources: Resources, arch: str, *, cu_mode: bool = False) -> Occupancy | None:
    """The occupancy of a kernel, None where the arch is not known.

    On gfx10 and later a CU stands for a WGP, unless the kernel runs in CU mode (`Contents.cu_mode` tells). LDS that a
    launch asks for is not counted: the code object does not know it. A kernel that cannot run has 0 waves.
    """
    limits = limits_of(arch)
    if limits is None or resources.wavefront_size not in (32, 64):
        return None
    limits = limits.for_wavefront(resources.wavefront_size)
    if cu_mode:
        limits = limits.for_cu_mode()
    kernel = _Kernel(
        waves=max(1, -(-resources.workgroup_size // resources.wavefront_size)),
        vgprs=_registers(resources, limits),
        vgpr_word="VGPR+AGPR" if resources.agprs and limits.unified_vgprs else "VGPR",
        sgprs=resources.sgprs,
        lds_bytes=resources.lds_bytes,
    )
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


_ORDER = (Limit.WAVES, Limit.VGPR, Limit.LDS, Limit.SGPR)
"""Of limits that are equal the first is named: nothing is won by freeing registers where waves are at their most."""


def _registers(resources: Resources, limits: ArchLimits) -> int:
    """VGPRs of a lane: on CDNA2 and later accumulation VGPRs follow the others, at a multiple of 4."""
    if not limits.unified_vgprs:
        return max(resources.vgprs, resources.agprs)
    return (resources.vgprs + 3 & ~3) + resources.agprs if resources.agprs else resources.vgprs


def _by(kernel: _Kernel, limits: ArchLimits) -> dict[Limit, int]:
    """Waves per SIMD that each resource alone allows."""
    by = {Limit.WAVES: limits.waves, Limit.VGPR: _waves_by_vgprs(kernel.vgprs, limits)}
    if limits.sgpr_steps:
        by[Limit.SGPR] = _waves_by_sgprs(kernel.sgprs, limits)
    if kernel.lds_bytes > limits.workgroup_lds_bytes:
        by[Limit.LDS] = 0
    elif kernel.lds_bytes:
        by[Limit.LDS] = _waves_by_lds(kernel, limits)
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
    """What it takes for one more workgroup, and what fewer there are than LLVM counts."""
    steps = []
    held = _waves(workgroups, kernel, limits)
    if held < waves:
        of = f", each of {kernel.waves} waves" if kernel.waves > 1 else ""
        fit = "workgroup fits" if workgroups == 1 else "workgroups fit"
        steps.append(f"only {workgroups} {fit}{of}: {held} of {waves} waves")
    more = workgroups + 1
    if more <= _slots(kernel.waves, limits):
        fewer = _fewer(kernel, limits, more)
        if fewer:
            steps.append(f"{' and '.join(fewer)} fewer → {_gain(kernel, limits, more)}")
    return "; ".join(steps)


def _fewer(kernel: _Kernel, limits: ArchLimits, workgroups: int) -> list[str]:
    """What is too much of each resource for so many workgroups; empty where it cannot be told."""
    waves = -(-workgroups * kernel.waves // limits.simds)
    found = []
    vgprs = limits.vgprs // waves // limits.vgpr_block * limits.vgpr_block
    if kernel.vgprs > vgprs:
        found.append(f"{kernel.vgprs - vgprs} {kernel.vgpr_word}")
    if limits.sgpr_steps and _waves_by_sgprs(kernel.sgprs, limits) < waves:
        sgprs = max((most for most, allowed in limits.sgpr_steps if allowed >= waves), default=kernel.sgprs)
        found.append(f"{kernel.sgprs - sgprs} SGPR")
    lds = min(limits.lds_bytes // workgroups // limits.lds_block * limits.lds_block, limits.workgroup_lds_bytes)
    if kernel.lds_bytes > lds:
        found.append(f"{kernel.lds_bytes - lds:,} byte{'s' * (kernel.lds_bytes - lds != 1)} of LDS")
    return found


def _gain(kernel: _Kernel, limits: ArchLimits, workgroups: int) -> str:
    """Waves, or workgroups where those of the fullest SIMD stay as many."""
    waves = _waves(workgroups, kernel, limits)
    if waves > _waves(workgroups - 1, kernel, limits):
        return f"{waves} wave{'s' * (waves != 1)}"
    return f"{workgroups} workgroups"


def _in_blocks(size: int, block: int) -> int:
    return -(-size // block) * block
