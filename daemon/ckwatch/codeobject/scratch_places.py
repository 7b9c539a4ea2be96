"""Lines whose instructions access a kernel's scratch, and the arrays of a lane that lie in it.

Only of kernels that spill nothing: their scratch holds arrays, and what other functions need. On CDNA1 and 2 and before
it is accessed by buffer instructions with the resource descriptor in s0 to s3 ("Private Segment Buffer" in LLVM's
AMDGPUUsage), elsewhere by `scratch_…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ckwatch.checks.device_code.private_arrays import (
    UNROLL,
    ArrayAccess,
    Loop,
    array_accesses,
    is_told_to_unroll,
)
from ckwatch.codeobject.disassembly import DisassembledFunction, Instruction
from ckwatch.codeobject.kernel_sources import SourceTexts
from ckwatch.codeobject.limit_hints import SourceEdit
from ckwatch.codeobject.report import KernelResources
from ckwatch.codeobject.source_lines import CallChain
from ckwatch.headers.masked_text import masked
from ckwatch.model.lazy_dataclass import dataclass

_BY_LANE = re.compile(r"scratch_load_\w+ [^,]+, v|scratch_store_\w+ v")
_DESCRIPTOR = "s[0:3]"


@dataclass(frozen=True, slots=True)
class ScratchArray:
    """An array that lies in scratch, and its accesses there. `by_lane`: one of them has an address that each lane
    computes."""

    accesses: tuple[ArrayAccess, ...]
    by_lane: bool

    @property
    def unrollable(self) -> tuple[Loop, ...]:
        """The loops whose counters index it."""
        return tuple(dict.fromkeys(loop for one in self.accesses for loop in one.loops))


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """The arrays in a kernel's scratch, the lines of the texts that access what is none, by their offsets, and whether
    the kernel calls a function."""

    arrays: tuple[ScratchArray, ...]
    lines: tuple[tuple[int, int], ...]
    calls: bool


def scratch_use(function: DisassembledFunction, frames: Mapping[int, CallChain], texts: SourceTexts) -> ScratchUse:
    """The contents of scratch of a kernel without spills, as far as the texts show it."""
    code = masked(texts.text)
    arrays: dict[int, list[ArrayAccess]] = {}
    lanes: set[int] = set()
    others: list[tuple[int, int]] = []
    for line, by_lane in _lines(function.instructions, frames, texts).items():
        found = list(array_accesses(code, *line))
        for one in found:
            arrays.setdefault(one.declared_at, []).append(one)
            if by_lane and len(found) == 1:
                lanes.add(one.declared_at)
        if not found:
            others.append(line)
    made = tuple(ScratchArray(tuple(dict.fromkeys(each)), at in lanes) for at, each in arrays.items())
    calls = any(one.mnemonic == "s_swappc_b64" for one in function.instructions)
    return ScratchUse(made, tuple(others), calls)


def unroll_edits(array: ScratchArray, texts: SourceTexts) -> tuple[SourceEdit, ...]:
    """The directives that would unroll all loops by whose counters an array is indexed; none where a directive says
    otherwise."""
    loops = array.unrollable
    if any(is_told_to_unroll(texts.text, loop) for loop in loops):
        return ()
    return tuple(_directive(texts.text, loop) for loop in loops)


def is_less_scratch(before: KernelResources, after: KernelResources) -> bool:
    """Return True if a compile has less in scratch, and spills no more."""
    return after.scratch_bytes < before.scratch_bytes and after.vgpr_spills <= before.vgpr_spills


def _directive(text: str, loop: Loop) -> SourceEdit:
    indent = text[loop.line_start : loop.start]
    if indent.strip():
        return SourceEdit(loop.start, loop.start, f"\n{UNROLL}\n")
    return SourceEdit(loop.line_start, loop.line_start, f"{indent}{UNROLL}\n")


def _lines(
    instructions: Iterable[Instruction], frames: Mapping[int, CallChain], texts: SourceTexts
) -> dict[tuple[int, int], bool]:
    """The lines whose instructions access scratch, in their order, and whether one has an address of each lane."""
    found: dict[tuple[int, int], bool] = {}
    for one in instructions:
        if not _is_scratch(one):
            continue
        line = next(_own(frames.get(one.address, ()), texts), None)
        if line is not None:
            found[line] = found.get(line, False) or _BY_LANE.match(one.text) is not None
    return dict(sorted(found.items()))


def _is_scratch(one: Instruction) -> bool:
    if one.mnemonic.startswith("scratch_"):
        return True
    return one.mnemonic.startswith(("buffer_load", "buffer_store")) and _DESCRIPTOR in one.operands


def _own(chain: CallChain, texts: SourceTexts) -> Iterator[tuple[int, int]]:
    """The bounds of the lines of a call chain that are in the texts, the innermost first."""
    for frame in chain:
        bounds = texts.line(frame.path, frame.line)
        if bounds is not None:
            yield bounds
