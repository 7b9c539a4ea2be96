"""The report of a code object: resources, occupancy and main loop of each kernel, and a headline for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from ckwatch.model.amounts import count
from ckwatch.model.figures import RegisterCounts
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources(RegisterCounts):
    """A kernel's resources in the code object's metadata (NT_AMDGPU_METADATA, LLVM's AMDGPUUsage).

    `symbol` is the mangled name, `name` a readable form that differs between the variants of one kernel.
    `workgroup_size` is the largest flat one.
    """

    symbol: str
    name: str
    workgroup_size: int
    wavefront_size: int
    kernarg_bytes: int
    dynamic_stack: bool = False


class OccupancyLimit(StrEnum):
    """A limit that keeps more waves from a SIMD."""

    VGPR = "VGPR"
    SGPR = "SGPR"
    LDS = "LDS"
    WAVES = "waves"
    WORKGROUPS = "workgroups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Waves per SIMD by the arch's rules. `by` says how many each resource alone would allow; `next_step` what would
    bring one more (`12 VGPR fewer → 3 waves`), empty when nothing would."""

    waves_per_simd: int
    limited_by: OccupancyLimit
    workgroups_per_cu: int
    by: Mapping[OccupancyLimit, int] = field(default_factory=dict)
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MainLoop:
    """The main loop of a kernel, as its disassembly shows it, for one wave and one iteration.

    `first` and `last` are indices into the kernel's instructions. `mix` counts instructions by class (`mfma`, `valu`,
    `salu`, `lds read`, `lds write`, `global load`, `global store`, `wait`, `barrier`, `branch`, `other`). Bytes and
    FLOPs are of a whole wave; `intensity` is FLOPs per byte of global memory. `clocks` (of the hardware) and
    `matrix_use` are llvm-mca's prediction, which knows neither caches nor the latency of memory, nor what other waves
    do.
    """

    first: int
    last: int
    mix: Mapping[str, int]
    lds_read_bytes: int
    lds_write_bytes: int
    global_load_bytes: int
    global_store_bytes: int
    flops: int
    clocks: float | None = None
    matrix_use: float | None = None
    waits: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    intensity: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        moved = self.global_load_bytes + self.global_store_bytes
        object.__setattr__(self, "intensity", self.flops / moved if moved else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """One kernel. `loop` None: none was found, `notes` say why. `code_bytes`: its instructions, None if not known."""

    resources: KernelResources
    occupancy: Occupancy | None
    loop: MainLoop | None = None
    notes: tuple[str, ...] = ()
    code_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeObjectReport:
    """All kernels of a code object but CK's helpers, the largest first. `notes`: what could not be analysed, why.

    `own` of them, at the beginning, are the unit's by their name, where a file that it includes has others.
    """

    arch: str
    kernels: tuple[KernelReport, ...]
    own: int = 0
    notes: tuple[str, ...] = ()


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
        parts.append(f"{count(kernel.occupancy.waves_per_simd, 'wave')}/SIMD ({kernel.occupancy.limited_by})")
    if kernel.loop is not None and kernel.loop.matrix_use is not None:
        parts.append(f"MFMA use {100 * kernel.loop.matrix_use:.0f} % predicted")
    return ", ".join(parts)


def main_kernel(report: CodeObjectReport) -> KernelReport | None:
    """The kernel that does the work: of the unit's own, and of those with a loop, the one with most FLOPs per
    iteration, else the first."""
    kernels = report.kernels[: report.own] or report.kernels
    with_loop = [kernel for kernel in kernels if kernel.loop is not None]
    if with_loop:
        return max(with_loop, key=lambda kernel: 0 if kernel.loop is None else kernel.loop.flops)
    return kernels[0] if kernels else None
