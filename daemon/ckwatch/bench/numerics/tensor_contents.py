"""Contents of tensors that a kernel file gives a meaning: indices, masks, probabilities, …; the same on every machine.

All are made of a sequence of uniform numbers between 0 and 1, in the tensor's own shape: strides do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.storage import Doubles, Storage, narrow, storage_type
from ckwatch.bench.numerics.tolerance import INTEGERS
from ckwatch.model.tensor_values import INTEGER_LIMITS, ContentKind, TensorValues, dtype_limits, is_integer_dtype

Uniform = Callable[[int], Doubles]
"""So many numbers from 0 to 1, which is not among them; the next ones with each call."""

Array = npt.NDArray[np.generic]


class GivenArrayError(Exception):
    """An array that cannot be the content of a tensor; the text says why."""


def made_values(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform, *, fnuz: bool) -> Storage:
    """Return a tensor's stored elements of these sizes. The meaning must fit the dtype and the sizes
    (`ckwatch.model.tensor_values.misfit_on`). Raises KeyError for a file, whose content is given."""
    if values.in_range or values.kind is ContentKind.PERMUTATION:
        return _integers(values, sizes, uniform).astype(storage_type(dtype))
    if values.kind is ContentKind.CONSTANT and is_integer_dtype(dtype):
        return np.full(sizes, int(values.numbers[0]), storage_type(dtype))
    return narrow(_REALS[values.kind](values, dtype, sizes, uniform), dtype, fnuz)


def _integers(values: TensorValues, sizes: Sequence[int], uniform: Uniform) -> npt.NDArray[np.uint64]:
    """Integers modulo 2^64."""
    last = sizes[-1] if sizes else 1
    first, behind = map(int, values.numbers) if values.in_range else (0, last)
    if values.kind is ContentKind.PERMUTATION:
        return _distinct(first, behind, prod(sizes) // max(last, 1), last, uniform).reshape(sizes)
    span = behind - first
    found = _below(span, uniform(prod(sizes)))
    if found.size > 1:  # both ends are there, at places that the seed chooses
        where = np.argsort(uniform(found.size))[:2]
        found[where] = (0, span - 1)
    found = found.reshape(sizes)
    return (np.sort(found, axis=-1) if values.kind is ContentKind.SORTED else found) + np.uint64(first % 2**64)


def _below(span: int, unit: Doubles) -> npt.NDArray[np.uint64]:
    """Integers from 0 to `span` - 1, by numbers from 0 to 1."""
    return np.minimum((unit * span).astype(np.uint64), np.uint64(span - 1))


def _distinct(first: int, behind: int, rows: int, count: int, uniform: Uniform) -> npt.NDArray[np.uint64]:
    """Rows of different integers: the order of a sequence of numbers, or one integer in each part of a wide range."""
    span, start = behind - first, np.uint64(first % 2**64)
    if span <= 4 * count:
        order = np.argsort(uniform(rows * span).reshape(rows, span), axis=-1, kind="stable")[:, :count]
        return start + order.astype(np.uint64)
    numbers, (step, rest) = np.arange(count, dtype=np.uint64), divmod(span, max(count, 1))
    begins = numbers * np.uint64(step) + numbers * np.uint64(rest) // np.uint64(max(count, 1))
    widths = np.diff(begins, append=np.uint64(span % 2**64))
    unit = uniform(rows * count).reshape(rows, count)
    found = start + begins + np.minimum((unit * widths).astype(np.uint64), widths - np.uint64(1))
    order = np.argsort(uniform(rows * count).reshape(rows, count), axis=-1, kind="stable")
    return np.take_along_axis(found, order, axis=-1)


def _normal(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:
    """Box and Muller's method."""
    mean, deviation = values.numbers or (0.0, 1.0)
    count = prod(sizes)
    radius = np.sqrt(-2.0 * np.log1p(-uniform(count)))
    found = mean + deviation * radius * np.cos(2.0 * np.pi * uniform(count))
    return np.clip(found, *dtype_limits(dtype)).reshape(sizes)


def _uniform(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:
    least, greatest = values.numbers or _USUAL_RANGES.get(dtype, (-1.0, 1.0))
    unit = uniform(prod(sizes)).reshape(sizes)
    if is_integer_dtype(dtype):
        return np.minimum(least + np.floor(unit * (greatest - least + 1.0)), greatest)
    return least + unit * (greatest - least)


_USUAL_RANGES = {name: (max(-5, least), min(5, greatest)) for name, (least, greatest) in INTEGER_LIMITS.items()} | {
    "e8m0": (0.125, 8.0)
}


def _constant(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:  # noqa: ARG001
    return np.full(sizes, values.numbers[0], np.float64)


def _probabilities(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:  # noqa: ARG001
    """Shares of a row's sum, which are never 0."""
    parts = uniform(prod(sizes)).reshape(sizes) + 0.01
    shares: Doubles = parts / parts.sum(axis=-1, keepdims=True)
    return shares


def _sorted(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:
    return np.sort(_uniform(values, dtype, sizes, uniform), axis=-1)


def _mask(values: TensorValues, dtype: str, sizes: Sequence[int], uniform: Uniform) -> Doubles:  # noqa: ARG001
    return np.floor(2.0 * uniform(prod(sizes))).reshape(sizes)


_REALS: Mapping[ContentKind, Callable[[TensorValues, str, Sequence[int], Uniform], Doubles]] = {
    ContentKind.NORMAL: _normal,
    ContentKind.UNIFORM: _uniform,
    ContentKind.CONSTANT: _constant,
    ContentKind.PROBABILITIES: _probabilities,
    ContentKind.SORTED: _sorted,
    ContentKind.MASK: _mask,
}


def stored(values: Array, dtype: str, *, fnuz: bool) -> Storage:
    """Values as stored elements: floats rounded. Raises GivenArrayError for values that the dtype does not have."""
    if is_integer_dtype(dtype):
        if values.dtype.kind == "f":
            whole = np.rint(values.astype(np.float64))
            if not np.array_equal(whole, values):
                raise GivenArrayError(f"it holds values that are not integers, and {dtype} holds integers")
            values = whole
        least, greatest = INTEGERS[dtype] if values.dtype.kind == "f" else dtype_limits(dtype)
        if values.size and (values.min() < least or values.max() > greatest):
            raise GivenArrayError(f"it holds {values.min()} to {values.max()}, and {dtype} {least} to {greatest}")
        return values.astype(storage_type(dtype))
    return narrow(values.astype(np.float64), dtype, fnuz)


def given_values(array: object, dtype: str, sizes: Sequence[int], *, fnuz: bool) -> Storage:
    """An array that a file or a function gave as a tensor's stored elements. Raises GivenArrayError where it has
    another shape, is no array of numbers, or holds what the dtype does not have."""
    found = np.asarray(array)
    if found.dtype.kind not in "biuf":
        raise GivenArrayError(f"it is an array of {found.dtype}, not of numbers")
    if found.shape != tuple(sizes):
        raise GivenArrayError(f"it has the shape {_shape(found.shape)}, and the tensor has {_shape(sizes)}")
    return stored(found, dtype, fnuz=fnuz)


def _shape(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes)) or "of one number"
