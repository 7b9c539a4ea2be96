"""Which shapes an instance of CK Tile's universal GEMM supports.

What CK Tile checks at run time, in UniversalGemmKernel::IsSupportedArgument (CK 1.2.0), by the template parameters and
the sizes alone. The widths of vectors are definitions of the instance rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ckwatch.checks.rules.checker import value_of
from ckwatch.checks.rules.ck_tile_gemm import NAME, OPERATION
from ckwatch.checks.supported_shapes.family import (
    Parameters,
    Refusal,
    ShapeRules,
    contiguous,
    contiguous_axis,
    sizes_near,
    slices_of,
)
from ckwatch.checks.supported_shapes.universal_gemm import TWO_GIB
from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.tensors import DTYPES


class _Matrix(NamedTuple):
    """A matrix of an operation: of which `dtype`, along which axes, and along which of both its elements lie side by
    side; None where that is unknown. `strides`: along both, where it has one for each."""

    dtype: str
    axes: tuple[str, str]
    contiguous: int | None
    strides: tuple[int, ...] = ()


class _Products(NamedTuple):
    """The products of an operation: its sizes, of a group of rows as if it had all, and the matrices by their sides."""

    sizes: Mapping[str, int]
    matrices: Mapping[str, _Matrix]


def _products(problem: KernelProblem) -> _Products | None:
    gemm, rows = problem.gemm, problem.rows
    if gemm is not None:
        views = {"A": (gemm.x, ("M", "K")), "B": (gemm.w, ("K", "N")), "C": (gemm.y, ("M", "N"))}
        matrices = {
            side: _Matrix(problem.buffer(view.buffer).dtype, axes, contiguous_axis(view), _strides(view))
            for side, (view, axes) in views.items()
        }
        return _Products({"M": gemm.x.sizes[0], "N": gemm.w.sizes[1], "K": gemm.x.sizes[1]}, matrices)
    if rows is None or rows.reference != "grouped_gemm":
        return None
    x, w, y = (rows.view(role) for role in "xwy")
    found = {"A": (x, ("M", "K")), "B": (w, ("K", "N")), "C": (y, ("M", "N"))}
    return _Products(
        {"M": x.sizes[0], "N": y.sizes[1], "K": x.sizes[1]},
        {
            side: _Matrix(problem.buffer(view.buffer).dtype, axes, contiguous(*view.strides[-2:]), view.strides[-2:])
            for side, (view, axes) in found.items()
        },
    )


def _strides(view: MatrixView) -> tuple[int, ...]:
    both = (view.rows, view.columns)
    return tuple(axes[0][1] for axes in both) if all(len(axes) == 1 for axes in both) else ()


def refusals(parameters: Parameters, problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem, whose operation is a product of matrices or of groups of rows."""
    known = {OPERATION.canonical(name) or name: value for name, value in parameters.items()}
    products = _products(problem)
    if products is None:
        return
    sizes, slices = products.sizes, slices_of(problem)
    for side, matrix in products.matrices.items():
        dtype = DTYPES[matrix.dtype]
        known[f"{side}Layout"] = "Col" if matrix.contiguous == 0 else "Row"
        known[f"{side}DataType"] = dtype.ck_name
        if sizes[matrix.axes[0]] * sizes[matrix.axes[1]] * dtype.size_bytes > TWO_GIB:
            yield Refusal(f"{side} is larger than 2 GiB")
        elif matrix.strides:
            tiles = (known.get(f"Tile{axis}") for axis in matrix.axes)
            whole_tiles = [tile if isinstance(tile, int) and tile > 0 else 1 for tile in tiles]
            ends = [-(-sizes[axis] // tile) * tile - 1 for axis, tile in zip(matrix.axes, whole_tiles, strict=True)]
            last = sum(end * stride for end, stride in zip(ends, matrix.strides, strict=True))
            if (last + 1) * dtype.size_bytes > TWO_GIB:
                yield Refusal(f"{side} reaches beyond 2 GiB")
    for side, matrix in products.matrices.items():
        if matrix.contiguous is None:
            continue
        axis = matrix.axes[matrix.contiguous]
        size, tile, vector = sizes[axis], known.get(f"Tile{axis}"), value_of(NAME, f"{side}Vector", known, problem.arch)
        whole = tile * (slices if axis == "K" else 1) if isinstance(tile, int) and tile > 0 else 1
        if known.get(f"kPad{axis}") in (False, "false") and size % whole:
            times = "kBatch · " if axis == "K" and slices > 1 else ""
            reason = f"{axis} = {size} is not a multiple of {times}Tile{axis} = {whole}, and kPad{axis} is false"
            yield Refusal(reason, f"kPad{axis} = true")
        if isinstance(vector, int) and vector > 0 and size % vector:
            moved = "written" if side == "C" else "read"
            reason = f"{axis} = {size} is not a multiple of {vector}, the elements of {side} that are {moved} at once"
            yield Refusal(reason, sizes_near(axis, size, vector))
    if slices > 1 and _shares_rounds(known):
        yield Refusal(f"kBatch = {slices}, and with StreamKBlocks it must be 1", "kBatch = 1")
    tile, k = known.get("TileK"), sizes["K"]
    if isinstance(tile, int) and tile > 0 and -(-k // (slices * tile)) * tile * (slices - 1) >= k:
        reason = f"K = {k} is too small for {slices} slices (kBatch) of whole TileK = {tile}"
        yield Refusal(reason, "a lower kBatch")


def _shares_rounds(parameters: Parameters) -> bool:
    """Return True if several blocks may compute a tile, and a second kernel add their sums."""
    return parameters.get("StreamKBlocks", 0) != 0


def special_sizes(parameters: Parameters) -> dict[str, tuple[int, int, int]]:
    """With Stream-K: tiles that many blocks share, blocks that have parts of two tiles, and whole tiles before them."""
    blocks, m, n, k = (parameters.get(name) for name in ("StreamKBlocks", "TileM", "TileN", "TileK"))
    if not (isinstance(blocks, int) and isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or blocks < 1:
        return {}
    few, part = 16, 16  # rows, and what is left over of a tile, in whole vectors of any dtype

    def long(tiles: int, rounds: int) -> tuple[int, int, int]:
        """A line of tiles whose rounds together are about `rounds`."""
        return few, (tiles - 1) * n + part, -(-rounds // tiles) * k + part

    found = {"shared rounds": long(3, blocks * 3 // 2), "parts of two tiles": long(5, 3 * blocks)}
    if blocks <= _FEW_BLOCKS:
        found["whole tiles first"] = (m + few, blocks * n + part, 2 * k + part)
    return found


_FEW_BLOCKS = 64
"""That many turns of whole tiles are executed in a moment."""

CK_TILE_GEMM = ShapeRules(
    describes=lambda parameters: {"TileK", "Pipeline"} <= {OPERATION.canonical(name) for name in parameters},
    refusals=refusals,
    splits_k=lambda operation: operation.settings.get("split_k") is True,
    special_sizes=special_sizes,
    needs_whole=lambda parameters, _: "blocks share tiles" if _shares_rounds(parameters) else "",
)
