"""Ranks kernels of any code objects by their main loops, as far as a loop alone says something about time.

A loop of matrix instructions does `flops` in `clocks` of llvm-mca for one wave; the waves of a SIMD share its matrix
unit. So a SIMD does at best `flops / clocks` times its waves, and no more than its matrix unit. Loops that move data
have the clocks of one wave for a byte of global memory, which says how much issuing costs beside memory, not how long
memory takes. Kernels of different archs, and loops of the two kinds, are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from ckwatch.codeobject.report import KernelReport
from ckwatch.model.lazy_dataclass import dataclass

NOT_RANKED = (
    "memory: bandwidth, caches and their latency; LDS bank conflicts",
    "how often a loop runs, what lies before and behind it, and other loops of the kernel",
    "how many workgroups a launch has, and whether kernels compute the same",
)
"""Loops that a ranking leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedLoop:
    """A kernel's place among those of its arch whose loop does the same `work`: "matrix" (`rate` in FLOP per clock of a
    SIMD, at best) or "memory" (`rate` in bytes of global memory per clock of one wave). `ratio` is that of the best
    rate to this one. `place` is None where `because` says why."""

    file: str
    origin: str
    arch: str
    kernel: str
    work: Literal["matrix", "memory"] | None = None
    place: int | None = None
    rate: float | None = None
    ratio: float | None = None
    clocks: float | None = None
    matrix_use: float | None = None
    waves_per_simd: int | None = None
    because: str = ""


def rank_loops(kernels: Iterable[tuple[str, str, str, KernelReport]]) -> tuple[RankedLoop, ...]:
    """Rank kernels, each with the names of its file, its place in that, and its arch: by arch and kind of work, the
    fastest first, those without a place last."""
    groups: dict[tuple[str, str], list[RankedLoop]] = {}
    for file, origin, arch, kernel in kernels:
        one = _rated(kernel, RankedLoop(file=file, origin=origin, arch=arch, kernel=kernel.resources.name))
        groups.setdefault((arch, one.work or ""), []).append(one)
    order = sorted(groups, key=lambda group: (not group[1], group))
    return tuple(one for group in order for one in _placed(groups[group]))


def _rated(kernel: KernelReport, row: RankedLoop) -> RankedLoop:
    loop, occupancy = kernel.loop, kernel.occupancy
    if loop is None:
        return replace(row, because="; ".join(kernel.notes) or "no main loop was found")
    row = replace(
        row,
        clocks=loop.clocks,
        matrix_use=loop.matrix_use,
        waves_per_simd=None if occupancy is None else occupancy.waves_per_simd,
    )
    if not loop.clocks:
        return replace(row, because="; ".join(kernel.notes) or "its loop has no predicted clocks")
    if loop.matrix_use and loop.flops:
        if occupancy is None or not occupancy.waves_per_simd:
            return replace(row, because="its occupancy is not known")
        waves = min(occupancy.waves_per_simd, 1 / loop.matrix_use)
        return replace(row, work="matrix", rate=waves * loop.flops / loop.clocks)
    moved = loop.global_load_bytes + loop.global_store_bytes
    if not moved:
        return replace(row, because="its loop has neither matrix instructions nor accesses to global memory")
    return replace(row, work="memory", rate=moved / loop.clocks)


def _placed(group: Sequence[RankedLoop]) -> list[RankedLoop]:
    if group[0].work is None:
        return list(group)
    # Loops that fill the matrix unit are distinguished by how many waves they need for it.
    ranked = sorted(group, key=lambda one: (-round(one.rate or 0, 6), -(one.matrix_use or 0)))
    best = ranked[0].rate or 0
    return [
        replace(one, place=place, ratio=best / one.rate if one.rate else None) for place, one in enumerate(ranked, 1)
    ]
