"""Scales per block of X and W, as `scale_a = { per = "block", block = [1, 128] }` says.

Each element of X and of W is multiplied by the scale of its block before they are multiplied with one another; blocks
of X and of W are equally deep. A scale is a matrix with a value per block, in the layout of X or W, without gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckwatch.model.contractions import AxisExpressions, MatrixAxes
from ckwatch.model.kernels import ParameterValue, Tensor
from ckwatch.workspace.operations.shuffles import SHUFFLED_SCALES, axes_of_scales
from ckwatch.workspace.problems import Problems

SETTING = "scale_block"
"""The key in `operation.settings` that templates read: M, N and K of a block."""


def check_blocks(problems: Problems, blocks: Mapping[str, Sequence[int] | None], *, per_block: bool) -> None:
    """Report `block` of `scale_a` and `scale_b` where it is missing, wrong, or has no meaning."""
    for name, block in blocks.items():
        place = ("operation", name)
        if per_block and block is None:
            example = "[1, 128]" if name == "scale_a" else "[128, 128]"
            message = f"`{name}` is per block: say which, as in block = {example}"
            problems.at_value(place, "missing-key", message)
        elif not per_block and block is not None:
            message = f'`block` of {name} means nothing: it needs per = "block"'
            problems.at_key((*place, "block"), "inconsistent-scale", message)
        elif block is not None and len(block) != 2:
            message = f"`block` of {name} must be two sizes: rows and columns that share a value"
            problems.at_value((*place, "block"), "inconsistent-scale", message)
    first, second = blocks.get("scale_a"), blocks.get("scale_b")
    if per_block and first and second and len(first) == len(second) == 2 and first[1] != second[0]:
        message = (
            f"blocks of X and W must be equally deep: those of X have {first[1]} columns, those of W {second[0]} rows"
        )
        problems.at_value(("operation", "scale_b", "block"), "inconsistent-scale", message)


def scale_block(a: Sequence[int] | None, b: Sequence[int] | None) -> tuple[int, int, int] | None:
    """M, N and K of a block; None where a scale has none."""
    return (a[0], b[1], a[1]) if a and b and len(a) == len(b) == 2 else None


def block_scale(name: str, dtype: str, layout: str, sizes: Sequence[str], block: Sequence[int]) -> Tensor:
    """A value for each `block` of a matrix with these sizes."""
    rows, columns = (
        size if length == 1 else f"(({size} + {length - 1}) / {length})"
        for size, length in zip(sizes, block, strict=True)
    )
    return Tensor(name, dtype, layout, (rows, columns), (columns, "1") if layout == "row" else ("1", rows), name)


def scale_axes(
    scale: Tensor | None, settings: Mapping[str, ParameterValue], batch: AxisExpressions
) -> MatrixAxes | None:
    """A scale per block with the indices of its matrix: those of a block, then those within one, which repeat.

    None for a scale that is none of a block.
    """
    match settings.get(SETTING):
        case (int(m), int(n), int(k)) if scale is not None:
            block = (m, k) if scale.name == "inv_scale_x" else (k, n)
        case _:
            return None
    if len(scale.sizes) == SHUFFLED_SCALES:
        return axes_of_scales(scale, k, of_x=scale.name == "inv_scale_x")
    rows, columns = (
        ((size, stride),) if length == 1 else ((size, stride), (str(length), "0"))
        for size, stride, length in zip(scale.sizes[-2:], scale.strides[-2:], block, strict=True)
    )
    between = scale.strides[0] if len(scale.sizes) > 2 else "0"
    return MatrixAxes(tensor=scale.name, batch=tuple((size, between) for size, _ in batch), rows=rows, columns=columns)
