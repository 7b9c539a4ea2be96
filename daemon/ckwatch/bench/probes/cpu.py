"""The probes on the processor: numpy reads, and a thread of ours spins or faults."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError

_NOWHERE = 0x10
_CYCLES_PER_S = 2e9


class CpuProbes:
    """Everything has ended when a method returns."""

    def read(self, address: int, size_bytes: int, passes: int) -> None:
        """One thread reads."""
        words = np.ctypeslib.as_array((ctypes.c_uint64 * (size_bytes // 8)).from_address(address))
        for _ in range(passes):
            np.bitwise_xor.reduce(words)

    def spin(self, cycles: int) -> None:
        """The clock is not looked at: a processor of 2 GHz is supposed."""
        end = time.monotonic() + cycles / _CYCLES_PER_S
        while time.monotonic() < end:
            pass

    def fault(self) -> None:
        """A segmentation fault."""
        ctypes.memset(_NOWHERE, 1, 4)

    def flush_instructions(self) -> None:
        """BenchmarkError: there is no such code for the processor."""
        raise BenchmarkError(FailureKind.BROKEN, "the processor's instruction cache cannot be flushed")
