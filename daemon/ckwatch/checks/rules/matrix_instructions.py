"""Which MFMA instruction Composable Kernel takes for a tile of one wave, and how it splits K over the lanes.

Source: `ck/tensor_operation/gpu/warp/xdlops_gemm.hpp`, `MfmaSelector::GetMfma` and the `mfma_type` specialisations.
The choice depends on macros that only the device pass defines (`__gfx950__`, `__gfx90a__`), so the host pass may
take another instruction than the device pass of the same compilation. Both passes assert about theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

HOST = "host"
"""The compiler's host pass, where no `__gfx…__` macro is defined."""

SHAPES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("F16", "F32"), ("4x64", "8x64", "16x16", "16x64", "32x32", "32x64", "64x64")),
    **dict.fromkeys(("BF16", "I8", "F8", "BF8"), ("16x16", "32x32")),
    "F64": ("16x16",),
}
"""The `MPerXDLxNPerXDL` that have an instruction for a type, smallest first."""

_BF16_1K_PASSES = ("gfx90a", "gfx942", "gfx950")
"""Passes with `CK_USE_AMD_MFMA_BF16_1K_OP` (ck/ck.hpp)."""

_EIGHT_BITS = ("F8", "BF8")


class MatrixInstruction(NamedTuple):
    """`k_per_blk`: consecutive K values that one lane feeds to one instruction. `k_blocks`: lanes along K."""

    k_per_blk: int
    k_blocks: int


def instruction(
    compute_type: str, other_type: str, shape: str, target: str, *, single_rate: bool
) -> MatrixInstruction | None:
    """The instruction for a wave tile, None when the selector has no specialisation.

    `target` is `HOST` or an architecture such as `gfx942`; `single_rate` is the selector's `is_single_rate_mfma`.
    """
    if shape not in SHAPES.get(compute_type, ()):
        return None
    double_rate = target == "gfx950" and not single_rate
    blocks = {"16x16": 4, "32x32": 2}.get(shape, 1)
    if compute_type in _EIGHT_BITS:
        return MatrixInstruction(32 if double_rate else 8, blocks) if other_type in _EIGHT_BITS else None
    if compute_type != other_type or (single_rate and (blocks == 1 or compute_type in ("F64", "F32"))):
        return None
    k_per_blk = {
        "F64": 1,
        "F32": 1,
        "F16": 8 if double_rate else 4,
        "BF16": 8 if double_rate else 4 if target in _BF16_1K_PASSES else 2,
        "I8": 16 if double_rate else 8 if target in ("gfx942", "gfx950") else 4,
    }
    return MatrixInstruction(k_per_blk[compute_type], blocks)
