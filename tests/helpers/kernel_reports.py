"""Reports of kernels for tests, without code objects, and problems to predict them on."""

from __future__ import annotations

from typing import Any

from cases.gemm_case import GemmCase
from ckwatch.codeobject.report import (
    CodeObjectReport,
    KernelReport,
    KernelResources,
    MainLoop,
    Occupancy,
    OccupancyLimit,
)
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape
from helpers.units import place

TILE_128 = {"MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 64}


def resources(**changes: Any) -> KernelResources:
    """The v3 128×128×64 f16 kernel of the examples, as its metadata says."""
    fields: dict[str, Any] = {
        "symbol": "_Z14gemm_universalILb1EEv14KernelArgument",
        "name": "gemm_universal<true, Full>",
        "vgprs": 189,
        "agprs": 0,
        "sgprs": 33,
        "vgpr_spills": 0,
        "sgpr_spills": 0,
        "scratch_bytes": 0,
        "lds_bytes": 32768,
        "workgroup_size": 256,
        "wavefront_size": 64,
        "kernarg_bytes": 168,
    }
    return KernelResources(**(fields | changes))


def occupancy(waves: int = 2, **changes: Any) -> Occupancy:
    """So many waves per SIMD, by VGPRs."""
    fields: dict[str, Any] = {
        "waves_per_simd": waves,
        "limited_by": OccupancyLimit.VGPR,
        "workgroups_per_cu": waves,
        "by": {OccupancyLimit.VGPR: waves, OccupancyLimit.LDS: 2, OccupancyLimit.WAVES: 8},
        "next_step": "21 VGPR fewer → 3 waves",
    }
    return Occupancy(**(fields | changes))


def loop(**changes: Any) -> MainLoop:
    """Its main loop: 32 `v_mfma_f32_32x32x8_f16` of 32·32·8·2 FLOP in 1080 clocks."""
    fields: dict[str, Any] = {
        "first": 100,
        "last": 201,
        "mix": {"mfma": 32, "valu": 10, "lds read": 16, "lds write": 8, "global load": 8, "wait": 20, "branch": 1},
        "lds_read_bytes": 16384,
        "lds_write_bytes": 8192,
        "global_load_bytes": 8192,
        "global_store_bytes": 0,
        "flops": 32 * 16384,
        "clocks": 1080.0,
        "matrix_use": 256 / 270,
    }
    return MainLoop(**(fields | changes))


_UNSET: Any = object()


def kernel(
    waves: int | None = 2, with_loop: MainLoop | None = _UNSET, notes: tuple[str, ...] = (), **changes: Any
) -> KernelReport:
    """The kernel with so many waves per SIMD (None: not known); `changes` to its resources."""
    return KernelReport(
        resources=resources(**changes),
        occupancy=None if waves is None else occupancy(waves),
        loop=loop() if with_loop is _UNSET else with_loop,
        notes=notes,
    )


def report(*kernels: KernelReport, notes: tuple[str, ...] = ()) -> CodeObjectReport:
    """A code object for gfx942 with these kernels."""
    return CodeObjectReport(arch="gfx942", kernels=kernels, notes=notes)


def problem(m: int, n: int, k: int, slices: int = 1, case: GemmCase | None = None) -> KernelProblem:
    """A GEMM of f16 without gaps in its operands."""
    case = case or GemmCase()
    x, w, y = (layout == "row" for layout in case.layouts.split())
    leading = {"LDA": k if x else m, "LDB": n if w else k, "LDC": n if y else m, "LDD": 0}
    sizes = {"M": m, "N": n, "K": k, **leading}
    return problem_of(case.operation(), Shape("s", sizes, {"kBatch": slices}, place()), case.arch)
