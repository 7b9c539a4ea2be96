"""A known-good instance to change in tests."""

from __future__ import annotations

from benchmarks.gemm_samples import Arguments, instance

OPERATION = "DeviceGemmMultiD_Xdl_CShuffle_V3"
V3 = "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v3"
V4 = "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v4"
COLUMNS = "256 128 128 64 4 4 32 2x2 16x16 8 16x16 8 0 1x1 16x16 4 Intrawave v3"


def row_col(**changes: object) -> Arguments:
    """The instance of f16, row/col/row, 128×128×64, pipeline v3, with some arguments changed."""
    return {**instance(V3, "Row", "Col", "F16"), **changes}  # type: ignore[dict-item]  # test data
