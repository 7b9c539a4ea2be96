"""Results of vector instructions, written in numpy from the "VOP1", "VOP2", "VOP3", "VOP3P" and "VOPC" chapters of the
MI200, MI300 and CDNA4 ISA documents. The types of a row say how operands are read and what the result is."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Compute = Callable[..., Any]

LANE = np.arange(64)


@dataclass(frozen=True)
class Reference:
    """Types: f16 f32 f64 u16 i16 u32 i32 u64 i64; x2 for both halves (f16x2) or two registers (f32x2); m a mask.

    Integers come as int64, those of 64 bits as Python's; f16 as float64. Integer results are exact: they are cut or, with
    clamp, saturated afterwards. `old`: the result's old value is the last argument.
    """

    name: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    compute: Compute
    old: bool = False
    ulps: int = 0
    clamps: bool = True
    targets: str = "gfx90a gfx942 gfx950"


VECTOR: dict[str, Reference] = {}

KEEPING = {
    *("v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16", "v_bitop3_b16", "v_add_i16", "v_sub_i16"),
    *("v_ashr_pk_i8_i32", "v_ashr_pk_u8_i32", "v_mac_f16"),
    *(f"v_{operation}3_{kind}" for operation in ("min", "max", "med") for kind in ("f16", "i16", "u16")),
}
"""Results of 16 bits that leave the upper half of the register as it was; others clear it."""


def add(name: str, types: str, compute: Compute, **others: Any) -> None:
    """`types` is `result < source source`."""
    results, _, sources = types.partition("<")
    VECTOR[name] = Reference(name, tuple(results.split()), tuple(sources.split()), compute, **others)


# ---- Floats ----------------------------------------------------------------------------------------------------------

_LIBM = ctypes.CDLL("libm.so.6")
_LIBM.fma.restype, _LIBM.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
_LIBM.fmaf.restype, _LIBM.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3


def each(function: Callable[..., Any], kind: Any, *arrays: Array) -> Array:
    """A scalar function for every lane."""
    return np.array(
        [function(*values) for values in zip(*(array.tolist() for array in arrays), strict=True)], dtype=kind
    )


def fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once: to f32, or to f64 (which is exact for f16's)."""
    if a.dtype == np.float32:
        return each(_LIBM.fmaf, np.float32, a, b, c)
    return each(_LIBM.fma, np.float64, a, b, c)


def legacy_product(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), a.dtype.type(0), a * b)


def _chosen(a: Array, b: Array, smaller: bool) -> Array:
    """minNum and maxNum, -0 below +0."""
    less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    both = np.where(less == smaller, a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, both))


def minimum(a: Array, b: Array) -> Array:
    return _chosen(a, b, True)


def maximum(a: Array, b: Array) -> Array:
    return _chosen(a, b, False)


def median(a: Array, b: Array, c: Array) -> Array:
    """Of floats; with a NaN the smallest of the others."""
    unordered = np.isnan(a) | np.isnan(b) | np.isnan(c)
    largest = maximum(maximum(a, b), c)
    first, second = (same_float(largest, x) for x in (a, b))
    ordered = np.where(first, maximum(b, c), np.where(second, maximum(a, c), maximum(a, b)))
    return np.where(unordered, minimum(minimum(a, b), c), ordered)


def same_float(a: Array, b: Array) -> Array:
    return np.asarray((a == b) & (np.signbit(a) == np.signbit(b)))


def propagating(function: Compute) -> Compute:
    def compute(a: Array, b: Array, c: Array) -> Array:
        return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), np.nan, function(function(a, b), c)).astype(a.dtype)

    return compute


def fract(largest: float) -> Compute:
    def compute(a: Array) -> Array:
        return np.asarray(np.minimum(a - np.floor(a), a.dtype.type(largest)))

    return compute


def turns(function: Compute) -> Compute:
    def compute(a: Array) -> Array:
        wide = a.astype(np.longdouble)
        return np.where(np.isfinite(a), function(wide - np.rint(wide)), np.nan).astype(a.dtype)

    return compute


def sine(part: Array) -> Array:
    """Of -1/2…1/2 turns, exact where it is zero."""
    folded = np.where(np.abs(part) > 0.25, np.copysign(0.5, part) - part, part)
    return np.sin(folded * (2 * np.longdouble("3.14159265358979323846264338327950288")))


def cosine(part: Array) -> Array:
    return sine(0.25 - np.abs(part))


def wide(function: Compute) -> Compute:
    """Computed in the x87's 64 bits, then rounded."""
    return lambda a: function(a.astype(np.longdouble)).astype(a.dtype)


def frexp_mantissa(a: Array) -> Array:
    return np.where(np.isfinite(a), np.frexp(a)[0], a)


def frexp_exponent(a: Array) -> Array:
    return np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(np.int64)


def ldexp(a: Array, b: Array) -> Array:
    return np.ldexp(a, np.clip(b, -5000, 5000).astype(np.int32))


def trig_preop(a: Array, b: Array) -> Array:
    """53 bits of 2 / pi, of which 1201 are known; pi by Machin's formula."""

    def arctangent(x: int) -> int:
        return sum((-1) ** n * (1 << 1300) // ((2 * n + 1) * x ** (2 * n + 1)) for n in range(700))

    bits = (1 << 2601) // (4 * (4 * arctangent(5) - arctangent(239))) >> 1300 - 1201
    found = []
    for value, segment in zip(a.tolist(), b.tolist(), strict=True):
        exponent = int(np.float64(value).view(np.uint64)) >> 52 & 0x7FF
        shift = (segment & 31) * 53 + max(exponent - 1077, 0)
        whole = bits << 53 >> 1201 - shift & (1 << 53) - 1 if shift < 1201 else 0
        found.append(value if math.isnan(value) else math.ldexp(whole, -53 - shift + 128 * (exponent >= 1968)))
    return np.array(found)


def div_fixup(a: Array, b: Array, c: Array, wide: bool = False) -> Array:
    """The quotient c / b, whose approximation is a."""
    negative = np.signbit(b) != np.signbit(c)
    sign = np.where(negative, -1.0, 1.0).astype(a.dtype)
    result = np.abs(a) * sign
    if a.dtype == np.float32 or wide:  # of a quotient that is too large the steps before make NaN
        result = np.where(np.isfinite(a), result, np.inf * sign)
    if a.dtype == np.float32:
        far = (c.view(np.int32) >> 23 & 255) - (b.view(np.int32) >> 23 & 255) < -150
        result = np.where(far, 0 * sign, result)
    elif wide:
        far = (c.view(np.int64) >> 52 & 2047) - (b.view(np.int64) >> 52 & 2047) < -1075
        result = np.where(far, 0 * sign, result)
    result = np.where(np.isinf(b) | (c == 0), 0 * sign, result)
    result = np.where((b == 0) | np.isinf(c), np.inf * sign, result)
    result = np.where(((b == 0) & (c == 0)) | (np.isinf(b) & np.isinf(c)), np.nan, result)
    result = np.where(np.isnan(b), b, result)
    return np.where(np.isnan(c), c, result).astype(a.dtype)


def saturated(a: Array, low: int, high: int) -> Array:
    """Towards zero; NaN is 0."""
    exact = np.trunc(a.astype(np.longdouble))
    return np.where(np.isnan(exact), 0, np.clip(exact, low, high)).astype(np.int64)


def normalized(high: int, low: int) -> Compute:
    def compute(a: Array) -> Array:
        scaled = np.rint(a.astype(np.float64) * high)
        return np.where(np.isnan(scaled), 0, np.clip(scaled, low, high)).astype(np.int64)

    return compute


def half_towards_zero(values: Array) -> Array:
    near = values.astype(np.float16)
    too_far = np.isfinite(values) & (np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64)))
    return (near.view(np.uint16) - too_far).astype(np.int64)


def bfloat_bits(values: Array) -> Array:
    """As bf16, to nearest even."""
    bits = values.view(np.uint32).astype(np.int64)
    kept, rest = bits >> 16, bits & 0xFFFF
    kept += (rest > 0x8000) | ((rest == 0x8000) & (kept & 1 == 1))
    return np.where(np.isnan(values), bits >> 16 | 0x40, kept) & 0xFFFF


def float_of_bfloat(bits: Array) -> Array:
    return ((bits & 0xFFFF) << 16).astype(np.uint32).view(np.float32)


def half_of(bits: Array) -> Array:
    return (bits & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)


for suffix in ("f16", "f32"):
    one, two, three = f"{suffix} < {suffix}", f"{suffix} < {suffix} {suffix}", f"{suffix} < {suffix} {suffix} {suffix}"
    add(f"v_add_{suffix}", two, lambda a, b: a + b)
    add(f"v_sub_{suffix}", two, lambda a, b: a - b)
    add(f"v_subrev_{suffix}", two, lambda a, b: b - a)
    add(f"v_mul_{suffix}", two, lambda a, b: a * b)
    add(f"v_min_{suffix}", two, minimum)
    add(f"v_max_{suffix}", two, maximum)
    add(f"v_fma_{suffix}", three, fma)
    add(f"v_min3_{suffix}", three, lambda a, b, c: minimum(minimum(a, b), c))
    add(f"v_max3_{suffix}", three, lambda a, b, c: maximum(maximum(a, b), c))
    add(f"v_med3_{suffix}", three, median)
    add(f"v_rcp_{suffix}", one, wide(lambda a: 1 / a), ulps=1)
    add(f"v_rsq_{suffix}", one, wide(lambda a: 1 / np.sqrt(a)), ulps=1)
    add(f"v_sqrt_{suffix}", one, wide(np.sqrt), ulps=1)
    add(f"v_exp_{suffix}", one, wide(np.exp2), ulps=2)
    add(f"v_log_{suffix}", one, wide(np.log2), ulps=2)
    add(f"v_sin_{suffix}", one, turns(sine), ulps=2)
    add(f"v_cos_{suffix}", one, turns(cosine), ulps=2)
    add(f"v_div_fixup_{suffix}", three, div_fixup)
    add(f"v_ldexp_{suffix}", f"{suffix} < {suffix} {'i16' if suffix == 'f16' else 'i32'}", ldexp)
    add(f"v_mac_{suffix}", two, lambda a, b, old: rounded_product(a, b) + old, old=True)
for suffix in ("f16", "f32", "f64"):
    one = f"{suffix} < {suffix}"
    add(f"v_floor_{suffix}", one, np.floor)
    add(f"v_ceil_{suffix}", one, np.ceil)
    add(f"v_trunc_{suffix}", one, np.trunc)
    add(f"v_rndne_{suffix}", one, np.rint)
    add(f"v_frexp_mant_{suffix}", one, frexp_mantissa)
    exponent = "v_frexp_exp_i16_f16" if suffix == "f16" else f"v_frexp_exp_i32_{suffix}"
    add(exponent, f"{'i16' if suffix == 'f16' else 'i32'} < {suffix}", frexp_exponent)
    add(f"v_fract_{suffix}", one, fract({"f16": 1 - 2**-11, "f32": 1 - 2**-24, "f64": 1 - 2**-53}[suffix]))


def rounded_product(a: Array, b: Array) -> Array:
    """Before the addition of v_mad and v_mac: in the operands' type."""
    return a * b if a.dtype == np.float32 else (a * b).astype(np.float16).astype(np.float64)


add("v_mul_legacy_f32", "f32 < f32 f32", legacy_product)
add("v_mad_f32", "f32 < f32 f32 f32", lambda a, b, c: a * b + c)
add("v_mad_legacy_f32", "f32 < f32 f32 f32", lambda a, b, c: legacy_product(a, b) + c)
add("v_fmac_f32", "f32 < f32 f32", fma, old=True)
add("v_fmamk_f32", "f32 < f32 f32 f32", fma)
add("v_fmaak_f32", "f32 < f32 f32 f32", fma)
add("v_madmk_f32", "f32 < f32 f32 f32", lambda a, b, c: a * b + c)
add("v_madak_f32", "f32 < f32 f32 f32", lambda a, b, c: a * b + c)
add("v_minimum3_f32", "f32 < f32 f32 f32", propagating(minimum))
add("v_maximum3_f32", "f32 < f32 f32 f32", propagating(maximum))
add("v_rcp_iflag_f32", "f32 < f32", wide(lambda a: 1 / a), ulps=1)
add("v_exp_legacy_f32", "f32 < f32", wide(np.exp2), ulps=2)
add("v_log_legacy_f32", "f32 < f32", wide(np.log2), ulps=2)
for name in ("v_fma_legacy_f16",):
    add(name, "f16 < f16 f16 f16", fma)
for name in ("v_mad_f16", "v_mad_legacy_f16"):
    add(name, "f16 < f16 f16 f16", lambda a, b, c: rounded_product(a, b) + c)
add("v_div_fixup_legacy_f16", "f16 < f16 f16 f16", div_fixup)

add("v_add_f64", "f64 < f64 f64", lambda a, b: a + b)
add("v_mul_f64", "f64 < f64 f64", lambda a, b: a * b)
add("v_min_f64", "f64 < f64 f64", minimum)
add("v_max_f64", "f64 < f64 f64", maximum)
add("v_fma_f64", "f64 < f64 f64 f64", fma)
add("v_fmac_f64", "f64 < f64 f64", fma, old=True)
add("v_rcp_f64", "f64 < f64", wide(lambda a: 1 / a), ulps=1)
add("v_rsq_f64", "f64 < f64", wide(lambda a: 1 / np.sqrt(a)), ulps=1)
add("v_sqrt_f64", "f64 < f64", wide(np.sqrt), ulps=1)
add("v_ldexp_f64", "f64 < f64 i32", ldexp)
add("v_div_fixup_f64", "f64 < f64 f64 f64", lambda a, b, c: div_fixup(a, b, c, wide=True))

# ---- Conversions -----------------------------------------------------------------------------------------------------

add("v_cvt_f32_f16", "f32 < f16", lambda a: a.astype(np.float32))
add("v_cvt_f16_f32", "f16 < f32", lambda a: a.astype(np.float64))
add("v_cvt_f32_bf16", "f32 < u16", float_of_bfloat)
add("v_cvt_f64_f32", "f64 < f32", lambda a: a.astype(np.float64))
add("v_cvt_f32_f64", "f32 < f64", lambda a: a.astype(np.float32))
for integer in ("i32", "u32"):
    add(f"v_cvt_f32_{integer}", f"f32 < {integer}", lambda a: a.astype(np.float32))
    add(f"v_cvt_f64_{integer}", f"f64 < {integer}", lambda a: a.astype(np.float64))
for integer in ("i16", "u16"):
    add(f"v_cvt_f16_{integer}", f"f16 < {integer}", lambda a: a.astype(np.float64))
_RANGES = {
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, 65535),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
}
for integer, source in (
    *(("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16")),
):
    add(
        f"v_cvt_{integer}_{source}",
        f"{integer} < {source}",
        lambda a, r=_RANGES[integer]: saturated(a, *r),
        clamps=False,
    )
add(
    "v_cvt_rpi_i32_f32", "i32 < f32",
    lambda a: saturated(np.floor(a.astype(np.longdouble) + 0.5), *_RANGES["i32"]), clamps=False,
)  # fmt: skip
add("v_cvt_flr_i32_f32", "i32 < f32", lambda a: saturated(np.floor(a), *_RANGES["i32"]), clamps=False)
add("v_cvt_off_f32_i4", "f32 < u32", lambda a: (((a & 15) ^ 8) - 8).astype(np.float32) / np.float32(16))
for byte in range(4):
    add(f"v_cvt_f32_ubyte{byte}", "f32 < u32", lambda a, byte=byte: (a >> 8 * byte & 255).astype(np.float32))
signed, unsigned = normalized(32767, -32767), normalized(65535, 0)
add("v_cvt_norm_i16_f16", "i16 < f16", signed, clamps=False)
add("v_cvt_norm_u16_f16", "u16 < f16", unsigned, clamps=False)
for source in ("f16", "f32"):
    add(
        f"v_cvt_pknorm_i16_{source}", f"u32 < {source} {source}",
        lambda a, b: (signed(a) & 0xFFFF) | (signed(b) & 0xFFFF) << 16, clamps=False,
    )  # fmt: skip
    add(
        f"v_cvt_pknorm_u16_{source}",
        f"u32 < {source} {source}",
        lambda a, b: unsigned(a) | unsigned(b) << 16,
        clamps=False,
    )
add(
    "v_cvt_pkrtz_f16_f32", "f16x2 < f32 f32",
    lambda a, b: [half_of(half_towards_zero(x)) for x in (a, b)], clamps=False,
)  # fmt: skip
add("v_cvt_pk_f16_f32", "f16x2 < f32 f32", lambda a, b: [x.astype(np.float64) for x in (a, b)], clamps=False)
add("v_cvt_pk_bf16_f32", "u32 < f32 f32", lambda a, b: bfloat_bits(a) | bfloat_bits(b) << 16, clamps=False)
add(
    "v_cvt_pk_i16_i32", "u32 < i32 i32",
    lambda a, b: (np.clip(a, -32768, 32767) & 0xFFFF) | (np.clip(b, -32768, 32767) & 0xFFFF) << 16, clamps=False,
)  # fmt: skip
add("v_cvt_pk_u16_u32", "u32 < u32 u32", lambda a, b: np.minimum(a, 65535) | np.minimum(b, 65535) << 16, clamps=False)


def packed_byte(a: Array, b: Array, c: Array) -> Array:
    shift = 8 * (b & 3)
    return np.asarray((c & ~(255 << shift)) | saturated(np.rint(a), 0, 255) << shift)


add("v_cvt_pk_u8_f32", "u32 < f32 u32 u32", packed_byte, clamps=False)
add("v_cvt_pkaccum_u8_f32", "u32 < f32 u32", packed_byte, old=True, clamps=False)

# ---- Integers --------------------------------------------------------------------------------------------------------


def low_24(a: Array) -> Array:
    return a & 0xFFFFFF


def signed_24(a: Array) -> Array:
    return ((a & 0xFFFFFF) ^ 0x800000) - 0x800000


def big(a: Array) -> Array:
    """As Python's integers."""
    return a.astype(object)


def leading_zeros(a: Array) -> Array:
    return np.array([32 - int(x).bit_length() if x else -1 for x in a])


def reversed_bits(a: Array) -> Array:
    return np.array([int(f"{int(x):032b}"[::-1], 2) for x in a])


def trailing_zeros(a: Array) -> Array:
    return np.array([(int(x) & -int(x)).bit_length() - 1 if x else -1 for x in a])


def ones(a: Array) -> Array:
    return np.array([int(x).bit_count() for x in a])


def permuted(a: Array, b: Array, c: Array) -> Array:
    def byte(data: int, selector: int) -> int:
        if selector >= 12:
            return 0 if selector == 12 else 255
        if selector >= 8:
            return 255 * (data >> (16 * (selector - 8) + 15) & 1)
        return data >> 8 * selector & 255

    return np.array([
        sum(byte(int(x) << 32 | int(y), int(s) >> 8 * n & 255) << 8 * n for n in range(4))
        for x, y, s in zip(a, b, c, strict=True)
    ])  # fmt: skip


def bytes_of(a: Array) -> list[Array]:
    return [a >> 8 * n & 255 for n in range(4)]


def sad(a: Array, b: Array, masked: bool = False) -> Array:
    pairs = zip(bytes_of(a), bytes_of(b), strict=True)
    return np.asarray(np.sum([np.where((y == 0) & masked, 0, np.abs(x - y)) for x, y in pairs], axis=0))


def sads(size: int, masked: bool) -> Compute:
    """Four sums over slices of the first source's eight bytes."""

    def compute(a: Array, b: Array, c: Array) -> Array:
        mask = (1 << size) - 1
        total = np.zeros(64, dtype=object)
        for n in range(4):
            part = big(sad((big(a) >> 8 * n & 0xFFFFFFFF).astype(np.int64), b, masked)) + (big(c) >> size * n & mask)
            total |= (part & mask) << size * n
        return total

    return compute


def field_signed(a: Array, b: Array, c: Array) -> Array:
    width = c & 31
    moved = (a >> (b & 31)) & ((1 << width) - 1)
    sign = np.where(width > 0, 1 << np.maximum(width - 1, 0), 0)
    return np.where(width == 0, 0, (moved ^ sign) - sign)


def clipped_bytes(low: int, high: int) -> Compute:
    def compute(a: Array, b: Array, c: Array) -> Array:
        first, second = (np.clip(x >> (c & 31), low, high) & 255 for x in (a, b))
        return np.asarray(first | second << 8)

    return compute


for suffix in ("u32", "i32"):
    two = f"{suffix} < {suffix} {suffix}"
    add(f"v_add_{suffix}", two, lambda a, b: a + b)
    add(f"v_sub_{suffix}", two, lambda a, b: a - b)
add("v_subrev_u32", "u32 < u32 u32", lambda a, b: b - a)
add("v_mul_lo_u32", "u32 < u32 u32", lambda a, b: big(a) * big(b), clamps=False)
add("v_mul_hi_u32", "u32 < u32 u32", lambda a, b: big(a) * big(b) >> 32, clamps=False)
add("v_mul_hi_i32", "i32 < i32 i32", lambda a, b: a * b >> 32, clamps=False)
add("v_mul_u32_u24", "u32 < u32 u32", lambda a, b: low_24(a) * low_24(b), clamps=False)
add("v_mul_i32_i24", "i32 < i32 i32", lambda a, b: signed_24(a) * signed_24(b), clamps=False)
add("v_mul_hi_u32_u24", "u32 < u32 u32", lambda a, b: low_24(a) * low_24(b) >> 32, clamps=False)
add("v_mul_hi_i32_i24", "i32 < i32 i32", lambda a, b: signed_24(a) * signed_24(b) >> 32, clamps=False)
add("v_mad_u32_u24", "u32 < u32 u32 u32", lambda a, b, c: low_24(a) * low_24(b) + c)
add("v_mad_i32_i24", "i32 < i32 i32 i32", lambda a, b, c: signed_24(a) * signed_24(b) + c)
add("v_mad_u32_u16", "u32 < u16 u16 u32", lambda a, b, c: a * b + c)
add("v_mad_i32_i16", "i32 < i16 i16 i32", lambda a, b, c: a * b + c)
for suffix in ("i32", "u32", "i16", "u16"):
    two, three = f"{suffix} < {suffix} {suffix}", f"{suffix} < {suffix} {suffix} {suffix}"
    add(f"v_min_{suffix}", two, np.minimum, clamps=False)
    add(f"v_max_{suffix}", two, np.maximum, clamps=False)
    add(f"v_min3_{suffix}", three, lambda a, b, c: np.minimum(np.minimum(a, b), c), clamps=False)
    add(f"v_max3_{suffix}", three, lambda a, b, c: np.maximum(np.maximum(a, b), c), clamps=False)
    add(f"v_med3_{suffix}", three, lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1], clamps=False)
for name, operation in (
    ("v_and_b32", lambda a, b: a & b), ("v_or_b32", lambda a, b: a | b), ("v_xor_b32", lambda a, b: a ^ b),
    ("v_xnor_b32", lambda a, b: ~(a ^ b)), ("v_lshlrev_b32", lambda a, b: b << (a & 31)),
    ("v_lshrrev_b32", lambda a, b: b >> (a & 31)), ("v_bcnt_u32_b32", lambda a, b: ones(a) + b),
    ("v_bfm_b32", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    ("v_mbcnt_lo_u32_b32", lambda a, b: ones(a & ((1 << np.minimum(LANE, 32)) - 1)) + b),
    ("v_mbcnt_hi_u32_b32", lambda a, b: ones(a & ((1 << np.maximum(LANE - 32, 0)) - 1)) + b),
):  # fmt: skip
    add(name, "u32 < u32 u32", operation, clamps=False)
add("v_ashrrev_i32", "i32 < u32 i32", lambda a, b: b >> (a & 31), clamps=False)
add("v_not_b32", "u32 < u32", lambda a: ~a, clamps=False)
add("v_bfrev_b32", "u32 < u32", reversed_bits, clamps=False)
add("v_ffbh_u32", "u32 < u32", leading_zeros, clamps=False)
add("v_ffbh_i32", "u32 < i32", lambda a: leading_zeros(np.where(a < 0, ~a, a)), clamps=False)
add("v_ffbl_b32", "u32 < u32", trailing_zeros, clamps=False)
add("v_prng_b32", "u32 < u32", lambda a: (a << 1) ^ np.where(a >> 31, 197, 0), clamps=False)
add("v_sat_pk_u8_i16", "u32 < i16x2", lambda a: np.clip(a[0], 0, 255) | np.clip(a[1], 0, 255) << 8, clamps=False)
add("v_lshlrev_b64", "u64 < u32 u64", lambda a, b: big(b) << big(a & 63), clamps=False)
add("v_lshrrev_b64", "u64 < u32 u64", lambda a, b: big(b) >> big(a & 63), clamps=False)
add("v_ashrrev_i64", "i64 < u32 i64", lambda a, b: big(b) >> big(a & 63), clamps=False)
add(
    "v_lshl_add_u64",
    "u64 < u64 u32 u64",
    lambda a, b, c: (big(a) << big(np.where(b & 7 > 4, 0, b & 7))) + big(c),
    clamps=False,
)
for name, triple in (
    ("v_add3_u32", lambda a, b, c: a + b + c), ("v_lshl_add_u32", lambda a, b, c: (a << (b & 31)) + c),
    ("v_add_lshl_u32", lambda a, b, c: (a + b & 0xFFFFFFFF) << (c & 31)),
    ("v_lshl_or_b32", lambda a, b, c: a << (b & 31) | c), ("v_and_or_b32", lambda a, b, c: a & b | c),
    ("v_or3_b32", lambda a, b, c: a | b | c), ("v_xad_u32", lambda a, b, c: (a ^ b) + c),
    ("v_bfe_u32", lambda a, b, c: a >> (b & 31) & ((1 << (c & 31)) - 1)),
    ("v_bfi_b32", lambda a, b, c: a & b | ~a & c),
    ("v_alignbit_b32", lambda a, b, c: (big(a) << 32 | big(b)) >> big(c & 31)),
    ("v_alignbyte_b32", lambda a, b, c: (big(a) << 32 | big(b)) >> big(8 * (c & 3))),
    ("v_perm_b32", permuted), ("v_sad_u8", lambda a, b, c: sad(a, b) + c),
    ("v_sad_hi_u8", lambda a, b, c: (sad(a, b) << 16) + c), ("v_msad_u8", lambda a, b, c: sad(a, b, True) + c),
    ("v_sad_u16", lambda a, b, c: abs((a & 65535) - (b & 65535)) + abs((a >> 16) - (b >> 16)) + c),
    ("v_sad_u32", lambda a, b, c: abs(a - b) + c),
    ("v_lerp_u8", lambda a, b, c: sum((x + y + (z & 1) >> 1) << 8 * n for n, (x, y, z) in
                                      enumerate(zip(bytes_of(a), bytes_of(b), bytes_of(c), strict=True)))),
):  # fmt: skip
    add(name, "u32 < u32 u32 u32", triple, clamps=False)
add("v_bfe_i32", "i32 < i32 u32 u32", field_signed, clamps=False)
add("v_ashr_pk_i8_i32", "u16 < i32 i32 u32", clipped_bytes(-128, 127), clamps=False)
add("v_ashr_pk_u8_i32", "u16 < i32 i32 u32", clipped_bytes(0, 255), clamps=False)
add("v_qsad_pk_u16_u8", "u64 < u64 u32 u64", sads(16, False), clamps=False)
add("v_mqsad_pk_u16_u8", "u64 < u64 u32 u64", sads(16, True), clamps=False)
add("v_mqsad_u32_u8", "u128 < u64 u32 u128", sads(32, True), clamps=False)

for suffix in ("u16", "i16"):
    two, three = f"{suffix} < {suffix} {suffix}", f"{suffix} < {suffix} {suffix} {suffix}"
    add(f"v_add_{suffix}", two, lambda a, b: a + b)
    add(f"v_sub_{suffix}", two, lambda a, b: a - b)
    add(f"v_mad_{suffix}", three, lambda a, b, c: a * b + c)
    add(f"v_mad_legacy_{suffix}", three, lambda a, b, c: a * b + c)
add("v_subrev_u16", "u16 < u16 u16", lambda a, b: b - a)
add("v_mul_lo_u16", "u16 < u16 u16", lambda a, b: a * b, clamps=False)
add("v_lshlrev_b16", "u16 < u16 u16", lambda a, b: b << (a & 15), clamps=False)
add("v_lshrrev_b16", "u16 < u16 u16", lambda a, b: b >> (a & 15), clamps=False)
add("v_ashrrev_i16", "i16 < u16 i16", lambda a, b: b >> (a & 15), clamps=False)
add("v_pack_b32_f16", "u32 < h16 h16", lambda a, b: a | b << 16, clamps=False)

# ---- Moves -----------------------------------------------------------------------------------------------------------

for name in ("v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
    add(name, "u32 < u32", lambda a: a, clamps=False)
add("v_mov_b64", "u64 < u64", lambda a: a, clamps=False)
add("v_cndmask_b32", "u32 < s32 s32 m", lambda a, b, m: np.where(m, b, a), clamps=False)

# ---- Carries ---------------------------------------------------------------------------------------------------------


def carry(function: Compute) -> Compute:
    def compute(*sources: Array) -> tuple[Array, Array]:
        total = function(*sources)
        return total, (total < 0) | (total > 0xFFFFFFFF)

    return compute


add("v_add_co_u32", "u32 m < u32 u32", carry(lambda a, b: a + b))
add("v_sub_co_u32", "u32 m < u32 u32", carry(lambda a, b: a - b))
add("v_subrev_co_u32", "u32 m < u32 u32", carry(lambda a, b: b - a))
add("v_addc_co_u32", "u32 m < u32 u32 m", carry(lambda a, b, m: a + b + m))
add("v_subb_co_u32", "u32 m < u32 u32 m", carry(lambda a, b, m: a - b - m))
add("v_subbrev_co_u32", "u32 m < u32 u32 m", carry(lambda a, b, m: b - a - m))


def multiplied_64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    total = big(a) * big(b) + big(c)
    return total, (total >> 64 & 1).astype(bool)


add("v_mad_u64_u32", "u64 m < u32 u32 u64", multiplied_64, clamps=False)
add("v_mad_i64_i32", "i64 m < i32 i32 i64", multiplied_64, clamps=False)


def div_scale(step: int, far: int, tiny: int, smallest: int, smallest_normal: float) -> Compute:
    """`smallest` is the exponent of the smallest normal number."""

    def exponent(x: float) -> int:  # biased, as the bits are
        if math.isinf(x) or math.isnan(x):
            return 3 - 2 * smallest
        return max(math.frexp(x)[1] - 1, smallest - 1) - smallest + 1 if x and abs(x) >= smallest_normal else 0

    def scaled(x: float, by: int) -> float:
        try:
            return math.ldexp(x, by)
        except OverflowError:
            return math.copysign(math.inf, x)

    def denormal(x: Fraction, limit: float) -> bool:
        return 0 < abs(x) < Fraction(limit)

    def small(x: Fraction) -> bool:  # the smallest normal quotient counts, as gfx1100 was seen to do
        return 0 < abs(x) <= Fraction(smallest_normal)

    def one(x: float, d: float, n: float) -> tuple[float, bool]:
        if n == 0 or d == 0:
            return math.nan, True  # as gfx1100 was seen to do
        finite = all(map(math.isfinite, (d, n)))
        reciprocal = math.isfinite(d) and denormal(
            1 / Fraction(d), smallest_normal
        )  # in f32, not as the document has it
        quotient = finite and small(Fraction(n) / Fraction(d))
        if exponent(n) - exponent(d) >= far:
            return (scaled(x, step) if x == d else x), True
        if 0 < abs(d) < smallest_normal:
            return scaled(x, step), False
        if reciprocal and quotient:  # the document scales up, to infinity
            return (scaled(x, -step) if x == d else x), True
        if reciprocal:
            return scaled(x, -step), False
        if quotient:
            return (scaled(x, step) if x == n else x), True
        return (scaled(x, step) if exponent(n) <= tiny else x), False

    def compute(x: Array, d: Array, n: Array) -> tuple[Array, Array]:
        both = [one(*values) for values in zip(x.tolist(), d.tolist(), n.tolist(), strict=True)]
        return np.array([value for value, _ in both]).astype(x.dtype), np.array([flag for _, flag in both])

    return compute


add("v_div_scale_f32", "f32 m < f32 f32 f32", div_scale(64, 96, 23, -126, 2.0**-126), clamps=False)
add("v_div_scale_f64", "f64 m < f64 f64 f64", div_scale(128, 768, 53, -1022, 2.0**-1022), clamps=False)

# ---- Packed ----------------------------------------------------------------------------------------------------------


def packed(name: str, types: str, compute: Compute, **others: Any) -> None:
    """Both elements by the same formula."""

    def both(*sources: Any) -> list[Any]:
        return [compute(*(source[half] for source in sources)) for half in (0, 1)]

    add(name, types, both, **others)


packed("v_pk_add_f16", "f16x2 < f16x2 f16x2", lambda a, b: a + b)
packed("v_pk_mul_f16", "f16x2 < f16x2 f16x2", lambda a, b: a * b)
packed("v_pk_min_f16", "f16x2 < f16x2 f16x2", minimum)
packed("v_pk_max_f16", "f16x2 < f16x2 f16x2", maximum)
packed("v_pk_fma_f16", "f16x2 < f16x2 f16x2 f16x2", fma)
packed("v_pk_fmac_f16", "f16x2 < f16x2 f16x2", fma, old=True)
packed("v_pk_minimum3_f16", "f16x2 < f16x2 f16x2 f16x2", propagating(minimum))
packed("v_pk_maximum3_f16", "f16x2 < f16x2 f16x2 f16x2", propagating(maximum))
for suffix in ("u16", "i16"):
    two, three = f"{suffix}x2 < {suffix}x2 {suffix}x2", f"{suffix}x2 < {suffix}x2 {suffix}x2 {suffix}x2"
    packed(f"v_pk_add_{suffix}", two, lambda a, b: a + b)
    packed(f"v_pk_sub_{suffix}", two, lambda a, b: a - b)
    packed(f"v_pk_mad_{suffix}", three, lambda a, b, c: a * b + c)
    packed(f"v_pk_min_{suffix}", two, np.minimum, clamps=False)
    packed(f"v_pk_max_{suffix}", two, np.maximum, clamps=False)
packed("v_pk_mul_lo_u16", "u16x2 < u16x2 u16x2", lambda a, b: a * b, clamps=False)
packed("v_pk_lshlrev_b16", "u16x2 < u16x2 u16x2", lambda a, b: b << (a & 15), clamps=False)
packed("v_pk_lshrrev_b16", "u16x2 < u16x2 u16x2", lambda a, b: b >> (a & 15), clamps=False)
packed("v_pk_ashrrev_i16", "i16x2 < u16x2 i16x2", lambda a, b: b >> (a & 15), clamps=False)
packed("v_pk_add_f32", "f32x2 < f32x2 f32x2", lambda a, b: a + b)
packed("v_pk_mul_f32", "f32x2 < f32x2 f32x2", lambda a, b: a * b)
packed("v_pk_fma_f32", "f32x2 < f32x2 f32x2 f32x2", fma)

# ---- Dot products ----------------------------------------------------------------------------------------------------


def dot(width: int, signed_elements: bool) -> Compute:
    def elements(a: Array) -> list[Array]:
        parts = [a >> width * n & ((1 << width) - 1) for n in range(32 // width)]
        sign = 1 << (width - 1)
        return [(part ^ sign) - sign for part in parts] if signed_elements else parts

    return lambda a, b, c: sum((x * y for x, y in zip(elements(a), elements(b), strict=True)), c)


for width, plural in ((16, 2), (8, 4), (4, 8)):
    for letter in "iu":
        kind = f"{letter}32"
        add(f"v_dot{plural}_{kind}_{letter}{width}", f"{kind} < p{width} p{width} {kind}", dot(width, letter == "i"))
    add(f"v_dot{plural}c_i32_i{width}", "i32 < u32 u32", dot(width, True), old=True)


def dot_half(a: Any, b: Any, c: Array) -> Array:
    """Relative to the sum of magnitudes the order of additions does not matter."""
    return np.asarray((a[0] * b[0] + a[1] * b[1] + c.astype(np.float64)).astype(np.float32))


add("v_dot2_f32_f16", "f32 < f16x2 f16x2 f32", dot_half, ulps=-1)
add("v_dot2c_f32_f16", "f32 < f16x2 f16x2", dot_half, old=True, ulps=-1)
add("v_dot2_f32_bf16", "f32 < bf16x2 bf16x2 f32", dot_half, ulps=-1)
add("v_dot2c_f32_bf16", "f32 < bf16x2 bf16x2", dot_half, old=True, ulps=-1)

# ---- Comparisons -----------------------------------------------------------------------------------------------------

_ORDERED: dict[str, Compute] = {
    "f": lambda a, _b: np.zeros(a.shape, bool), "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_INTEGERS = {**_ORDERED, "ne": lambda a, b: a != b, "t": lambda a, _b: np.ones(a.shape, bool)}
_FLOATS: dict[str, Compute] = {
    **_ORDERED, "lg": lambda a, b: (a < b) | (a > b), "o": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "u": lambda a, b: np.isnan(a) | np.isnan(b), "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b), "tru": lambda a, _b: np.ones(a.shape, bool),
}  # fmt: skip


def float_class(bits: int, exponents: int, mantissas: int) -> int:
    mantissa, exponent = bits & ((1 << mantissas) - 1), bits >> mantissas & ((1 << exponents) - 1)
    negative = bits >> (exponents + mantissas) & 1
    if exponent == (1 << exponents) - 1:
        return (1 if mantissa >> (mantissas - 1) else 0) if mantissa else (2 if negative else 9)
    if exponent:
        return 3 if negative else 8
    return (4 if negative else 7) if mantissa else (5 if negative else 6)


def of_class(kind: type, bits: Any, exponents: int, mantissas: int) -> Compute:
    def compute(a: Array, b: Array) -> Array:
        words = a.astype(kind).view(bits).tolist()
        return np.array(
            [int(m) >> float_class(x, exponents, mantissas) & 1 for x, m in zip(words, b, strict=True)], bool
        )

    return compute


for prefix in ("v_cmp", "v_cmpx"):
    for kind in ("f16", "f32", "f64"):
        for relation, compare in _FLOATS.items():
            add(f"{prefix}_{relation}_{kind}", f"m < {kind} {kind}", compare)
    for kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
        for relation, compare in _INTEGERS.items():
            add(f"{prefix}_{relation}_{kind}", f"m < {kind} {kind}", compare)
    add(f"{prefix}_class_f16", "m < f16 u32", of_class(np.float16, np.uint16, 5, 10))
    add(f"{prefix}_class_f32", "m < f32 u32", of_class(np.float32, np.uint32, 8, 23))
    add(f"{prefix}_class_f64", "m < f64 u32", of_class(np.float64, np.uint64, 11, 52))

# ---- Cube maps -------------------------------------------------------------------------------------------------------


def cube(x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """Face, s, t and twice the major axis."""
    if abs(z) >= abs(x) and abs(z) >= abs(y):
        return (5.0 if z < 0 else 4.0), (-x if z < 0 else x), -y, 2 * z
    if abs(y) >= abs(x):
        return (3.0 if y < 0 else 2.0), x, (-z if y < 0 else z), 2 * y
    return (1.0 if x < 0 else 0.0), (z if x < 0 else -z), -y, 2 * x


for number, name in enumerate(("v_cubeid_f32", "v_cubesc_f32", "v_cubetc_f32", "v_cubema_f32")):
    add(
        name, "f32 < f32 f32 f32",
        lambda a, b, c, n=number: each(lambda x, y, z: cube(x, y, z)[n], np.float32, a, b, c),
    )  # fmt: skip
add("v_trig_preop_f64", "f64 < f64 u32", trig_preop)

# ---- Small floats ----------------------------------------------------------------------------------------------------

SMALL = {
    "fp8": (4, 3, 7, "nan"), "bf8": (5, 2, 15, "ieee"), "fp6": (2, 3, 1, ""), "bf6": (3, 2, 3, ""), "fp4": (2, 1, 1, ""),
    "fp8z": (4, 3, 8, "zero"), "bf8z": (5, 2, 16, "zero"),
}  # fmt: skip
"""Exponent and mantissa bits, bias, and what is special: the OCP formats, and the FNUZ ones of gfx942."""


def small_value(kind: str, code: int) -> float:
    exponents, mantissas, bias, special = SMALL[kind]
    sign = -1.0 if code >> (exponents + mantissas) & 1 else 1.0
    exponent, mantissa = code >> mantissas & ((1 << exponents) - 1), code & ((1 << mantissas) - 1)
    if (special == "nan" and code & 0x7F == 0x7F) or (special == "zero" and code == 0x80):
        return math.nan
    if special == "ieee" and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissas)
    return sign * math.ldexp(mantissa + (1 << mantissas), exponent - bias - mantissas)


def width_of(kind: str) -> int:
    return 1 + sum(SMALL[kind][:2])


VALUES = {kind: np.array([small_value(kind, code) for code in range(1 << width_of(kind))]) for kind in SMALL}


def small_code(kind: str, value: float, random: int | None = None) -> int:
    """To nearest even, or stochastically: by the largest code whose value is not beyond that of the sum."""
    exponents, mantissas, bias, special = SMALL[kind]
    negative = math.copysign(1, value) < 0
    sign = int(negative) << (exponents + mantissas)
    finite = [code for code in range(1 << (exponents + mantissas)) if math.isfinite(VALUES[kind][code])]
    largest = finite[-1]
    beyond = {"nan": sign | 0x7F, "ieee": sign | 0x7C, "zero": 0x80, "": sign | largest}[special]
    if math.isnan(value):
        return {"nan": sign | 0x7F, "ieee": sign | 0x7F, "zero": 0x80, "": sign | largest}[special]
    if math.isinf(value):
        return beyond
    exact = Fraction(abs(value))
    if random is not None:  # the upper bits that the mantissa loses, at f32's last place of the value's own exponent
        exponent = max(math.frexp(value)[1] - 1, -126) if value else -126
        exact += Fraction(random >> (9 + mantissas)) * Fraction(2) ** (exponent - 23)
    step = Fraction(2) ** (max(math.floor(math.log2(exact)) if exact else -999, 1 - bias) - mantissas)
    if exact and Fraction(2) ** math.floor(math.log2(exact)) > exact:
        step /= 2
    quotient = exact / step
    rounded = (math.floor(quotient) if random is not None else round(quotient)) * step
    code = next((code for code in finite if VALUES[kind][code] == float(rounded)), None)
    if code is None:
        return beyond
    return 0 if special == "zero" and code == 0 else sign | code


def small_codes(kind: str, values: Array, randoms: Array | None = None) -> Array:
    if randoms is None:
        return np.array([small_code(kind, float(x)) for x in values])
    return np.array([small_code(kind, float(x), int(r)) for x, r in zip(values, randoms, strict=True)])
