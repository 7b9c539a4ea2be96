"""Element types: their names in CK, in the kernel ABI, and their precision.

The ABI types are those of PyTorch Inductor's `DTYPE_TO_ROCM_TYPE`: 16-bit floats travel as `uint16_t*`, 8-bit floats
as `uint8_t*`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """`mantissa_bits` counts stored bits, without the hidden one; 0 for integers."""

    name: str
    ck_name: str
    abi_type: str
    size_bytes: int
    mantissa_bits: int


DTYPES: dict[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        Dtype("f16", "F16", "uint16_t", 2, 10),
        Dtype("bf16", "BF16", "uint16_t", 2, 7),
        Dtype("f32", "F32", "float", 4, 23),
        Dtype("f64", "F64", "double", 8, 52),
        Dtype("f8", "F8", "uint8_t", 1, 3),
        Dtype("bf8", "BF8", "uint8_t", 1, 2),
        Dtype("i8", "I8", "int8_t", 1, 0),
        Dtype("i32", "I32", "int32_t", 4, 0),
    )
}
"""`f8` is E4M3 and `bf8` E5M2: the fnuz forms on gfx90a and gfx942, the OCP forms on gfx950."""

LAYOUTS = {"row": "Row", "col": "Col"}
"""`row`: the last index is contiguous; `col`: the one before it is."""
