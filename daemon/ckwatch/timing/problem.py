"""What a kernel is called with and what it must compute: the part of a benchmark that knows no device."""

from __future__ import annotations

from dataclasses import dataclass

from ckwatch.model.dtypes import DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that is passed to the kernel: `elements` of the dtype `dtype` (a key of `ckwatch.model.dtypes.DTYPES`),
    gaps that leading dimensions leave included. `output`: the kernel writes it; `scale`: it holds scales."""

    name: str
    dtype: str
    elements: int
    output: bool = False
    scale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor in a buffer; `strides` in elements, 0 where a value counts for a whole row or column."""

    buffer: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of the C function before `workspace_size`: a pointer to `buffer`, or `value` as the type `c_type`."""

    name: str
    c_type: str
    buffer: str | None = None
    value: int | float | bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """Y = activation(alpha * (scale_x * scale_w * (X · W)) + beta * bias), all views of the shape that its operand has:
    `x` M×K, `w` K×N, everything else M×N. `fnuz`: 8-bit floats are those of gfx90a and gfx942."""

    x: View
    w: View
    y: View
    accumulator: str
    scale_x: View | None = None
    scale_w: View | None = None
    bias: View | None = None
    alpha: float = 1.0
    beta: float = 1.0
    activation: str = "none"
    fnuz: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A kernel's call on one shape. `gemm` None: what it computes is not known, so that its numerics are not verified.

    `flops` counts a multiply-add as two, None where it is not known; `bytes_moved` is each buffer's content once.
    """

    buffers: tuple[Buffer, ...]
    views: tuple[View, ...]
    arguments: tuple[Argument, ...]
    gemm: Gemm | None
    flops: int | None
    bytes_moved: int

    def buffer(self, name: str) -> Buffer:
        """The buffer of this name. Raises KeyError."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    @property
    def bytes_allocated(self) -> int:
        """Bytes of all buffers, gaps included; what the workspace and cache flushing need comes on top."""
        return sum(buffer.elements * DTYPES[buffer.dtype].size_bytes for buffer in self.buffers)
