"""Limits that keep a kernel from more registers or more waves, and which change of its source may help.

LLVM gives a kernel as many registers as still let the largest workgroup that it allows run, so that a kernel which may
be launched with 1,024 threads spills long before one of 256 does. Which change helps is only supposed here
(`remedies`): the source is compiled with it, and what that gave decides (`is_better`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ckwatch.checks.device_code.declarations import KernelDeclaration
from ckwatch.codeobject.occupancy import limits_of, occupancy_of, step_of
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, KernelResources, OccupancyLimit
from ckwatch.codeobject.report_diff import compare_kernels
from ckwatch.model.amounts import count
from ckwatch.model.lazy_dataclass import dataclass

BOUND = "__launch_bounds__"

USUAL_THREADS = 256
"""The size of workgroup that is tried where that of the launch is not known."""

SHOWN_FIGURES = ("VGPR", "AGPR", "spilled VGPR", "spilled SGPR", "scratch", "occupancy")


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """The characters [`start`, `end`) of a text replaced by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of a kernel's declaration that may leave it more registers.

    `threads`: the most threads of a workgroup that the kernel then allows, None where that stays. `change` says what is
    changed (`with …`), `cause` why registers are few now.
    """

    edits: tuple[SourceEdit, ...]
    threads: int | None
    change: str
    cause: str


def need_of(report: CodeObjectReport) -> int:
    """Return how much of the kernels lies in scratch, in bytes of a lane, and 1 more where LDS keeps waves out of a
    kernel that has none there; 0 where nothing is to be explained."""
    scratch = sum(max(one.resources.scratch_bytes, 4 * one.resources.vgpr_spills) for one in report.kernels)
    return scratch or int(any(lds_limit(one, report.arch) is not None for one in report.kernels))


def remedies(
    kernel: KernelReport, declared: KernelDeclaration, threads: int | None, bound: str | None = None
) -> Iterator[Remedy]:
    """The changes that may end the spills of a kernel, the likeliest first.

    `threads` are those of the workgroups that it is launched with, None where that is not known; `bound` is how the
    text writes them, if not as a number.
    """
    if not kernel.resources.vgpr_spills:
        return
    size = _size_remedy(kernel.resources, declared, threads, bound)
    asked = [bound.occupancy for bound in declared.bounds if bound.occupancy is not None]
    if size is not None:
        yield size
    for one in asked:
        if one.text in ("0", "1"):
            continue
        edit = SourceEdit(one.start, one.end, "1")
        name = next(bound.name for bound in declared.bounds if bound.occupancy == one)
        yield Remedy(
            (edit,), None, f"with 1 in place of `{one.text}`", f"`{name}` asks for `{one.text}` waves per SIMD"
        )


def _size_remedy(
    resources: KernelResources, declared: KernelDeclaration, threads: int | None, bound: str | None
) -> Remedy | None:
    allowed = resources.workgroup_size
    wanted = USUAL_THREADS if threads is None else threads
    bounds = [bound.threads for bound in declared.bounds if bound.threads is not None]
    if wanted >= allowed or (threads is None and bounds):
        return None
    text = bound or str(wanted)
    cause = f"a launch of {allowed:,} threads must be possible"
    if not bounds:
        edit = SourceEdit(declared.insert_at, declared.insert_at, f" {BOUND}({text})")
        return Remedy((edit,), wanted, f"with `{BOUND}({text})`", cause)
    edits = tuple(SourceEdit(one.start, one.end, text) for one in bounds if one.text != text)
    return Remedy(edits, wanted, f"with {text} in place of `{bounds[0].text}`", cause) if edits else None


def is_better(before: KernelResources, after: KernelResources, remedy: Remedy) -> bool:
    """Return True if a compile has confirmed a remedy: the bound counts, fewer registers are spilled, and no more lies
    in scratch."""
    bounded = remedy.threads is None or after.workgroup_size == remedy.threads
    return bounded and after.vgpr_spills < before.vgpr_spills and after.scratch_bytes <= before.scratch_bytes


def spill_sentence(before: KernelReport, after: KernelReport, remedy: Remedy) -> str:
    """Say what a compile with a remedy gave: `66 VGPRs spilled: a launch of 1,024 threads must be possible; compiled
    with `__launch_bounds__(256)`: VGPR 128 → 190, spilled VGPR 66 → 0, …`."""
    spilled = f"{count(before.resources.vgpr_spills, 'VGPR')} spilled"
    return f"{spilled}: {remedy.cause}; compiled {remedy.change}: {figures_sentence(before, after)}"


def figures_sentence(before: KernelReport, after: KernelReport) -> str:
    """`VGPR 128 → 190, spilled VGPR 66 → 0, scratch 236 B → 0 B, occupancy 4 → 2`."""
    return ", ".join(str(one) for one in compare_kernels(before, after) if one.name in SHOWN_FIGURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LdsLimit:
    """LDS that keeps workgroups out: a CU holds `workgroups`, each of `waves` waves, and registers would allow
    `by_registers`; with `bytes_for_more` bytes of LDS it holds one more. `place` is what holds them, a CU or a WGP."""

    lds_bytes: int
    workgroups: int
    waves: int
    by_registers: int
    bytes_for_more: int
    place: str

    def __str__(self) -> str:
        """`40,960 bytes of LDS per workgroup allow 1 workgroup per CU (4 waves); …`."""
        waves = count(self.workgroups * self.waves, "wave")
        return (
            f"{self.lds_bytes:,} bytes of LDS per workgroup allow {count(self.workgroups, 'workgroup')} per "
            f"{self.place} ({waves}); registers would allow {self.by_registers}: with at most {self.bytes_for_more:,} "
            f"bytes there would be {self.workgroups + 1}"
        )


def lds_limit(kernel: KernelReport, arch: str, threads: int | None = None) -> LdsLimit | None:
    """Return the limit of a kernel's LDS, None where something else keeps waves out or the arch is not known.

    `threads` of the workgroups that it is launched with; without, its largest workgroups count.
    """
    limits = limits_of(arch)
    if limits is None or kernel.occupancy is None or OccupancyLimit.LDS not in kernel.occupancy.by:
        return None
    cu_mode = occupancy_of(kernel.resources, arch) != kernel.occupancy
    own = kernel.resources
    size = own.workgroup_size if threads is None else min(threads, own.workgroup_size)
    own = replace(own, workgroup_size=size)
    found, free = (occupancy_of(one, arch, cu_mode=cu_mode) for one in (own, replace(own, lds_bytes=0)))
    step = step_of(own, arch, cu_mode=cu_mode)
    if found is None or free is None or step is None or not 0 < found.workgroups_per_cu < free.workgroups_per_cu:
        return None
    if not step.lds_bytes.excess or step.vgprs.excess or step.sgprs.excess or step.lds_bytes.most <= 0:
        return None
    return LdsLimit(
        lds_bytes=own.lds_bytes,
        workgroups=found.workgroups_per_cu,
        waves=-(-size // own.wavefront_size),
        by_registers=free.workgroups_per_cu,
        bytes_for_more=step.lds_bytes.most,
        place="WGP" if limits.wgp_mode and not cu_mode else "CU",
    )
