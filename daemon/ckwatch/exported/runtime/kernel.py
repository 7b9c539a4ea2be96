"""The arguments of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Formula(NamedTuple):
    """A size or stride that is worked out from size arguments."""

    text: str
    value: Callable[[Mapping[str, int]], int]


Extent = str | int | Formula
"""A size or stride in elements: the name of a size argument, a number, or a formula."""


class Operand(NamedTuple):
    """A tensor. `dtypes` are the names of element types that it may have, the one that new outputs get first.

    `nullable`: None is passed on as a null pointer. `same_as` names the operand whose memory it must be. `reread`:
    it is read while outputs are written already, so that they may not lie there.
    """

    name: str
    dtypes: tuple[str, ...]
    itemsize: int
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    output: bool = False
    nullable: bool = False
    reread: bool = False
    same_as: str | None = None


class Kernel(NamedTuple):
    """A kernel's C function.

    `kind` is that of its device: `hip`, `cuda` or `cpu`. Its arguments are `pointers`, by the names of their operands,
    then `scalars`, each with its C type, then the ABI's last three. `sizes` are the names of size arguments, `defaults`
    what those are that do not follow from the tensors.
    """

    unit: str
    symbol: str
    library: str
    kind: str
    arch: str
    operands: tuple[Operand, ...]
    pointers: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]
    sizes: tuple[str, ...]
    defaults: Mapping[str, Extent]


class KernelError(RuntimeError):
    """The kernel returned an error code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UnsupportedError(KernelError):
    """The kernel does not support these sizes, strides or runtime arguments (code -23). Its reason is on stderr."""


class LibraryError(ImportError):
    """The kernel's shared object cannot be loaded."""


def value_of(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The value of a size or stride. Raises KeyError for a size argument that `sizes` lacks."""
    if isinstance(extent, int):
        return extent
    return sizes[extent] if isinstance(extent, str) else extent.value(sizes)


def text_of(extent: Extent) -> str:
    """A size or stride for people."""
    return extent.text if isinstance(extent, Formula) else str(extent)


def divided(value: int, by: int) -> int:
    """C's division of integers, which rounds towards zero."""
    quotient = abs(value) // abs(by)
    return quotient if (value < 0) == (by < 0) else -quotient


def remainder(value: int, by: int) -> int:
    """C's remainder, which has the sign of `value`."""
    return value - by * divided(value, by)
