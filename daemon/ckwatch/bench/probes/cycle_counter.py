"""Cycles by the counters of an NVIDIA GPU: what repeats where a power limit moves the clock, and times with it."""

from __future__ import annotations

import numpy as np

from ckwatch.bench.probes.cuda import CudaProbes
from ckwatch.bench.runtimes.device_runtime import DeviceRuntime

_COUNTER_BYTES = 8


class CycleCounter:
    """Counts between two points of a runtime's stream. Its memory goes with the runtime. Raises BenchmarkError."""

    def __init__(self, runtime: DeviceRuntime, probes: CudaProbes) -> None:
        self._runtime = runtime
        self._probes = probes
        self._size = _COUNTER_BYTES * max(1, runtime.facts.compute_units)
        self._first, self._last = (runtime.allocate(self._size) for _ in range(2))

    def begin(self) -> None:
        """Put the first point on the stream."""
        self._probes.count_cycles(self._first)

    def end(self) -> None:
        """Put the other one there."""
        self._probes.count_cycles(self._last)

    def kcycles(self) -> float | None:
        """Thousands of cycles between the two, which the stream has passed: the median of the SMs; None without any."""
        content = [np.zeros(self._size, np.uint8) for _ in range(2)]
        for address, into in zip((self._first, self._last), content, strict=True):
            self._runtime.download(address, into)
        first, last = (one.view(np.int64) for one in content)
        seen = (first > 0) & (last > first)
        return float(np.median((last - first)[seen])) / 1e3 if seen.any() else None
