"""Counts of ncu on a device, in the form of a profile that an emulator counts: exact, and no times.

A warp is a wave of 32 lanes, a sector of 32 bytes a cache line, and a wavefront of shared memory a turn of LDS. `waits`
are samples of warps by what they waited for; all others are counts of executed instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from ckwatch.codeobject.disassembly import InstructionKind
from ckwatch.codeobject.ncu_pages import SECTOR_BYTES
from ckwatch.codeobject.profile import FigureSum
from ckwatch.model.device_profiles import DeviceProfile, MeasuredKernel, ProfiledPlace
from ckwatch.model.instruction_counts import NOTHING_COUNTED
from ckwatch.model.profiles import KernelProfile, ProfiledInstruction, ProfiledLine

WARP_LANES = 32
_MOST_WAITS = 3
_KINDS: Mapping[str, InstructionKind] = {
    "LDS": InstructionKind.LDS_READ, "LDSM": InstructionKind.LDS_READ, "STS": InstructionKind.LDS_WRITE,
    "STSM": InstructionKind.LDS_WRITE, "ATOMS": InstructionKind.LDS_WRITE, "LD": InstructionKind.GLOBAL_LOAD,
    "LDG": InstructionKind.GLOBAL_LOAD, "LDGSTS": InstructionKind.GLOBAL_LOAD, "ST": InstructionKind.GLOBAL_STORE,
    "STG": InstructionKind.GLOBAL_STORE, "RED": InstructionKind.GLOBAL_STORE, "ATOMG": InstructionKind.GLOBAL_STORE,
    "BAR": InstructionKind.BARRIER, "DEPBAR": InstructionKind.WAIT, "LDGDEPBAR": InstructionKind.WAIT,
    "BRA": InstructionKind.BRANCH, "EXIT": InstructionKind.BRANCH, "CALL": InstructionKind.BRANCH,
    "RET": InstructionKind.BRANCH, "BSSY": InstructionKind.BRANCH, "BSYNC": InstructionKind.BRANCH,
}  # fmt: skip
_MATRIX = ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA")


def executed_profiles(profile: DeviceProfile, templates: Collection[str]) -> tuple[KernelProfile, ...]:
    """The kernels of a profile with counts whose grids are known; lines of `templates` are in templates."""
    return tuple(
        _kernel(kernel, places, templates)
        for kernel in profile.kernels
        if kernel.workgroups
        and (places := [one for one in profile.places if one.kernel == kernel.name and one.counts is not None])
    )


def _kernel(kernel: MeasuredKernel, places: Iterable[ProfiledPlace], templates: Collection[str]) -> KernelProfile:
    every, total = list(places), FigureSum()
    sums: dict[tuple[str, int], FigureSum] = defaultdict(FigureSum)
    for place in every:
        for found in (total, *([] if place.line is None else [sums[place.path, place.line]])):
            found.add_kind(kind_of(place.text), place.counts or NOTHING_COUNTED)
            found.waits.update(place.stalls)
    figures = {key: found.figures(most_waits=_MOST_WAITS) for key, found in sums.items()}
    order = sorted(figures, key=lambda key: (-figures[key].counts.issued, key))
    numbers = {key: number for number, key in enumerate(order)}
    return KernelProfile(
        name=kernel.name,
        symbol=kernel.name,
        workgroups=kernel.workgroups or 0,
        all_workgroups=kernel.workgroups or 0,
        launches=kernel.launches,
        wave_lanes=WARP_LANES,
        line_bytes=SECTOR_BYTES,
        total=total.figures(most_waits=_MOST_WAITS),
        lines=tuple(
            ProfiledLine(
                path=path,
                line=line,
                in_template=path in templates,
                function="",
                own=figures[path, line],
                total=figures[path, line],
            )
            for path, line in order
        ),
        instructions=tuple(
            ProfiledInstruction(
                address=place.address or 0,
                text=place.text,
                counts=place.counts or NOTHING_COUNTED,
                at=None if place.line is None else numbers[place.path, place.line],
            )
            for place in every
        ),
        notes=("counted by ncu on a device; a line has what the compiler says is of it alone",),
    )


def kind_of(text: str) -> InstructionKind:
    """The class of an instruction as SASS: `@!P0 LDG.E R7, …` → a load. Those of the uniform datapath are scalar."""
    words = text.split()
    name = next((word for word in words if not word.startswith("@")), "").partition(".")[0]
    if name in _MATRIX:
        return InstructionKind.MFMA
    if name in _KINDS:
        return _KINDS[name]
    return InstructionKind.SALU if name.startswith(("U", "R2UR", "S2UR")) else InstructionKind.VALU
