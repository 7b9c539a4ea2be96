"""Ranges of dtypes, and the error that a right result may have; without numpy, as the daemon is."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ckwatch.model.contractions import Contraction
from ckwatch.model.kernel_problem import ComputedRows, Gemm, KernelProblem, ReferenceOutput
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensor_values import INTEGER_LIMITS
from ckwatch.model.tensors import DTYPES


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A float of at most 8 bits: exponent bias, stored bits of the mantissa, largest finite value, and the NaN that is
    written.

    The forms without infinity (`fnuz`, OCP's E4M3) have NaN at one magnitude only; f4 has none, and what is no number
    becomes its largest value.
    """

    mantissa_bits: int
    bias: int
    largest: float
    nan: int
    bits: int = 8


SMALL_FLOATS = {
    ("f8", False): SmallFloat(3, 7, 448.0, 0x7F),
    ("bf8", False): SmallFloat(2, 15, 57344.0, 0x7F),
    ("f8", True): SmallFloat(3, 8, 240.0, 0x80),
    ("bf8", True): SmallFloat(2, 16, 57344.0, 0x80),
    **{("f4", fnuz): SmallFloat(1, 1, 6.0, 0x7, bits=4) for fnuz in (False, True)},
}
"""By dtype and whether 8-bit floats are the fnuz forms."""

SMALL_FLOAT_NAMES = frozenset(name for name, _ in SMALL_FLOATS)

LARGEST = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float.fromhex("0x1.fffffep127")}
"""Largest finite values of the floats that have an infinity and are not f64."""

HALF_SUBNORMALS = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150, "f64": 0.0}
"""Half of the smallest value above 0: what rounding to a value near 0 may cost."""


def _largest_double(limit: int) -> float:
    """The largest double that is at most an integer."""
    nearest = float(limit)
    return math.nextafter(nearest, 0.0) if nearest > limit else nearest


INTEGERS = {name: (float(least), _largest_double(greatest)) for name, (least, greatest) in INTEGER_LIMITS.items()}
"""The smallest and the largest value that both an integer and a double can have."""


def half_subnormal(dtype: str, fnuz: bool) -> float:
    """Half of the smallest value above 0; of an integer 0, since it is not rounded to."""
    if dtype in ("f8", "bf8"):
        form = SMALL_FLOATS[dtype, fnuz]
        return 2.0 ** -(form.bias + form.mantissa_bits)
    return HALF_SUBNORMALS.get(dtype, 0.0)


def range_of(dtype: str, fnuz: bool) -> tuple[float, float]:
    """Return the values at which an output saturates."""
    if dtype in INTEGERS:
        return INTEGERS[dtype]
    if dtype in ("f8", "bf8"):
        largest = SMALL_FLOATS[dtype, fnuz].largest
        return -largest, largest
    return -math.inf, math.inf


EPILOGUE_MANTISSA = DTYPES["f32"].mantissa_bits
"""CK's epilogue computes in f32 also where the accumulator is an integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|y - reference| <= floor + relative · (largest |reference| + |reference|) is right."""

    relative: float
    floor: float


def tolerance_of(problem: KernelProblem) -> Tolerance:
    """The tolerance of a contraction.

    An integer result of an epilogue that rounds may be one off, since it may lie in the middle between two. Raises
    ValueError for a problem that is no contraction.
    """
    gemm = problem.gemm
    if gemm is None:
        raise ValueError("what the kernel computes is not known")
    roundings = epilogue_roundings(gemm)
    accumulator = DTYPES[gemm.accumulator].mantissa_bits
    compute = compute_mantissa(problem.buffer(view.buffer).dtype for view in (gemm.x, gemm.w))
    dtype = problem.buffer(gemm.y.buffer).dtype
    output = DTYPES[dtype].mantissa_bits
    relative = max(
        _half_ulp(accumulator) * gemm.x.sizes[1] + _half_ulp(accumulator or EPILOGUE_MANTISSA) * roundings,
        _half_ulp(compute) if output else 0.0,
        _half_ulp(output),
    )
    return Tolerance(relative=relative, floor=tolerance_floor(gemm.accumulator, dtype, roundings, gemm.fnuz))


def compute_mantissa(operands: Iterable[str]) -> int:
    """The mantissa's bits of the type that operands of these dtypes are multiplied in, for CK's rule: the shorter one.

    f4 counts as f32, in which its products are exact: a single bit would allow any result.
    """
    return min(EPILOGUE_MANTISSA if dtype == "f4" else DTYPES[dtype].mantissa_bits for dtype in operands)


def tolerance_of_rows(rows: ComputedRows, output: str) -> Tolerance:
    """The tolerance of an output of the dtype `output` that is computed row by row. Integers may be one off."""
    mantissa = DTYPES[output].mantissa_bits
    accumulator = DTYPES[rows.accumulator].mantissa_bits or EPILOGUE_MANTISSA
    relative = max(
        _half_ulp(accumulator) * rows.depth,
        _half_ulp(DTYPES[rows.compute].mantissa_bits) if mantissa else 0.0,
        _half_ulp(mantissa),
    )
    return Tolerance(relative=relative, floor=half_subnormal(output, rows.fnuz) if mantissa else 1.0)


FUNCTION_ROUNDINGS = 32
"""Roundings behind an element beside those of its sum: some functions, an activation has 16."""

RANDOM_WALK = 4
"""Roundings that go one way or the other by chance add up to their number's root, and never to four times that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTolerance:
    """|y - reference| <= the larger of absolute + relative · |reference| + the rounding to the output's dtype, and
    `ulp` units in its last place, is right."""

    relative: float
    absolute: float
    ulp: float


def tolerance_of_output(problem: KernelProblem, output: ReferenceOutput) -> Tolerance | StatedTolerance:
    """The tolerance of an output that is compared with a user's reference: what the kernel file says, else that of the
    operation's computation, else CK's rule with the roundings of the longest sum and of some functions.

    8-bit floats and smaller ones count as f32, which kernels compute with them in. Integers may be one off.
    """
    if output.is_stated:
        return StatedTolerance(relative=output.rtol or 0.0, absolute=output.atol or 0.0, ulp=output.ulp or 0.0)
    dtype = problem.buffer(output.view.buffer).dtype
    if problem.gemm is not None:
        return tolerance_of(problem)
    if problem.rows is not None:
        return tolerance_of_rows(problem.rows, dtype)
    reference = problem.reference
    if reference is None:
        raise ValueError("there is no reference")
    views = [view for _, view in reference.inputs if view is not None]
    depth = output.depth
    if depth is None:
        depth = RANDOM_WALK * math.isqrt(
            max((*output.view.sizes, *(size for view in views for size in view.sizes)), default=1)
        )
    mantissa = DTYPES[dtype].mantissa_bits
    operands = (problem.buffer(view.buffer).dtype for view in views)
    floats = (DTYPES[one] for one in operands if one not in INTEGERS)
    compute = min((one.mantissa_bits for one in floats if one.size_bytes > 1), default=EPILOGUE_MANTISSA)
    accumulator = DTYPES[reference.accumulator].mantissa_bits or EPILOGUE_MANTISSA
    relative = max(
        _half_ulp(accumulator) * (depth + FUNCTION_ROUNDINGS),
        _half_ulp(compute) if mantissa else 0.0,
        _half_ulp(mantissa),
    )
    return Tolerance(relative=relative, floor=half_subnormal(dtype, reference.fnuz) if mantissa else 1.0)


def _half_ulp(mantissa_bits: int) -> float:
    return math.ldexp(0.5, -mantissa_bits) if mantissa_bits else 0.0


def tolerance_floor(accumulator: str, output: str, roundings: int, fnuz: bool) -> float:
    """Return the error that an element of the dtype `output` may have however small it is, after an epilogue's
    `roundings`."""
    one_off = not DTYPES[output].mantissa_bits and (roundings or DTYPES[accumulator].mantissa_bits)
    return 1.0 if one_off else half_subnormal(output, fnuz)


def epilogue_roundings(computed: Gemm | Contraction) -> int:
    """How often an element is rounded after its sum."""
    blocks = (computed.x_scale is not None) + (computed.w_scale is not None)
    return blocks + sum(step.roundings for step in computed.steps)
