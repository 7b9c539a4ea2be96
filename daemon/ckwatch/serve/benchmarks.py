"""The routes of benchmarks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated

from fastapi import Path, Query, Response

from ckwatch.serve.answers import json_answer
from ckwatch.serve.clients import Clients
from ckwatch.serve.engine import BenchmarkEngine
from ckwatch.serve.queries import CompareQuery, DevicesQuery, RankingQuery, TimingsQuery
from ckwatch.serve.streams import LineStream, Shared
from ckwatch.wire.bench_requests import BaselineName, BaselineRequest, BenchRequest
from ckwatch.wire.timings import BenchLine

Number = Annotated[int, Path(description="a measurement's number in the history", ge=1, lt=2**63)]
BaselineInPath = Annotated[BaselineName, Path(description="a baseline's name")]


class BenchStream(LineStream[BenchLine]):
    """The lines of a benchmark."""

    def __init__(self, benchmarks: BenchmarkEngine, clients: Clients, shared: Shared, request: BenchRequest) -> None:
        super().__init__(clients, shared, request.client)
        self._benchmarks = benchmarks
        self._request = request

    def begin(self) -> AbstractAsyncContextManager[AsyncIterator[BenchLine]]:
        """Build and time."""
        request = self._request
        return self._benchmarks.bench(request.units, request.shapes, device=request.device, force=request.force)

    def heartbeat(self) -> BenchLine:
        """As a line."""
        return BenchLine(event="heartbeat")


class BenchmarkHandlers:
    """What the routes of benchmarks do."""

    def __init__(self, benchmarks: BenchmarkEngine, clients: Clients, shared: Shared) -> None:
        self._benchmarks = benchmarks
        self._bench_clients = clients
        self._bench_shared = shared

    async def devices(self, query: Annotated[DevicesQuery, Query()]) -> Response:
        """What units can be timed on, and which kinds of device cannot be used and why."""
        return json_answer(await self._benchmarks.devices(again=query.again))

    async def bench(self, request: BenchRequest) -> Response:
        """Build units, time them and follow that; closing the connection gives up what nobody else wants."""
        return BenchStream(self._benchmarks, self._bench_clients, self._bench_shared, request)

    async def timings(self, query: Annotated[TimingsQuery, Query()]) -> Response:
        """A unit's timings, the newest first."""
        return json_answer(await self._benchmarks.timings(query.unit, query.shape, query.limit))

    async def timing(self, number: Number) -> Response:
        """A measurement with its raw samples, one part for each cache state."""
        return json_answer(await self._benchmarks.timing(number))

    async def ranking(self, query: Annotated[RankingQuery, Query()]) -> Response:
        """The instances of a kernel by time, and why some have none."""
        return json_answer(await self._benchmarks.best(query.kernel, query.shape))

    async def comparison(self, query: Annotated[CompareQuery, Query()]) -> Response:
        """A unit's timings against another unit's, `previous`, `library`, `baseline` or `baseline:NAME`."""
        return json_answer(await self._benchmarks.compare(query.unit, query.against, query.shape))

    async def baselines(self) -> Response:
        """All baselines."""
        return json_answer(await self._benchmarks.baselines())

    async def set_baseline(self, name: BaselineInPath, request: BaselineRequest) -> Response:
        """Let a name mean the latest timings of units; the answer names those that have any."""
        return json_answer(await self._benchmarks.set_baseline(name, request.units))

    async def remove_baseline(self, name: BaselineInPath) -> Response:
        """Let a name mean nothing; the answer is of how many units."""
        count = await self._benchmarks.remove_baseline(name)
        return Response(b"%d" % count, media_type="application/json")
