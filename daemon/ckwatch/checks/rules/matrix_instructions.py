"""Which MFMA instruction Composable Kernel takes for a tile of one wave, and how it splits K over the lanes.

Source: `ck/tensor_operation/gpu/warp/xdlops_gemm.hpp`, `MfmaSelector::GetMfma` and the `mfma_type` specialisations.
The choice depends on macros that only the device pass defines (`__gfx950__`, `__gfx90a__`), so the host pass may
take another instruction than the device pass of the same compilation. Both passes assert about theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

HOST = "host"
"""The compiler's host pass, where no `__gfx…__` macro is defined."""


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """`k_per_blk`: consecutive K values that one lane feeds to one instruction. `k_blocks`: lanes along K."""

    name: str
    k_per_blk: int
    k_blocks: int


def _mfma(name: str, k_per_blk: int, k_blocks: int) -> MatrixInstruction:
    return MatrixInstruction(name, k_per_blk, k_blocks)


_BF16_1K_PASSES = ("gfx90a", "gfx942", "gfx950")
"""Passes with `CK_USE_AMD_MFMA_BF16_1K_OP` (ck/ck.hpp)."""

_EIGHT_BITS = ("F8", "BF8")


def shapes(compute_type: str) -> tuple[str, ...]:
    """The `MPerXDLxNPerXDL` that have an instruction for `compute_type`, as text, smallest first."""
    match compute_type:
        case "F16":
            return ("4x64", "8x64", "16x16", "16x64", "32x32", "32x64", "64x64")
        case "F32":
            return ("4x64", "8x64", "16x16", "16x64", "32x32", "32x64", "64x64")
        case "BF16" | "I8" | "F8" | "BF8":
            return ("16x16", "32x32")
        case "F64":
            return ("16x16",)
    return ()


def instruction(
    compute_type: str, other_type: str, shape: str, target: str, *, single_rate: bool
) -> MatrixInstruction | None:
    """The instruction for a wave tile, None when the selector has no specialisation.

    `target` is `HOST` or an architecture such as `gfx942`; `single_rate` is the selector's `is_single_rate_mfma`.
    """
    if shape not in shapes(compute_type):
        return None
    double_rate = target == "gfx950" and not single_rate
    blocks = {"16x16": 4, "32x32": 2}.get(shape, 1)
    if compute_type in _EIGHT_BITS:
        if other_type not in _EIGHT_BITS:
            return None
        return _mfma("mfma_f32_…f8f6f4", 32, blocks) if double_rate else _mfma("mfma_f32_…f8", 8, blocks)
    if compute_type != other_type or (single_rate and blocks == 1):
        return None
    match compute_type:
        case "F64" | "F32":
            return None if single_rate else _mfma(f"mfma_{compute_type.lower()}_{shape}", 1, blocks)
        case "F16":
            return _mfma("mfma_f32_…f16", 8 if double_rate else 4, blocks)
        case "BF16" if double_rate:
            return _mfma("mfma_f32_…bf16", 8, blocks)
        case "BF16":
            return _mfma("mfma_f32_…bf16", 4 if target in _BF16_1K_PASSES else 2, blocks)
        case "I8":
            if double_rate:
                return _mfma("mfma_i32_…i8", 16, blocks)
            return _mfma("mfma_i32_…i8", 8 if target in {"gfx942", "gfx950"} else 4, blocks)
    return None
