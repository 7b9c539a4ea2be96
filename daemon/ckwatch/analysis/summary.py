"""A code object in one line, for where there is only room for one."""

from __future__ import annotations

from ckwatch.analysis.prediction import main_kernel
from ckwatch.analysis.report import CodeObjectReport


def headline(report: CodeObjectReport) -> str:
    """`189 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR), MFMA use 95 % predicted`, of the kernel that does the work; spills
    and scratch where there are any. Empty without a kernel."""
    kernel = main_kernel(report)
    if kernel is None:
        return ""
    resources, parts = kernel.resources, []
    parts.append(f"{resources.vgprs} VGPR")
    if resources.agprs:
        parts.append(f"{resources.agprs} AGPR")
    if resources.vgpr_spills or resources.sgpr_spills:
        parts.append(f"{resources.vgpr_spills + resources.sgpr_spills} spilled")
    if resources.scratch_bytes:
        parts.append(f"{resources.scratch_bytes} B scratch")
    if resources.lds_bytes:
        parts.append(f"{resources.lds_bytes} B LDS")
    if kernel.occupancy is not None:
        waves = kernel.occupancy.waves_per_simd
        parts.append(f"{waves} wave{'' if waves == 1 else 's'}/SIMD ({kernel.occupancy.limited_by})")
    if kernel.loop is not None and kernel.loop.matrix_use is not None:
        parts.append(f"MFMA use {100 * kernel.loop.matrix_use:.0f} % predicted")
    return ", ".join(parts)
