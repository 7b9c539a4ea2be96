"""Measures what an open device's events add to times, for the noise floor (`ckwatch.bench.stats.noise_floor`)."""

from __future__ import annotations

from ckwatch.bench.report import NoiseFloor
from ckwatch.bench.runtimes.device_runtime import DeviceRuntime
from ckwatch.bench.stats.noise_floor import jitter_us, resolution_us

PAIRS = 32
_PAGE = 4096


def event_times_us(runtime: DeviceRuntime, pairs: int = PAIRS) -> tuple[list[float], list[float]]:
    """Times of event pairs with nothing between, and of as many with fills of growing size between, in microseconds.
    Raises BenchmarkError."""
    events = [(runtime.event(), runtime.event()) for _ in range(2 * pairs)]
    address = runtime.allocate(pairs * _PAGE)  # after an error it goes with the runtime
    runtime.fill(address, 0, pairs * _PAGE)
    runtime.synchronize()
    with runtime.gate():
        for begin, end in events[:pairs]:
            runtime.record(begin)
            runtime.record(end)
        for number, (begin, end) in enumerate(events[pairs:], start=1):
            runtime.record(begin)
            runtime.fill(address, number & 0xFF, number * _PAGE)
            runtime.record(end)
    runtime.wait(events[-1][1])
    times = [runtime.elapsed_us(begin, end) for begin, end in events]
    runtime.free(address)
    return times[:pairs], times[pairs:]


def noise_floor(runtime: DeviceRuntime) -> NoiseFloor:
    """Measure the resolution of the device's events. Raises BenchmarkError."""
    empty, filled = event_times_us(runtime)
    return NoiseFloor(resolution_us=resolution_us([*empty, *filled]), jitter_us=jitter_us(empty))
