"""Device memory with guard bytes around it, to detect writes out of bounds.

A guard is filled with 0xFF, a NaN in most floating-point types, so that a read out of bounds shows in the result.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime
from ckwatch.model.lazy_dataclass import dataclass

GUARD_BYTES = 4096
_GUARD_BYTE = 0xFF


@dataclass(frozen=True, slots=True)
class GuardedBuffer:
    """`size_bytes` of device memory at `address`, with a guard on each side."""

    name: str
    address: int
    size_bytes: int


class GuardedMemory:
    """The allocations on one device for one benchmark. Every method raises BenchmarkError."""

    def __init__(self, runtime: DeviceRuntime) -> None:
        self._runtime = runtime
        self._buffers: list[GuardedBuffer] = []

    @staticmethod
    def bytes_for(size_bytes: int) -> int:
        """Return the bytes that `size_bytes` take with their guards."""
        return size_bytes + 2 * GUARD_BYTES

    def allocate(self, name: str, size_bytes: int) -> GuardedBuffer:
        """Memory called `name`; NO_MEMORY when there is too little."""
        start = self._runtime.allocate(self.bytes_for(size_bytes))
        buffer = GuardedBuffer(name, start + GUARD_BYTES, size_bytes)
        self._runtime.fill(start, _GUARD_BYTE, self.bytes_for(size_bytes))
        self._runtime.synchronize()
        self._buffers.append(buffer)
        return buffer

    def free(self) -> None:
        while self._buffers:
            self._runtime.free(self._buffers.pop().address - GUARD_BYTES)

    def check(self) -> None:
        """OUT_OF_BOUNDS when a guard was written since it was allocated."""
        found = np.empty(GUARD_BYTES, dtype=np.uint8)
        for buffer in self._buffers:
            for where, at in (
                ("before", buffer.address - GUARD_BYTES),
                ("behind", buffer.address + buffer.size_bytes),
            ):
                self._runtime.download(at, found)
                written = np.flatnonzero(found != _GUARD_BYTE)
                if written.size:
                    self._runtime.upload(at, np.full(GUARD_BYTES, _GUARD_BYTE, dtype=np.uint8))
                    raise BenchmarkError(
                        FailureKind.OUT_OF_BOUNDS,
                        f"the kernel wrote {where} {buffer.name}",
                        "",
                        _where_written(buffer, where, written),
                    )


def _where_written(buffer: GuardedBuffer, where: str, written: npt.NDArray[np.intp]) -> str:
    nearest = GUARD_BYTES - int(written[-1]) if where == "before" else int(written[0]) + 1
    return (
        f"{buffer.name} has {buffer.size_bytes} bytes; of the {GUARD_BYTES} bytes {where} it at least {written.size} "
        f"were written, the nearest of them byte {nearest} {where} it"
    )
