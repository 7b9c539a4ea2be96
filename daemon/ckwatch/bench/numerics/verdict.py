"""What is said of a result, and what can be said without a reference: whether the output was written, and only it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.elements import INTEGERS, Storage, is_nan, poison_element
from ckwatch.bench.numerics.places import Mask, gap_mask
from ckwatch.timing.problem import Buffer, Problem, View
from ckwatch.timing.report import FailureKind

CHUNK = 1 << 20
SHOWN = 5
"""Wrong elements that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A right result. `worst_error` is the largest |y - reference| / (atol + rtol · |reference|): at most 1."""

    compared: int
    worst_error: float
    rtol: float
    atol: float


class WrongNumerics(Exception):  # noqa: N818  # becomes a `Failure`
    """The kernel's result is WRONG, UNWRITTEN or OUT_OF_BOUNDS; `detail` names places and values."""

    def __init__(self, kind: FailureKind, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail


def check_written(problem: Problem, outputs: Mapping[str, Storage], fnuz: bool) -> None:
    """Look at every element of outputs that were poisoned before the run.

    `outputs` are the stored elements of each output buffer by name; elements behind the buffer's own are a guard.
    Raises WrongNumerics: OUT_OF_BOUNDS where a gap or the guard was written, UNWRITTEN where a GEMM left poison in its
    output (another kernel: where it wrote nothing at all), WRONG where a GEMM wrote NaN. Raises KeyError for a missing
    output.
    """
    written = [buffer for buffer in problem.buffers if buffer.output]
    for buffer in written:
        gaps = gap_mask(problem, buffer)
        _check_beside(problem, buffer, outputs[buffer.name], gaps, fnuz)
        if problem.gemm is not None:
            _check_missing(problem, buffer, outputs[buffer.name], gaps, fnuz)
        elif _is_untouched(buffer, outputs[buffer.name], fnuz):
            raise WrongNumerics(FailureKind.UNWRITTEN, f"the kernel wrote nothing to {buffer.name}")


def place_of(offset: int, view: View) -> tuple[int, ...]:
    """The index whose element lies at an offset of the buffer; of a gap the one it would be with longer lines."""
    index = [0] * len(view.sizes)
    for axis in sorted(range(len(view.sizes)), key=lambda axis: view.strides[axis], reverse=True):
        if view.strides[axis] and view.sizes[axis] > 1:
            index[axis], offset = divmod(offset, view.strides[axis])
    return tuple(index)


def named_places(problem: Problem, buffer: Buffer, offsets: npt.NDArray[np.intp]) -> str:
    """`Y[3, 5], Y[3, 6]` for the first of the places at `offsets`."""
    view = next(view for view in problem.views if view.buffer == buffer.name)
    names = [f"{buffer.name}[{', '.join(map(str, place_of(int(at), view)))}]" for at in offsets[:SHOWN]]
    return ", ".join(names) + (", …" if len(offsets) > SHOWN else "")


def _check_beside(problem: Problem, buffer: Buffer, elements: Storage, gaps: Mask | None, fnuz: bool) -> None:
    pattern = poison_element(buffer.dtype, fnuz)
    behind = np.flatnonzero(_differs(elements[buffer.elements :], pattern))
    if behind.size:
        last = buffer.elements - 1
        raise WrongNumerics(
            FailureKind.OUT_OF_BOUNDS,
            f"the kernel wrote {behind.size:,} elements behind the end of {buffer.name}",
            f"{buffer.name} has {buffer.elements:,} elements; the first that was written behind it is "
            f"{int(behind[0]) + 1:,} behind its last, the last {int(behind[-1]) + 1:,} (offsets from {last + 1:,})",
        )
    if gaps is None:
        return
    offsets = np.concatenate(
        [begin + np.flatnonzero(_differs(part, pattern) & gaps[begin : begin + part.size])
         for begin, part in _chunks(elements[: buffer.elements])]
    )  # fmt: skip
    if offsets.size:
        raise WrongNumerics(
            FailureKind.OUT_OF_BOUNDS,
            f"the kernel wrote {offsets.size:,} elements beside {buffer.name}, in the gaps that its leading dimension "
            "leaves",
            f"the first, as if lines had no end: {named_places(problem, buffer, offsets)}",
        )


def _check_missing(problem: Problem, buffer: Buffer, elements: Storage, gaps: Mask | None, fnuz: bool) -> None:
    if buffer.dtype in INTEGERS:
        return
    found = []
    for begin, part in _chunks(elements[: buffer.elements]):
        missing = is_nan(part, buffer.dtype, fnuz)
        if gaps is not None:
            missing &= ~gaps[begin : begin + part.size]
        if missing.any():
            found.append(begin + np.flatnonzero(missing))
    if not found:
        return
    offsets = np.concatenate(found)
    left = offsets[~_differs(elements[offsets], poison_element(buffer.dtype, fnuz))]
    total = buffer.elements - (0 if gaps is None else int(np.count_nonzero(gaps)))
    if left.size:
        raise WrongNumerics(
            FailureKind.UNWRITTEN,
            f"the kernel left {left.size:,} of {total:,} elements of {buffer.name} unwritten",
            f"still the NaN from before the run: {named_places(problem, buffer, left)}",
        )
    raise WrongNumerics(
        FailureKind.WRONG,
        f"{offsets.size:,} of {total:,} elements of {buffer.name} are NaN",
        f"{named_places(problem, buffer, offsets)}; no input is NaN except in the gaps that leading dimensions leave: "
        "the kernel may read those, or memory that nothing wrote",
    )


def _is_untouched(buffer: Buffer, elements: Storage, fnuz: bool) -> bool:
    pattern = poison_element(buffer.dtype, fnuz)
    return not any(_differs(part, pattern).any() for _, part in _chunks(elements[: buffer.elements]))


def _differs(elements: Storage, pattern: np.generic) -> Mask:
    """Where the bits are not those of `pattern`, a NaN among them."""
    unsigned = np.dtype(f"u{elements.itemsize}")
    different: Mask = elements.view(unsigned) != np.asarray(pattern).view(unsigned)
    return different


def _chunks(elements: Storage) -> Iterator[tuple[int, Storage]]:
    for begin in range(0, elements.size, CHUNK):
        yield begin, elements[begin : begin + CHUNK]
