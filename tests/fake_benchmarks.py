"""Benchmarks in memory: what is asked is noted in the engine's list. No figure here was measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ckwatch.bench.job import Race
from ckwatch.model.roofline import CacheState
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Device, Devices, RankedTiming, Timing, TimingDetail

UNIT = "gemm/m128@gfx942"


def timing_of(unit: str = UNIT, **fields: Any) -> Timing:
    """A timing of test data."""
    kernel, _, rest = unit.partition("/")
    instance, _, arch = rest.partition("@")
    values: dict[str, Any] = {
        "id": 1, "unit": unit, "kernel": kernel, "instance": instance, "arch": arch, "shape": "test", "cache": "cold",
        "device": "hip:0", "device_description": "test data, no device", "median_us": 10.0, "minimum_us": 9.0,
        "q1_us": 9.5, "q3_us": 10.5, "samples": 20,
    }  # fmt: skip
    return Timing(**(values | fields))


class FakeBenchmarks:
    """Fits `ckwatch.server.engine_api.BenchmarkEngine`; `ask` notes a call and raises what a test wants raised."""

    def __init__(self, ask: Callable[..., None]) -> None:
        self._ask = ask
        self.lines: list[BenchLine] = [BenchLine(event="timing", unit=UNIT, shape="test", timing=timing_of())]
        self.following = 0
        self.viewer: str | None = None

    async def devices(self, *, again: bool) -> Devices:
        self._ask("devices", again)
        device = Device(name="hip:0", description="test data, no device", arch="gfx942")
        return Devices(devices=(device,), absent={"cuda": "no driver"}, host="here")

    @asynccontextmanager
    async def bench(
        self,
        patterns: Sequence[str] | None,
        shapes: Sequence[str] | None,
        *,
        device: str | None,
        force: bool,
        race: Race | None = None,
        flush_instructions: bool = False,
        client: str | None = None,
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        self._ask(
            "bench", patterns, shapes, device, force, *([] if race is None else [race]), *["flush"] * flush_instructions
        )
        self.viewer = client

        async def lines() -> AsyncIterator[BenchLine]:
            for line in self.lines:
                yield line
            yield BenchLine(event="done")

        self.following += 1
        try:
            yield lines()
        finally:
            self.following -= 1

    async def timings(self, unit: str, shape: str | None, limit: int) -> list[Timing]:
        self._ask("timings", unit, shape, limit)
        return [timing_of(unit)]

    async def timing(self, number: int) -> list[TimingDetail]:
        self._ask("timing", number)
        return [TimingDetail(timing=timing_of(id=number), times_us=(9.0, 10.0, 11.0))]

    async def best(self, kernel: str, shape: str | None, cache: CacheState | None) -> list[RankedTiming]:
        self._ask("best", kernel, shape, *([] if cache is None else [cache]))
        return [RankedTiming(unit=UNIT, instance="m128", shape="test", rank=1, timing=timing_of())]

    async def compare(self, unit: str, against: str, shape: str | None) -> list[Compared]:
        self._ask("compare", unit, against, shape)
        return [Compared(shape="test", cache="cold", ours=unit, theirs=against, why_not="test data")]

    async def set_baseline(self, name: str, patterns: Sequence[str] | None) -> list[str]:
        self._ask("set_baseline", name, patterns)
        return [UNIT]

    async def baselines(self) -> list[Baseline]:
        self._ask("baselines")
        return [Baseline(name="before", set_at=1.0, units=1, timings=2)]

    async def remove_baseline(self, name: str) -> int:
        self._ask("remove_baseline", name)
        return 1
