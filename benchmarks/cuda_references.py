"""References for `measurement`: Triton's `do_bench`, and a plain loop with an event pair around each launch.

Both are on PyTorch's current stream, of the same process and device.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

FLUSH_BYTES = 256 * 2**20
"""Bytes that `do_bench` writes before each launch (`triton/testing.py`), as the plain loop does when it is cold."""

PLAIN_S = 0.1
"""The plain loop takes samples for about so long, as do_bench does."""


class References:
    """Timers by PyTorch and Triton; medians in microseconds. Raises ImportError without them."""

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._testing: Any = importlib.import_module("triton.testing")
        self._torch.cuda.init()
        self._torch.cuda.current_stream()
        self._cache: Any = self._torch.empty(FLUSH_BYTES // 4, dtype=self._torch.int, device="cuda")
        triton: Any = importlib.import_module("triton")
        self.versions = {"torch": str(self._torch.__version__), "triton": str(triton.__version__)}

    @property
    def stream(self) -> int:
        """The stream that is timed."""
        return int(self._torch.cuda.current_stream().cuda_stream)

    def do_bench_us(self, launch: Callable[[], None], *, warm_up_ms: int = 25, rep_ms: int = 100) -> float:
        """The median by `triton.testing.do_bench`: cold cache."""
        found = self._testing.do_bench(launch, warmup=warm_up_ms, rep=rep_ms, return_mode="median")
        return float(found) * 1e3

    def plain_us(self, launch: Callable[[], None], *, cold: bool, warm_up_s: float) -> float:
        """The median of an event pair around each launch, after so long a warm-up of launches."""
        cuda = self._torch.cuda
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < warm_up_s:
            for _ in range(10):
                self._once(launch, cold=cold)
            cuda.synchronize()
            count += 10
        each_s = (time.perf_counter() - begin) / count
        samples = max(30, min(1000, round(PLAIN_S / each_s)))
        pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(samples)]
        for first, last in pairs:
            if cold:
                self._cache.zero_()
            first.record()
            launch()
            last.record()
        cuda.synchronize()
        return statistics.median([float(first.elapsed_time(last)) for first, last in pairs]) * 1e3

    def synchronize(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize()

    def _once(self, launch: Callable[[], None], *, cold: bool) -> None:
        if cold:
            self._cache.zero_()
        launch()
