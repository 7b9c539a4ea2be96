"""The figures and the listing of a kernel for a terminal, the same for units and for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ckwatch.cli.output import aligned
from ckwatch.model.amounts import count, size

if TYPE_CHECKING:
    from ckwatch.codeobject.report import KernelReport, KernelResources, MainLoop, Occupancy
    from ckwatch.wire.analysis import Isa

Line = tuple[str, str]
"""A line and its style."""

INDENT = "  "

WAITS_SHOWN = 6
"""Of a loop's waits; JSON has all."""


def kernel_lines(kernel: KernelReport, first: Sequence[Sequence[str]] = ()) -> list[Line]:
    """The figures of a kernel, below rows that come first."""
    rows = [*first, *_resource_rows(kernel.resources), *_occupancy_rows(kernel.occupancy, kernel.resources)]
    if kernel.loop is not None:
        rows += _loop_rows(kernel.loop)
    rows += [["note", note] for note in kernel.notes]
    lines: list[Line] = [(f"{INDENT}{kernel.resources.name}", "bold")]
    return [*lines, *((2 * INDENT + line, "") for line in aligned(rows))]


def _resource_rows(found: KernelResources) -> list[list[str]]:
    spills = [
        f"{number} {kind}" for number, kind in ((found.vgpr_spills, "VGPR"), (found.sgpr_spills, "SGPR")) if number
    ]
    agprs = f", {found.agprs} AGPR" if found.agprs else ""
    scratch = f"{found.scratch_bytes} B scratch per lane" if found.scratch_bytes else "no scratch"
    stack = ", dynamic stack" if found.dynamic_stack else ""
    return [
        ["registers", f"{found.vgprs} VGPR{agprs}, {found.sgprs} SGPR"],
        ["spills", " and ".join(spills) or "none"],
        ["memory", f"{size(found.lds_bytes)} LDS, {scratch}{stack}, {found.kernarg_bytes} B of arguments"],
        ["workgroup", f"at most {found.workgroup_size} threads, in waves of {found.wavefront_size}"],
    ]


def _occupancy_rows(found: Occupancy | None, resources: KernelResources) -> list[list[str]]:
    if found is None:
        return [["occupancy", "not known"]]
    alone = ", ".join(f"{limit} {waves}" for limit, waves in found.by.items())
    text = f"{count(found.waves_per_simd, 'wave')} per SIMD, limited by {found.limited_by}"
    rows = [
        ["occupancy", text + (f" (each alone: {alone})" if alone else "")],
        ["", f"{count(found.workgroups_per_cu, 'workgroup')} of {resources.workgroup_size} threads per CU"],
    ]
    return [*rows, ["", found.next_step]] if found.next_step else rows


def _loop_rows(loop: MainLoop) -> list[list[str]]:
    mix = ", ".join(
        f"{number} {kind}" for kind, number in sorted(loop.mix.items(), key=lambda each: -each[1]) if number
    )
    moved = [
        f"{size(number)} {what}"
        for number, what in (
            (loop.lds_read_bytes, "read from LDS"),
            (loop.lds_write_bytes, "written to LDS"),
            (loop.global_load_bytes, "loaded"),
            (loop.global_store_bytes, "stored"),
        )
        if number
    ]
    flops = f"{loop.flops} FLOP" + (
        "" if loop.intensity is None else f", {loop.intensity:.1f} per byte of global memory"
    )
    rows = [
        ["main loop", f"{sum(loop.mix.values())} instructions: {mix}" if mix else "found"],
        ["", f"each wave, each time: {', '.join([*moved, flops])}"],
        ["", loop_words(loop)],
    ]
    more = len(loop.waits) - WAITS_SHOWN
    waits = loop.waits if more <= 1 else (*loop.waits[:WAITS_SHOWN], f"and {more} more")
    rows += [["waits" if at == 0 else "", text] for at, text in enumerate(waits)]
    rows += [["hint" if at == 0 else "", text] for at, text in enumerate(loop.hints)]
    return rows


def loop_words(loop: MainLoop) -> str:
    """`predicted: 1080 clocks, matrix units 95 % busy (one wave; …)`."""
    if loop.clocks is None:
        return "predicted: nothing, llvm-mca has no figure"
    use = "" if loop.matrix_use is None else f", matrix units {100 * loop.matrix_use:.0f} % busy"
    return f"predicted by llvm-mca: {loop.clocks:.0f} clocks{use} (one wave alone; no caches, no latency of memory)"


def isa_lines(found: Isa, *, whole: bool = False) -> list[Line]:
    """The listing's lines, those of closed folds left out: all but the main loop's, where there is one.

    `whole`: nothing is closed.
    """
    shut = [] if whole or not any(fold.main for fold in found.folds) else found.folds
    closed = {fold.start: fold.end for fold in shut if fold.kind != "function" and not fold.main}
    texts = found.text.removesuffix("\n").split("\n")
    title = f"{found.unit}, artifact {found.artifact_key[:12]}" + ("" if found.fresh else ", of an earlier input")
    lines: list[Line] = [(title, "bold")]
    lines += [(f"  {note}", "yellow") for note in found.notes if note not in found.text]
    if len(found.kernels) > 1:
        lines.append((f"  one of {len(found.kernels)} kernels; --kernel NAME shows another:", ""))
        lines += [(f"    {name}", "") for name in found.kernels if name != found.kernel]
    number = 0
    while number < len(texts):
        last = closed.get(number)
        text = texts[number] if last is None else texts[number].replace("▾", "▸", 1)
        lines.append((text, "dim" if text.lstrip().startswith(";") else ""))
        number = number + 1 if last is None else last + 1
    return lines
