"""Tensors as a kernel stores them: elements as numpy arrays, and where they lie in their buffer.

16-bit and 8-bit floats are stored as their bits, those of 4 bits as a byte each, which `in_memory` packs, everything
else as itself. `widen` is exact, `narrow` rounds to
nearest even as `ckwatch_templates/common/element_types.j2` does: 8-bit floats and integers saturate, NaN stays NaN (0
as an integer). Powers of two (e8m0) are rounded to the nearest one, half up; below 0 there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ckwatch.bench.numerics.tolerance import INTEGERS, SMALL_FLOAT_NAMES, SMALL_FLOATS, SmallFloat
from ckwatch.model.contractions import Axes, MatrixView
from ckwatch.model.kernel_problem import Buffer, KernelProblem, TensorView
from ckwatch.model.tensors import DTYPES

Storage = npt.NDArray[Any]
"""An array of a dtype's storage type (`storage_type`)."""

Doubles = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]

_NUMPY_NAMES = {"float": "float32", "double": "float64", "bool": "uint8"}
"""By C types; others, such as `uint16_t`, have their own name."""


_SECOND_POISON = 0x55
E8M0_NAN = 0xFF


def storage_type(dtype: str) -> np.dtype[Any]:
    """The numpy type of a dtype's elements in memory, by the ABI. Raises KeyError for an unknown dtype."""
    c_type = DTYPES[dtype].abi_type
    return np.dtype(_NUMPY_NAMES.get(c_type) or c_type.removesuffix("_t"))


def in_memory(elements: Storage, dtype: str) -> Bits:
    """The bytes of a buffer: its elements as they are, or, of a packed dtype, a copy with two of them in each byte."""
    if DTYPES[dtype].packed == 1:
        return elements.reshape(-1).view(np.uint8)
    pairs = np.zeros(DTYPES[dtype].bytes_for(elements.size) * 2, np.uint8)
    pairs[: elements.size] = elements.reshape(-1)
    packed: Bits = pairs[::2] | (pairs[1::2] << np.uint8(4))
    return packed


def widen(elements: Storage, dtype: str, fnuz: bool) -> Doubles:
    """The values of stored elements, exactly; of the same shape."""
    if dtype in SMALL_FLOAT_NAMES:
        values: Doubles = small_float_values(dtype, fnuz)[elements]
        return values
    if dtype == "e8m0":
        powers: Doubles = np.where(elements == E8M0_NAN, np.nan, np.ldexp(1.0, elements.astype(np.int32) - 127))
        return powers
    if dtype == "f16":
        elements = elements.view(np.float16)
    elif dtype == "bf16":
        elements = (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN
        widened: Doubles = elements.astype(np.float64)
    return widened


def narrow(values: npt.NDArray[np.floating[Any]], dtype: str, fnuz: bool) -> Storage:
    """Values rounded to stored elements. Floats of 16 bits and less are rounded from f32."""
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        rounded: Doubles = np.clip(np.rint(values.astype(np.float64)), low, high)
        return np.where(np.isnan(rounded), 0.0, rounded).astype(storage_type(dtype))
    if dtype == "f64":
        return values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        if dtype == "f32":
            return single
        if dtype == "f16":
            return single.astype(np.float16).view(np.uint16)
    bits = single.view(np.uint32)
    if dtype == "bf16":
        nearest = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
        quiet = bits | np.uint32(0x400000)
        return (np.where(np.isnan(single), quiet, nearest) >> np.uint32(16)).astype(np.uint16)
    if dtype == "e8m0":
        nearest_power = np.minimum((bits + np.uint32(0x400000)) >> np.uint32(23), np.uint32(E8M0_NAN - 1))
        nearest_power = np.where(bits < np.uint32(0x600000), np.uint32(0), nearest_power)  # 2^-127 is no normal f32
        return np.where(np.isnan(single) | (single < 0), E8M0_NAN, nearest_power).astype(np.uint8)
    return _narrow_small(single, SMALL_FLOATS[dtype, fnuz], fnuz)


def is_nan(elements: Storage, dtype: str, fnuz: bool) -> npt.NDArray[np.bool_]:
    """Which stored elements are NaN; integers never are."""
    if dtype == "f16":
        return (elements & np.uint16(0x7FFF)) > np.uint16(0x7C00)
    if dtype == "bf16":
        return (elements & np.uint16(0x7FFF)) > np.uint16(0x7F80)
    if dtype in SMALL_FLOAT_NAMES:
        return np.isnan(small_float_values(dtype, fnuz))[elements]
    if dtype == "e8m0":
        missing: npt.NDArray[np.bool_] = elements == np.uint8(E8M0_NAN)
        return missing
    if dtype in INTEGERS:
        return np.zeros(elements.shape, np.bool_)
    return np.isnan(elements)


def poison(buffer: Buffer, fnuz: bool, guard_elements: int = 0, *, second: bool = False) -> Storage:
    """A buffer's elements, and `guard_elements` behind them, filled so that those a kernel writes can be recognized.

    All bits are set, which is NaN in every float but the fnuz ones, whose NaN is 0x80. Arithmetic that reads such a NaN
    may write the same bits, so that one run does not tell what is unwritten: what holds the `second` pattern, which is
    no NaN, after a run on it too is.
    """
    element = poison_element(buffer.dtype, fnuz, second=second)
    return np.full(buffer.elements + guard_elements, element, storage_type(buffer.dtype))


def poison_element(dtype: str, fnuz: bool, *, second: bool = False) -> np.generic:
    """The element that `poison` writes."""
    size = DTYPES[dtype].size_bytes
    byte = _SECOND_POISON if second else 0x80 if fnuz and dtype in ("f8", "bf8") else 0xFF
    byte &= 0xF if DTYPES[dtype].packed > 1 else 0xFF
    element: np.generic = np.frombuffer(bytes([byte]) * size, storage_type(dtype))[0]
    return element


@cache
def small_float_values(dtype: str, fnuz: bool) -> Doubles:
    """The values of all codes of a small float."""
    form = SMALL_FLOATS[dtype, fnuz]
    sign = 1 << (form.bits - 1)
    codes = np.arange(2 * sign)
    exponent = (codes & (sign - 1)) >> form.mantissa_bits
    mantissa = (codes & ((1 << form.mantissa_bits) - 1)).astype(np.float64)
    normal = np.ldexp(1 + mantissa / (1 << form.mantissa_bits), exponent - form.bias)
    subnormal = np.ldexp(mantissa, 1 - form.bias - form.mantissa_bits)
    values = np.where(exponent == 0, subnormal, normal)
    values = np.where(codes & sign, -values, values)
    if fnuz and form.bits == 8:
        values[0x80] = np.nan
    elif dtype == "f8":
        values[(codes & 0x7F) == 0x7F] = np.nan
    elif dtype == "bf8":
        values[(codes & 0x7F) > 0x7C] = np.nan
        values[[0x7C, 0xFC]] = (np.inf, -np.inf)
    values.flags.writeable = False
    return values


def _narrow_small(single: npt.NDArray[np.float32], form: SmallFloat, fnuz: bool) -> Bits:
    magnitude = np.minimum(np.abs(single), np.float32(form.largest))
    exponent = np.maximum((magnitude.view(np.uint32) >> np.uint32(23)).astype(np.int32), 127 + 1 - form.bias)
    # 2^(mantissa bits - exponent): what makes one unit of the last place 1
    scale = ((254 + form.mantissa_bits - exponent) << 23).view(np.float32)
    missing = np.isnan(single)
    quanta = np.rint(np.where(missing, np.float32(0), magnitude) * scale).astype(np.int32)
    code = ((exponent - 127 + form.bias - 1) << form.mantissa_bits) + quanta
    negative = np.signbit(single) & ~(fnuz & (form.bits == 8) & (code == 0))
    code |= negative.astype(np.int32) << (form.bits - 1)
    return np.where(missing, form.nan, code).astype(np.uint8)


Mask = npt.NDArray[np.bool_]


def tensor_elements(elements: npt.NDArray[Any], view: TensorView) -> npt.NDArray[Any]:
    """A tensor as a view of its buffer's elements, without a copy; where it repeats elements they are the same memory.
    Raises ValueError where it would reach outside of them."""
    axes = list(zip(view.sizes, view.strides, strict=True))
    if any(size < 0 or stride < 0 for size, stride in axes):
        raise ValueError(f"{view.buffer} has sizes {view.sizes} and strides {view.strides}")
    extent = 0 if 0 in view.sizes else sum((size - 1) * stride for size, stride in axes) + 1
    if extent > elements.size:
        raise ValueError(f"{view.buffer} has {elements.size} elements, its tensor reaches to {extent}")
    bytes_each = elements.itemsize
    return as_strided(elements, view.sizes, [stride * bytes_each for stride in view.strides])


def matrix_elements(
    elements: npt.NDArray[Any],
    view: MatrixView,
    matrix: int,
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
) -> npt.NDArray[Any]:
    """The elements at `rows` × `columns` of a matrix, a copy; 0 where a window has none."""
    at = matrix_offsets(view, matrix, rows, columns)
    if not view.windows:
        return elements[at]
    inside = np.ones(at.shape, np.bool_)
    row_indices, column_indices = _indices(view.rows, rows), _indices(view.columns, columns)
    for window in view.windows:
        along_rows = row_indices[window.row_axis] * window.row_step - window.before
        place = along_rows[:, None] + column_indices[window.column_axis] * window.column_step
        inside &= (place >= 0) & (place < window.size)
    return np.where(inside, elements[np.where(inside, at, 0)], elements.dtype.type(0))


def matrix_offsets(
    view: MatrixView, matrix: int, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return the offsets in their buffer of the elements at `rows` × `columns` of a matrix."""
    start = view.offset + int(_offsets(view.batch, np.array([matrix]))[0])
    return start + _offsets(view.rows, rows)[:, None] + _offsets(view.columns, columns)[None, :]


def _offsets(axes: Axes, indices: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    found = np.zeros(indices.size, np.intp)
    for index, (_, stride) in zip(_indices(axes, indices), axes, strict=True):
        found += index * stride
    return found


def _indices(axes: Axes, indices: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], ...]:
    """The index along each axis; the last one runs fastest."""
    return np.unravel_index(indices, tuple(size for size, _ in axes)) if axes else ()


def gap_mask(problem: KernelProblem, buffer: Buffer) -> Mask | None:
    """Which of a buffer's elements no tensor uses, as leading dimensions leave them; None where there are none."""
    views = [view for view in problem.views if view.buffer == buffer.name]
    if any(_is_dense(view, buffer.elements) for view in views):
        return None
    gaps = np.ones(buffer.elements, np.bool_)
    for view in views:
        tensor_elements(gaps, view)[...] = False
    return gaps if gaps.any() else None


def sample_indices(count: int, wanted: int, seed: int) -> npt.NDArray[np.intp]:
    """All of 0 … count - 1, or about `wanted` of them, both edges among them; ascending."""
    if wanted >= count:
        return np.arange(count)
    edges = np.array([0, 1, count - 2, count - 1]) % count
    inside = np.random.default_rng(seed).choice(count, size=max(wanted - 4, 0), replace=False)
    return np.unique(np.concatenate((edges, inside)))


def _is_dense(view: TensorView, elements: int) -> bool:
    axes: Sequence[tuple[int, int]] = sorted(zip(view.strides, view.sizes, strict=True))
    reached = 1
    for stride, size in axes:
        if size > 1 and stride > 0:
            if stride != reached:
                return False
            reached *= size
    return reached == elements
