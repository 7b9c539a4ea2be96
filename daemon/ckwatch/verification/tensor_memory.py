"""A buffer in the emulated device's memory, of which tensors are written and read in pieces.

Where leading dimensions put rows so far apart that offsets need more than 32 bits, the gaps are reserved and nothing
writes them: the host holds the same tensors without gaps, and pieces of rows are copied from one place to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ckwatch.bench.runtimes.device_runtime import Bytes
from ckwatch.model.kernel_problem import KernelProblem, TensorView
from ckwatch.model.tensors import DTYPES
from ckwatch.verification.device import EmulatedDevice


class TensorPiece(NamedTuple):
    """`size` bytes that lie together on the host, from `near` on, and on the device, from `far` on."""

    near: int
    far: int
    size: int


def pieces_of(dense: KernelProblem, problem: KernelProblem, buffer: str) -> list[TensorPiece]:
    """Return the pieces of a buffer's tensors, whose strides are those of `dense` on the host.

    Elements have whole bytes.
    """
    size = DTYPES[problem.buffer(buffer).dtype].size_bytes
    views = zip(dense.views, problem.views, strict=True)
    found = [piece for near, far in views if far.buffer == buffer for piece in _pieces(near, far, size)]
    return list(dict.fromkeys(found))


def _pieces(near: TensorView, far: TensorView, size: int) -> Iterator[TensorPiece]:
    axes = [axis for axis in zip(near.sizes, near.strides, far.strides, strict=True) if axis[2] > 0]
    together = max((axis for axis in axes if axis[1:] == (1, 1)), default=(1, 1, 1))
    if together in axes:
        axes.remove(together)
    for index in np.ndindex(*(count for count, _, _ in axes)):
        first = sum(at * stride for at, (_, stride, _) in zip(index, axes, strict=True))
        there = sum(at * stride for at, (_, _, stride) in zip(index, axes, strict=True))
        yield TensorPiece(first * size, there * size, together[0] * size)


class TensorMemory:
    """Memory at `address` whose `pieces` are those of an array of bytes on the host."""

    def __init__(self, device: EmulatedDevice, address: int, pieces: Sequence[TensorPiece]) -> None:
        self._device, self._address, self._pieces = device, address, pieces

    def upload(self, data: Bytes) -> None:
        """Write memory, which defines it."""
        for near, far, size in self._pieces:
            self._device.upload(self._address + far, data[near : near + size])

    def download(self, data: Bytes) -> None:
        """Read memory, written or not."""
        for near, far, size in self._pieces:
            self._device.download(self._address + far, data[near : near + size])

    def mark_undefined(self) -> None:
        """From now on a kernel must write this memory before it reads it."""
        for _, far, size in self._pieces:
            self._device.mark_undefined(self._address + far, size)

    def undefined(self, size_bytes: int) -> npt.NDArray[np.bool_]:
        """Return which of the host's bytes nothing has written since they were marked."""
        return self._collected(size_bytes, self._device.undefined)

    def sampled(self, size_bytes: int) -> npt.NDArray[np.bool_]:
        """Return which of the host's bytes a kernel of the last sample has written."""
        return self._collected(size_bytes, self._device.sampled)

    def address_of(self, byte: int) -> int:
        """Return the device's address of one of the host's bytes. Raises ValueError for a byte of a gap."""
        for near, far, size in self._pieces:
            if near <= byte < near + size:
                return self._address + far + byte - near
        raise ValueError("the byte is in a gap")

    def _collected(self, size_bytes: int, of: Callable[[int, int], npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
        found = np.zeros(size_bytes, np.bool_)
        for near, far, size in self._pieces:
            found[near : near + size] = of(self._address + far, size)
        return found
