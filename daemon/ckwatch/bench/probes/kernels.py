"""The interface of a device's probe kernels, a search for those of a runtime, and the processor's: numpy reads, and a
thread of ours spins or faults."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime

if TYPE_CHECKING:
    from ckwatch.bench.probes.cuda import CudaProbes
    from ckwatch.bench.probes.hip import HipProbes

_NOWHERE = 0x10
_CYCLES_PER_S = 2e9


class CpuProbes:
    """The probes on the processor. Everything has ended when a method returns."""

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


SPIN_CYCLES = 60_000_000_000
"""Half a minute at 2 GHz: for a probe that does not end by itself while somebody watches, and ends at last."""


ProbeKernels: TypeAlias = "CudaProbes | HipProbes | CpuProbes"
"""Each method puts one launch on the runtime's stream: `read` of memory so many times, in multiples of 16 bytes; `spin`
for so many cycles of the device's clock; `fault`, a write where no memory is; `flush_instructions`, straight-line code
that is larger than an instruction cache, on every compute unit. They raise BenchmarkError."""


def probe_kernels(runtime: DeviceRuntime, shared_object: bytes | None) -> ProbeKernels | str:
    """The probe kernels of an open device, or why there are none. `shared_object` is that of `probes.hip.HIP_SOURCE`.
    Raises BenchmarkError when they cannot be loaded."""
    kind = runtime.facts.kind
    if kind == "cuda":
        from ckwatch.bench.probes.cuda import CudaProbes

        return CudaProbes(runtime.stream, runtime.facts.compute_units)
    if kind == "hip":
        if shared_object is None:
            return "there is no HIP compiler that could make them"
        from ckwatch.bench.probes.hip import HipProbes

        return HipProbes(shared_object, runtime.stream, runtime.facts.compute_units)
    if kind == "cpu":
        return CpuProbes()
    return f"there are none for {kind} devices"
