"""Memory that a call needs besides its arguments: outputs and the workspace."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from ckwatch.exported.runtime.arrays import Array, Form, array_of
from ckwatch.exported.runtime.kernel import Kernel, Operand

ALIGNMENT = 64
"""Of a workspace in host memory, in bytes: a cache line, and the widest vector register."""


def new_output(
    kernel: Kernel, operand: Operand, shape: tuple[int, ...], strides: tuple[int, ...], like: Array, dtypes: set[str]
) -> Any:
    """An uninitialised array for an output, of the library and on the device of `like`.

    `dtypes` are those of the inputs: where numpy's arrays hold bits, the output does too. Raises TypeError for
    libraries in which none is made.
    """
    if like.library == "torch" and like.form is not None:
        torch: Any = sys.modules["torch"]
        kind, _, index = like.form.device.partition(":")
        where = torch.device("cpu") if kind == "cpu" else torch.device("cuda", int(index))
        return torch.empty_strided(shape, strides, dtype=getattr(torch, operand.dtypes[0]), device=where)
    if like.library == "numpy":
        numpy: Any = sys.modules["numpy"]
        dtype = numpy_dtype(numpy, operand, dtypes)
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
        memory = numpy.empty(extent, dtype)
        steps = tuple(step * dtype.itemsize for step in strides)
        return numpy.ndarray(shape, dtype, memory, strides=steps)
    raise TypeError(f"{operand.name} cannot be made for these arguments: pass out=…, for {kernel.unit} to write to")


def numpy_dtype(numpy: Any, operand: Operand, dtypes: set[str]) -> Any:
    """numpy's type for an output."""
    for name in (*(name for name in operand.dtypes if name in dtypes), *operand.dtypes):
        try:
            return numpy.dtype(name)
        except TypeError:  # a type of ml_dtypes, which is not there
            continue
    raise TypeError(f"numpy has no {operand.dtypes[0]} for {operand.name}")


class Workspaces:
    """Workspaces in host memory, one for each thread, as large as the largest that it needed; and those that a given
    function allocated, one for each size and stream: a kernel on a GPU still runs when its call has returned."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._given: dict[tuple[Callable[[int], object], int, int], object] = {}

    def host(self, size: int) -> int:
        """The address of `size` bytes that this thread may write until it asks again."""
        memory = getattr(self._own, "memory", None)
        if memory is None or len(memory) < size + ALIGNMENT:
            memory = (ctypes.c_ubyte * (size + ALIGNMENT))()
            self._own.memory = memory
        return -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT

    def given(self, workspace: Any, size: int, stream: int) -> Array:
        """The workspace that was given as memory, or as a function that allocates so many bytes. Raises ValueError for
        one that is too small."""
        if callable(workspace):
            key = (workspace, size, stream)
            if key not in self._given:
                self._given[key] = workspace(size)
            workspace = self._given[key]
        array = array_of("workspace", workspace, stream)
        if array.form is not None and not packed_bytes(array.form) >= size:
            raise ValueError(f"workspace has {packed_bytes(array.form)} bytes; it must have {size} without gaps")
        return array


def packed_bytes(form: Form) -> int:
    """Bytes of an array; 0 for one with gaps."""
    step = 1
    for size, stride in sorted(zip(form.shape, form.strides, strict=True), key=lambda axis: axis[1]):
        if size > 1 and stride != step:
            return 0
        step *= size
    digits = "".join(letter for letter in form.dtype.partition("_")[0] if letter.isdigit())
    return step * int(digits or 8) // 8
