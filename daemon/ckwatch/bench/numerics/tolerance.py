"""How far a right result may be from the reference: CK's rule.

`ck/library/utility/check_err.hpp` (get_relative_threshold, get_absolute_threshold):

    rtol = max(2^-mant_acc · 0.5 · n, max(2^-mant_compute, 2^-mant_out) · 0.5),  atol = rtol · max|reference|

n counts the roundings in the accumulator's precision: K, and those of the epilogue, of which an activation has 16. The
compute type is the operand with the shorter mantissa; integers do not round. To atol comes half of the output's
smallest value, which is what rounding costs near 0.

With 8-bit operands this allows every element of a large GEMM an error of a quarter of what elements usually are. So
the root mean square of all errors is looked at too: it must keep to rtol of that of the reference alone, without atol,
which a result that is off by a slice of K, a scale or a bias does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ckwatch.bench.numerics.activation import NO_ROUNDINGS
from ckwatch.bench.numerics.elements import half_subnormal
from ckwatch.model.dtypes import DTYPES
from ckwatch.timing.problem import Gemm, Problem

EPILOGUE_MANTISSA = DTYPES["f32"].mantissa_bits
"""CK's epilogue computes in f32 also where the accumulator is an integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|y - reference| <= floor + relative · (largest |reference| + |reference|) is right."""

    relative: float
    floor: float


def tolerance_of(problem: Problem) -> Tolerance:
    """The tolerance of a GEMM.

    An integer result of an epilogue that rounds may be one off, since it may lie in the middle between two. Raises
    ValueError for a problem that is no GEMM.
    """
    gemm = problem.gemm
    if gemm is None:
        raise ValueError("what the kernel computes is not known")
    roundings = _epilogue_roundings(gemm)
    accumulator = DTYPES[gemm.accumulator].mantissa_bits
    operands = (DTYPES[problem.buffer(view.buffer).dtype].mantissa_bits for view in (gemm.x, gemm.w))
    dtype = problem.buffer(gemm.y.buffer).dtype
    output = DTYPES[dtype].mantissa_bits
    relative = max(
        _half_ulp(accumulator) * gemm.x.sizes[1] + _half_ulp(accumulator or EPILOGUE_MANTISSA) * roundings,
        _half_ulp(min(operands)) if output else 0.0,
        _half_ulp(output),
    )
    one_off = not output and (roundings or accumulator)
    return Tolerance(relative=relative, floor=1.0 if one_off else half_subnormal(dtype, gemm.fnuz))


def _half_ulp(mantissa_bits: int) -> float:
    return math.ldexp(0.5, -mantissa_bits) if mantissa_bits else 0.0


def _epilogue_roundings(gemm: Gemm) -> int:
    return (
        (gemm.scale_x is not None)
        + (gemm.scale_w is not None)
        + (gemm.alpha != 1)
        + 2 * (gemm.bias is not None)
        + 16 * (gemm.activation not in NO_ROUNDINGS)
    )
