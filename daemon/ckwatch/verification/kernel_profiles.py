"""The profile of a kernel whose instructions an emulator has counted, with the estimate of its cycles."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import DisassembledFunction
from ckwatch.codeobject.listing import listing_of
from ckwatch.codeobject.profile import profile_of
from ckwatch.codeobject.report import KernelReport
from ckwatch.codeobject.source_lines import CallChain
from ckwatch.model.instruction_counts import KernelCounts
from ckwatch.model.profiles import KernelProfile
from ckwatch.prediction.wait_and_issue import cycles_of, residency_of
from ckwatch.verification.counting import cache_line_bytes


def counted_profile(
    function: DisassembledFunction,
    kernel: KernelReport,
    counts: KernelCounts,
    arch: str,
    *,
    frames: Mapping[int, CallChain] | None,
    rendered: RenderedFile | None,
) -> KernelProfile:
    """The profile by lines; `frames` and `rendered` as in `listing_of`."""
    name, lanes = kernel.resources.name, kernel.resources.wavefront_size
    listing = listing_of(function, name=name, main=kernel.loop, frames=frames, rendered=rendered)
    line_bytes = cache_line_bytes(arch)
    resident = residency_of(kernel, counts, arch, line_bytes)
    cycles = None if resident is None else cycles_of(function.instructions, counts.instructions, resident)
    return profile_of(listing, counts, rendered, wave_lanes=lanes, line_bytes=line_bytes, cycles=cycles)
