"""Figures of a code object as they are shown: registers, memory, occupancy, the main loop, and what has changed."""

from __future__ import annotations

from typing import Literal

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterCounts:
    """Registers and memory of a kernel: architectural and accumulation VGPRs, SGPRs, and those that are spilled; bytes
    are per lane (`scratch_bytes`) or per workgroup (`lds_bytes`)."""

    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(RegisterCounts):
    """Figures of the main kernel in the code object of a unit's last artifact.

    `standing`: whether it belongs to the unit's present artifact. `kernel` is the main kernel's readable name, of
    `kernels` in all. `occupancy` is in waves per SIMD, None when the arch is not known; `next_step` is what would raise
    it (`12 VGPR fewer → 3 waves`). `matrix_use` (0 to 1) and `loop_clocks` are llvm-mca's prediction for one wave and
    one iteration of the main loop. `changes` are the figures that changed since the previous artifact,
    `baseline_changes` since the artifact that the baseline was set with: `VGPR 189 → 201`. `headline` is a summary in
    one line.
    """

    artifact_key: str
    standing: Literal["fresh", "stale"]
    kernel: str
    kernels: int
    occupancy: int | None = None
    limited_by: str = ""
    next_step: str = ""
    matrix_use: float | None = None
    loop_clocks: float | None = None
    changes: tuple[str, ...] = ()
    baseline_changes: tuple[str, ...] = ()
    headline: str = ""
