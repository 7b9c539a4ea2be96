"""Which shapes an instance of CK Tile's universal GEMM supports.

What CK Tile checks at run time, in UniversalGemmKernel::IsSupportedArgument (CK 1.2.0), by the template parameters and
the sizes alone. The widths of vectors are definitions of the instance rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckwatch.checks.rules.checker import value_of
from ckwatch.checks.rules.ck_tile_gemm import NAME, OPERATION
from ckwatch.checks.supported_shapes.family import Parameters, ShapeRules, contiguous_axis, slices_of
from ckwatch.checks.supported_shapes.universal_gemm import TWO_GIB
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.tensors import DTYPES


def reasons(parameters: Parameters, problem: KernelProblem) -> Iterator[str]:
    """Why an instance does not support a problem, whose operation is a product of matrices."""
    known = {OPERATION.canonical(name) or name: value for name, value in parameters.items()}
    gemm = problem.gemm
    if gemm is None:
        return
    (m, k), n, slices = gemm.x.sizes, gemm.w.sizes[1], slices_of(problem)
    sizes = {"M": m, "N": n, "K": k}
    views = {"A": (gemm.x, ("M", "K")), "B": (gemm.w, ("K", "N")), "C": (gemm.y, ("M", "N"))}
    contiguous = {side: contiguous_axis(view) for side, (view, _) in views.items()}
    for side, (view, (rows, columns)) in views.items():
        dtype = DTYPES[problem.buffer(view.buffer).dtype]
        known[f"{side}Layout"] = "Col" if contiguous[side] == 0 else "Row"
        known[f"{side}DataType"] = dtype.ck_name
        if sizes[rows] * sizes[columns] * dtype.size_bytes > TWO_GIB:
            yield f"{side} is larger than 2 GiB"
    for side, (_, axes) in views.items():
        at = contiguous[side]
        if at is None:
            continue
        axis = axes[at]
        size, tile, vector = sizes[axis], known.get(f"Tile{axis}"), value_of(NAME, f"{side}Vector", known)
        whole = tile * (slices if axis == "K" else 1) if isinstance(tile, int) else 1
        if known.get(f"kPad{axis}") in (False, "false") and size % whole:
            times = "kBatch · " if axis == "K" and slices > 1 else ""
            yield f"{axis} = {size} is no multiple of {times}Tile{axis} = {whole}, and kPad{axis} is false"
        if isinstance(vector, int) and vector > 0 and size % vector:
            moved = "written" if side == "C" else "read"
            yield f"{axis} = {size} is no multiple of {vector}, the elements of {side} that are {moved} at once"
    tile = known.get("TileK")
    if isinstance(tile, int) and tile > 0 and -(-k // (slices * tile)) * tile * (slices - 1) >= k:
        yield f"K = {k} is too small for {slices} slices (kBatch) of whole TileK = {tile}"


CK_TILE_GEMM = ShapeRules(
    describes=lambda parameters: {"TileK", "Pipeline"} <= {OPERATION.canonical(name) for name in parameters},
    reasons=reasons,
    splits_k=lambda operation: operation.settings.get("split_k") is True,
)
