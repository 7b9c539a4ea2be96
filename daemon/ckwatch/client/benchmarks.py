"""What a program can ask of benchmarks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ckwatch.client.access import Access, parsed, parsed_list
from ckwatch.client.failures import DaemonGoneError
from ckwatch.client.http import Exchange, Query

if TYPE_CHECKING:
    from ckwatch.wire.compared import Baseline, Compared
    from ckwatch.wire.timings import BenchLine, Devices, Ranked, Timing, TimingDetail
    from ckwatch.wire.values import Unit


class BenchLines:
    """Iterates over `began`, `stage`, `timing` and `skipped` for each unit and shape, and `done`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._done = False

    def __aiter__(self) -> BenchLines:
        return self

    async def __anext__(self) -> BenchLine:
        """The next line. Raises DaemonGoneError when the daemon ends before the benchmark."""
        from ckwatch.wire.timings import BenchLine

        while not self._done:
            data = await self._exchange.line()
            if data is None:
                raise DaemonGoneError("the daemon was stopped during the benchmark", began=True)
            line = parsed(BenchLine, data)
            self._done = line.event == "done"
            if line.event != "heartbeat":
                return line
        raise StopAsyncIteration


class BenchmarkCalls:
    """The part of a client that speaks of timings: those of the workspace as it is on disk."""

    _access: Access

    async def devices(self, *, again: bool = False) -> Devices:
        """What units can be timed on; with `again` it is looked anew."""
        from ckwatch.wire.timings import Devices

        query: Query = [("again", "1")] if again else []
        return await self._access.get(Devices, ("devices",), query)

    @asynccontextmanager
    async def bench(
        self,
        *patterns: str,
        shapes: Iterable[str] | None = None,
        device: str | None = None,
        force: bool = False,
    ) -> AsyncIterator[BenchLines]:
        """Build units and time them; leaving the context gives up what nobody else wants.

        `shapes` names some of their kernel files' shapes. What is known is not measured again unless by `force`.
        """
        from ckwatch.wire.bench_requests import BenchRequest

        request = BenchRequest.model_construct(
            units=list(patterns) or None,
            shapes=None if shapes is None else list(shapes),
            device=device,
            force=force,
            client=None,
        )
        async with self._access.answer("POST", ("benchmarks",), body=request, again="unheard") as exchange:
            yield BenchLines(exchange)

    async def timings(self, unit: str | Unit, shape: str | None = None, limit: int = 50) -> list[Timing]:
        """The last timings of `KERNEL/INSTANCE@ARCH`, newest first, those of earlier artifacts too."""
        from ckwatch.wire.timings import Timing

        query = [("unit", _id(unit)), ("limit", str(limit)), *_on(shape)]
        return parsed_list(list[Timing], await self._access.request("GET", ("timings",), query))

    async def timing(self, number: int) -> list[TimingDetail]:
        """A measurement by its number (`Timing.id`) with its raw samples, one part for each cache state."""
        from ckwatch.wire.timings import TimingDetail

        return parsed_list(list[TimingDetail], await self._access.request("GET", ("timings", str(number)), []))

    async def best(self, kernel: str, shape: str | None = None) -> list[Ranked]:
        """The instances of a kernel on its shapes by time, then those without a timing, and why."""
        from ckwatch.wire.timings import Ranked

        query = [("kernel", kernel), *_on(shape)]
        return parsed_list(list[Ranked], await self._access.request("GET", ("ranking",), query))

    async def compare(self, unit: str | Unit, against: str | Unit, shape: str | None = None) -> list[Compared]:
        """A unit's latest timings against another unit's, or `previous`, `library`, `baseline`, `baseline:NAME`."""
        from ckwatch.wire.compared import Compared

        query = [("unit", _id(unit)), ("against", _id(against)), *_on(shape)]
        return parsed_list(list[Compared], await self._access.request("GET", ("comparison",), query))

    async def set_baseline(self, name: str, *patterns: str) -> list[str]:
        """Let `name` mean the latest timings of units; the ids of those that have any."""
        from ckwatch.wire.bench_requests import BaselineRequest

        request = BaselineRequest.model_construct(units=list(patterns) or None)
        return parsed_list(list[str], await self._access.request("PUT", ("baselines", name), body=request))

    async def baselines(self) -> list[Baseline]:
        """All baselines, the one that was set last first."""
        from ckwatch.wire.compared import Baseline

        return parsed_list(list[Baseline], await self._access.request("GET", ("baselines",), []))

    async def remove_baseline(self, name: str) -> int:
        """Let `name` mean nothing any more; of how many units."""
        return int(await self._access.request("DELETE", ("baselines", name), []))


def _id(unit: str | Unit) -> str:
    return unit if isinstance(unit, str) else unit.id


def _on(shape: str | None) -> list[tuple[str, str]]:
    return [] if shape is None else [("shape", shape)]
