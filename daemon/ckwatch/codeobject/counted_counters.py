"""Hardware counters as an emulator's counts give them, to stand beside measured ones.

Definitions: "MI300 and MI200 Series performance counters and metrics" of ROCm's documentation. `SQ_LDS_BANK_CONFLICT`
are the cycles that LDS is stalled by conflicts: each turn of a phase beyond its first (`lds_banks`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.codeobject.disassembly import InstructionKind
from ckwatch.model.profiles import KernelProfile

_KINDS: Mapping[str, tuple[InstructionKind, ...]] = {
    "SQ_INSTS_LDS": (InstructionKind.LDS_READ, InstructionKind.LDS_WRITE),
    "SQ_INSTS_MFMA": (InstructionKind.MFMA,),
    "SQ_INSTS_VALU": (InstructionKind.VALU, InstructionKind.MFMA),
    "SQ_INSTS_VMEM_RD": (InstructionKind.GLOBAL_LOAD,),
    "SQ_INSTS_VMEM_WR": (InstructionKind.GLOBAL_STORE,),
}
_CONFLICTS = "SQ_LDS_BANK_CONFLICT"


def counted_counters(kernel: KernelProfile) -> dict[str, float]:
    """The counters of one launch of the whole grid, in proportion where a part of its workgroups was executed."""
    scale = kernel.all_workgroups / (kernel.workgroups * kernel.launches) if kernel.workgroups else 0.0
    counts = kernel.total.counts
    found = {name: sum(kernel.total.mix.get(kind.value, 0) for kind in kinds) for name, kinds in _KINDS.items()}
    return {name: count * scale for name, count in {**found, _CONFLICTS: counts.turns - counts.phases}.items()}


def same_kernel(name: str, kernel: KernelProfile) -> bool:
    """Return True if a profiler's name of a kernel, which may lack parameters or be mangled, means this one."""
    bare = name.removesuffix(" [clone .kd]").removesuffix(".kd")
    return bare in (kernel.symbol, kernel.name) or bare.partition("(")[0] == kernel.name.partition("(")[0]
