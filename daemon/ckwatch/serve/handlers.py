"""One method per route: it says who asks, asks the engine, and forms the answer.

A client that a request names is there while the request lasts. Answers are formed here and not by the framework, which
would validate and convert them once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse

from ckwatch.events import Options, Unasked
from ckwatch.serve.answers import json_answer
from ckwatch.serve.benchmarks import BenchmarkHandlers
from ckwatch.serve.clients import Clients
from ckwatch.serve.engine import Engine
from ckwatch.serve.language import LanguageHandlers
from ckwatch.serve.limits import Limits
from ckwatch.serve.queries import (
    AsClient,
    FileQuery,
    IsaQuery,
    LogQuery,
    PredictedQuery,
    RunsQuery,
    SinceQuery,
    SourceQuery,
    UnitsQuery,
)
from ckwatch.serve.slow_answers import SlowStream
from ckwatch.serve.streams import BuildStream, EventStream, Shared, SnapshotAnswer, UnitsAnswer
from ckwatch.wire.analysis import IsaAnswer
from ckwatch.wire.messages import (
    BuildRequest,
    CancelRequest,
    ClientId,
    FocusRequest,
    OverlayRequest,
    RunnerRequest,
    TimeTraceLine,
    TimeTraceRequest,
    ViewRequest,
)

Kernel = Annotated[str, Path(description="the first part of a unit's id", max_length=4096)]
Instance = Annotated[str, Path(description="the rest of a unit's id: INSTANCE@ARCH", max_length=4096)]
Client = Annotated[ClientId, Path(description="the client's own choice, unlike any other's")]


class Handlers(BenchmarkHandlers, LanguageHandlers):
    """What the routes do; see the table in `app`."""

    def __init__(self, engine: Engine, clients: Clients, limits: Limits, stop: Callable[[], None]) -> None:
        self._engine = engine
        self._clients = clients
        self._shared = Shared(limits)
        BenchmarkHandlers.__init__(self, engine.benchmarks, clients, self._shared)
        LanguageHandlers.__init__(self, engine.language, clients)
        self._stop = stop

    async def status(self) -> Response:
        """The daemon itself."""
        return json_answer(await self._engine.status())

    async def snapshot(self, query: Annotated[AsClient, Query()]) -> Response:
        """Every state, and the number after which to follow events."""
        async with self._clients.present(query.client):
            return SnapshotAnswer(await self._engine.snapshot(query.client), self._shared)

    async def events(self, query: Annotated[SinceQuery, Query()]) -> Response:
        """One line per change, as long as the connection is open. After a `reset` take a new snapshot."""
        return EventStream(self._engine, self._clients, self._shared, client=query.client, after=query.after)

    async def units(self, query: Annotated[UnitsQuery, Query()]) -> Response:
        """The units that patterns name."""
        async with self._clients.present(query.client):
            found = await self._engine.units(query.client, query.pattern)
            return UnitsAnswer(found, self._shared)

    async def unit(self, kernel: Kernel, instance: Instance, query: Annotated[AsClient, Query()]) -> Response:
        """All that is known of a unit."""
        async with self._clients.present(query.client):
            return json_answer(await self._engine.unit(query.client, f"{kernel}/{instance}"))

    async def source(self, kernel: Kernel, instance: Instance, query: Annotated[SourceQuery, Query()]) -> Response:
        """A unit's rendered text."""
        unit = f"{kernel}/{instance}"
        async with self._clients.present(query.client):
            return json_answer(await self._engine.rendered(query.client, unit, with_map=query.map))

    async def artifact(self, kernel: Kernel, instance: Instance, query: Annotated[AsClient, Query()]) -> Response:
        """What a unit compiled to, null when it did not."""
        async with self._clients.present(query.client):
            return json_answer(await self._engine.artifact(query.client, f"{kernel}/{instance}"))

    async def runs(self, kernel: Kernel, instance: Instance, query: Annotated[RunsQuery, Query()]) -> Response:
        """A unit's compiles, the newest first."""
        return json_answer(await self._engine.runs(f"{kernel}/{instance}", query.limit))

    async def runner(self, kernel: Kernel, instance: Instance, request: RunnerRequest) -> Response:
        """Write a program that runs and verifies a unit; the unit must have been built."""
        async with self._clients.present(request.client):
            await self._engine.runner(request.client, f"{kernel}/{instance}", request.path)
        return _done()

    async def time_trace(self, kernel: Kernel, instance: Instance, request: TimeTraceRequest) -> Response:
        """Where a unit's compile time goes: it is compiled for this. Closing the connection gives it up."""
        ask = partial(self._engine.time_trace, request.client, f"{kernel}/{instance}", request.path)
        return SlowStream(TimeTraceLine, ask, self._clients, self._shared, request.client)

    async def analysis(self, kernel: Kernel, instance: Instance, query: Annotated[AsClient, Query()]) -> Response:
        """What a unit's code object tells without a GPU: resources, occupancy, main loop, predictions."""
        async with self._clients.present(query.client):
            return json_answer(await self._engine.analysis(query.client, f"{kernel}/{instance}"))

    async def isa(self, kernel: Kernel, instance: Instance, query: Annotated[IsaQuery, Query()]) -> Response:
        """The disassembly of one of a unit's kernels. Closing the connection gives up the compile that tells its source
        lines."""
        ask = partial(self._engine.isa, query.client, f"{kernel}/{instance}", query.symbol, lines=query.lines)
        return SlowStream(IsaAnswer, ask, self._clients, self._shared, query.client)

    async def calibration(self) -> Response:
        """How far predictions were off, over all units with a fresh timing."""
        return json_answer(await self._engine.calibration())

    async def predicted(self, query: Annotated[PredictedQuery, Query()]) -> Response:
        """The compiled instances of a kernel by predicted time on a shape."""
        return json_answer(await self._engine.predicted(query.kernel, query.shape, query.arch, query.part))

    async def workspace(self, query: Annotated[AsClient, Query()]) -> Response:
        """The workspace itself, with what is wrong in its settings and kernel files."""
        async with self._clients.present(query.client):
            return json_answer(await self._engine.workspace(query.client))

    async def file(self, query: Annotated[FileQuery, Query()]) -> Response:
        """The diagnostics of a file."""
        async with self._clients.present(query.client):
            return json_answer(await self._engine.file(query.client, query.path))

    async def log(self, query: Annotated[LogQuery, Query()]) -> Response:
        """The end of the daemon's log."""
        return PlainTextResponse((await self._engine.log(query.lines)).encode(errors="replace"))

    async def build(self, request: BuildRequest) -> Response:
        """Build units and follow them; closing the connection gives up what nobody else wants."""
        return BuildStream(self._engine, self._clients, self._shared, request)

    async def cancel(self, request: CancelRequest) -> Response:
        """Stop compiling units; the answer names those that were."""
        async with self._clients.present(request.client):
            return json_answer(await self._engine.cancel(request.client, request.units))

    async def overlay(self, client: Client, request: OverlayRequest) -> Response:
        """Lend the text of an unsaved buffer, or take it back."""
        async with (
            self._clients.present(client),
            self._clients.lending(client, request.path, request.text),
        ):
            await self._engine.overlay(client, request.path, request.text)
        return _done()

    async def focus(self, client: Client, request: FocusRequest) -> Response:
        """What the client looks at comes first."""
        async with self._clients.present(client):
            unsaved = Unasked(request.unsaved)
            chosen = (client, request.units, request.files)
            await self._engine.focus(*chosen, everything=request.everything, unsaved=unsaved)
        return _done()

    async def view(self, client: Client, request: ViewRequest) -> Response:
        """How the client's view differs from the workspace."""
        options = Options(tuple(request.archs), request.rules, request.header_warnings)
        async with self._clients.present(client):
            await self._engine.view(client, options)
        return _done()

    async def leave(self, client: Client) -> Response:
        """The client goes: its streams end, and what it lent is dropped."""
        await self._clients.remove(client)
        return _done()

    async def stop(self) -> Response:
        """End the daemon."""
        self._engine.stop()
        self._stop()
        return _done()


def _done() -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)
