"""A kernel's inputs from a seed: the same bits on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.bench.numerics.storage import (
    Doubles,
    Storage,
    gap_mask,
    narrow,
    poison,
    poison_element,
    storage_type,
    tensor_elements,
)
from ckwatch.bench.numerics.tensor_contents import GivenArrayError, given_values, made_values
from ckwatch.bench.numerics.tolerance import INTEGERS
from ckwatch.model.kernel_problem import Buffer, KernelProblem
from ckwatch.model.tensor_values import ContentKind

CHUNK = 1 << 15
"""Elements that are made at once: their intermediate values fit into a core's cache."""

INDEPENDENT = frozenset({ContentKind.UNIFORM, ContentKind.NORMAL})
"""Contents whose elements have nothing to do with each other."""

_SEED_STEP = np.uint64(0x9E3779B97F4A7C15)
_PLACE_STEP = np.uint64(0xD1B54A32D192ED03)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)


def make_inputs(
    problem: KernelProblem,
    seed: int,
    fnuz: bool | None = None,
    given: Mapping[str, object] | None = None,
    distinct: int | None = None,
) -> dict[str, Storage]:
    """Each buffer whose content before a launch means something, by name, as stored elements (`storage.storage_type`):
    those that are read, and outputs that keep what the kernel leaves.

    By themselves operands lie between -1 and 1 (integers: -5 to 5), scales between 0.5 and 1.5 (e8m0: 1/8 to 8); f4 has
    any of its values; gaps are poisoned. `given`: arrays of numbers in the shape of their tensor, by the buffer's name,
    which win over what the kernel file says. `distinct`: so many elements of a buffer are random, and those behind them
    repeat them, which takes less time.
    `fnuz`: which 8-bit floats the arch has, if the problem does not tell. Raises MemoryError, and GivenArrayError with
    the tensor's name for an array that cannot be its content.
    """
    form = fnuz if fnuz is not None else bool(problem.fnuz)
    read = [buffer for buffer in problem.buffers if buffer.given]
    inputs = {buffer.name: np.empty(buffer.elements, storage_type(buffer.dtype)) for buffer in read}
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads:
        chunks = [
            threads.submit(_fill, inputs[buffer.name][:distinct], buffer, seed, tensor, begin, form)
            for tensor, buffer in enumerate(read, start=1)
            for begin in range(0, min(buffer.elements, distinct or buffer.elements), _chunks_together(buffer))
        ]
        for chunk in chunks:
            chunk.result()
    if distinct is not None:
        for elements in inputs.values():
            for begin in range(distinct, elements.size, distinct):
                elements[begin : begin + distinct] = elements[: min(distinct, elements.size - begin)]
    _write_contents(problem, inputs, seed)
    for tensor, buffer in enumerate(read, start=1):
        _write_meaning(problem, buffer, inputs[buffer.name], (seed, tensor), form, given or {}, distinct)
    for buffer in read:
        if (gaps := gap_mask(problem, buffer)) is not None:
            inputs[buffer.name][gaps] = poison_element(buffer.dtype, form)
    return inputs


def before_launch(
    problem: KernelProblem, buffer: Buffer, inputs: Mapping[str, Storage], fnuz: bool, *, second: bool = False
) -> Storage:
    """An output's elements before a launch: those of `inputs` where they mean something, with gaps that are poisoned,
    else poison (`storage.poison`), of the `second` pattern or the first."""
    if not buffer.given:
        return poison(buffer, fnuz, second=second)
    elements = inputs[buffer.name].copy()
    gaps = gap_mask(problem, buffer) if second else None
    if gaps is not None:
        elements[gaps] = poison_element(buffer.dtype, fnuz, second=True)
    return elements


def _write_contents(problem: KernelProblem, inputs: Mapping[str, Storage], seed: int) -> None:
    """Replace the integers that mean something."""
    contents = None if problem.rows is None else REFERENCES[problem.rows.reference].contents
    if problem.rows is None or contents is None:
        return
    for role, values in contents(Given(problem, {}), seed).items():
        view = problem.rows.view(role)
        tensor_elements(inputs[view.buffer], view)[...] = values


def _write_meaning(
    problem: KernelProblem,
    buffer: Buffer,
    elements: Storage,
    sequence: tuple[int, int],
    fnuz: bool,
    given: Mapping[str, object],
    distinct: int | None,
) -> None:
    """Replace the values of a tensor that mean something. Raises GivenArrayError."""
    view = next(view for view in problem.views if view.buffer == buffer.name)
    if buffer.name in given:
        try:
            tensor_elements(elements, view)[...] = given_values(given[buffer.name], buffer.dtype, view.sizes, fnuz=fnuz)
        except GivenArrayError as error:
            raise GivenArrayError(f"{buffer.name} cannot be given: {error}") from None
    elif buffer.values is not None:
        repeats = distinct is not None and prod(view.sizes) > distinct and buffer.values.kind in INDEPENDENT
        sizes = (distinct,) if distinct is not None and repeats else view.sizes
        made = made_values(buffer.values, buffer.dtype, sizes, _uniform_numbers(*sequence), fnuz=fnuz)
        tensor_elements(elements, view)[...] = np.resize(made, view.sizes) if repeats else made


def _uniform_numbers(seed: int, tensor: int) -> Callable[[int], Doubles]:
    begin = 0

    def numbers(count: int) -> Doubles:
        nonlocal begin
        bits = random_bits(seed, tensor, begin, count)
        begin += count
        return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53

    return numbers


def random_bits(seed: int, tensor: int, begin: int, count: int) -> npt.NDArray[np.uint64]:
    """splitmix64 of the seed, the tensor's number and the places `begin` to `begin + count`: the runner's."""
    start = (seed * 8 + tensor) * int(_SEED_STEP) + (begin + 1) * int(_PLACE_STEP)
    bits = np.arange(count, dtype=np.uint64)
    bits *= _PLACE_STEP
    bits += np.uint64(start % 2**64)
    shifted = np.empty_like(bits)
    for shift, factor in _MIX:
        np.right_shift(bits, shift, out=shifted)
        bits ^= shifted
        bits *= factor
    np.right_shift(bits, _LAST_SHIFT, out=shifted)
    bits ^= shifted
    return bits


def _chunks_together(buffer: Buffer) -> int:
    """Elements for one task of a thread, a multiple of CHUNK."""
    return max(1, buffer.elements // (64 * CHUNK)) * CHUNK


def _fill(elements: Storage, buffer: Buffer, seed: int, tensor: int, begin: int, fnuz: bool) -> None:
    end = min(begin + _chunks_together(buffer), elements.size)
    values = _values_of(buffer, fnuz)
    for at in range(begin, end, CHUNK):
        upto = min(at + CHUNK, end)
        elements[at:upto] = values(random_bits(seed, tensor, at, upto - at))


def _values_of(buffer: Buffer, fnuz: bool) -> Callable[[npt.NDArray[np.uint64]], Storage]:
    if buffer.dtype in INTEGERS and not buffer.scale:
        least, greatest = INTEGERS[buffer.dtype]
        element, first, count = storage_type(buffer.dtype), max(least, -5.0), np.uint64(min(11.0, greatest - least + 1))
        return lambda bits: (bits % count).astype(element) + element.type(first)
    if buffer.dtype == "e8m0":
        return lambda bits: (bits % np.uint64(7)).astype(np.uint8) + np.uint8(124)
    if buffer.dtype == "f4":
        return lambda bits: (bits % np.uint64(16)).astype(np.uint8)
    factor, offset = (1.0, 0.5) if buffer.scale else (2.0, -1.0)

    def values(bits: npt.NDArray[np.uint64]) -> Storage:
        bits >>= np.uint64(11)
        unit = bits.astype(np.float64)
        unit *= factor * 2.0**-53
        unit += offset
        return narrow(unit, buffer.dtype, fnuz)

    return values
