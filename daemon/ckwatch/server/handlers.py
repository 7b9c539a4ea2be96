"""Request handlers, one method per route, and the query parameters that each accepts.

A handler names the client, asks the engine, and forms the response. A client that a request names is present while the
request lasts. Responses are formed here and not by FastAPI, which would validate and convert them once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ckwatch.bench.job import Race
from ckwatch.core.events import AutoBuild, ViewOverrides
from ckwatch.model.roofline import CacheState
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.responses import json_response
from ckwatch.server.streams import EventStream, LineStream, SlowStream, SnapshotStream, StreamContext, UnitsStream
from ckwatch.wire.analysis import IsaAnswer
from ckwatch.wire.benchmarks import BaselineName, BaselineRequest, BenchLine, BenchRequest
from ckwatch.wire.cpp import CppAnswerLine, CppRequest
from ckwatch.wire.imported_timings import ImportTimingsRequest
from ckwatch.wire.language import ReadersRequest, ValuesRequest
from ckwatch.wire.messages import (
    BuildLine,
    BuildRequest,
    CancelRequest,
    EditorRequest,
    FocusRequest,
    OverlayRequest,
    RunnerRequest,
    ShowRequest,
    TimeTraceLine,
    TimeTraceRequest,
    ViewRequest,
)
from ckwatch.wire.schema import ClientId, FilePath, Name
from ckwatch.wire.verification import VerifyLine, VerifyRequest


class NoQuery(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ClientQuery(NoQuery):
    """As the client sees it, with its unsaved text; else as it is on disk."""

    client: ClientId | None = None


class EventsQuery(ClientQuery):
    """What comes after a number; without it, after now. `quiet`: heartbeats only, for a client that has them show that
    it is there."""

    after: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    quiet: bool = False


class UnitsQuery(ClientQuery):
    """Patterns as on the command line, or none for all."""

    pattern: list[Name] | None = None


class SourceQuery(ClientQuery):
    """`map`: also where each piece came from."""

    map: bool = False


class IsaQuery(ClientQuery):
    """A kernel by its readable name or its symbol, the main one without. `lines`: with source lines, for which the
    device code may be compiled once more."""

    symbol: Name | None = None
    lines: bool = True


class RunsQuery(NoQuery):
    """The newest so many."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class FileQuery(ClientQuery):
    """The file's absolute path."""

    path: FilePath


class LogQuery(NoQuery):
    """The last so many lines."""

    lines: Annotated[int, Field(ge=1, le=100_000)] = 100


class DevicesQuery(NoQuery):
    """`again`: look anew."""

    again: bool = False


class TimingsQuery(NoQuery):
    """The newest so many of a unit, `KERNEL/INSTANCE@ARCH`, on one shape or on all."""

    unit: Name
    shape: Name | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 50


class RankingQuery(NoQuery):
    """A kernel's name, a shape's, and whether caches were `cold` or `hot`."""

    kernel: Name
    shape: Name | None = None
    cache: CacheState | None = None


class PredictedQuery(NoQuery):
    """A kernel's name, a shape's, an arch that it is compiled for, and a part (`MI300X`), the fastest without."""

    kernel: Name
    shape: Name
    arch: Name | None = None
    part: Annotated[str, Field(max_length=64)] = ""


class ImportedTimingsQuery(NoQuery):
    """A kernel's name, a shape's of its kernel file, and an arch."""

    kernel: Name | None = None
    shape: Name | None = None
    arch: Name | None = None

    @model_validator(mode="after")
    def _shape_of_a_kernel(self) -> ImportedTimingsQuery:
        if self.shape is not None and self.kernel is None:
            raise ValueError("a shape is one of a kernel")
        return self


class ImportedFileQuery(NoQuery):
    """The file's absolute path."""

    path: FilePath


class CompareQuery(NoQuery):
    """A unit, what it is compared with, and a shape's name."""

    unit: Name
    against: Name
    shape: Name | None = None


async def takes_no_query(_query: Annotated[NoQuery, Query()]) -> None:
    """Refuses all query parameters of a route that has none."""


Number = Annotated[int, Path(description="a measurement's number in the history", ge=1, lt=2**63)]
BaselineInPath = Annotated[BaselineName, Path(description="a baseline's name")]


class TemplateQuery(ClientQuery):
    """A template by its name (`ck/gemm_universal.hip.j2`) or by the absolute path of its file; one of the two."""

    name: Name | None = None
    path: Annotated[FilePath | None, Field(description="the file's absolute path")] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> TemplateQuery:
        if (self.name is None) == (self.path is None):
            raise ValueError("give either name or path")
        return self


Kernel = Annotated[str, Path(description="the first part of a unit's id", max_length=4096)]
Instance = Annotated[str, Path(description="the rest of a unit's id: INSTANCE@ARCH", max_length=4096)]
Client = Annotated[ClientId, Path(description="the client's own choice, unlike any other's")]


class Handlers:
    """What the routes do; see the table in `app`."""

    def __init__(self, engine: Engine, clients: Clients, limits: Limits, stop: Callable[[], None]) -> None:
        self._engine = engine
        self._clients = clients
        self._shared = StreamContext(limits)
        self._benchmarks = engine.benchmarks
        self._imported = engine.imported
        self._verifications = engine.verifications
        self._language = engine.language
        self._cpp = engine.cpp
        self._stop = stop

    async def status(self) -> Response:
        """The daemon itself."""
        return json_response(await self._engine.status())

    async def snapshot(self, query: Annotated[ClientQuery, Query()]) -> Response:
        """Every state, and the number after which to follow events."""
        async with self._clients.present(query.client):
            return SnapshotStream(await self._engine.snapshot(query.client), self._shared)

    async def events(self, query: Annotated[EventsQuery, Query()]) -> Response:
        """One line per change, as long as the connection is open. After a `reset` take a new snapshot."""
        return EventStream(
            self._engine, self._clients, self._shared, client=query.client, after=query.after, quiet=query.quiet
        )

    async def units(self, query: Annotated[UnitsQuery, Query()]) -> Response:
        """The units that patterns name."""
        async with self._clients.present(query.client):
            found = await self._engine.units(query.client, query.pattern)
            return UnitsStream(found, self._shared)

    async def unit(self, kernel: Kernel, instance: Instance, query: Annotated[ClientQuery, Query()]) -> Response:
        """All that is known of a unit."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.unit(query.client, f"{kernel}/{instance}"))

    async def source(self, kernel: Kernel, instance: Instance, query: Annotated[SourceQuery, Query()]) -> Response:
        """A unit's rendered text."""
        unit = f"{kernel}/{instance}"
        async with self._clients.present(query.client):
            return json_response(await self._engine.rendered(query.client, unit, with_map=query.map))

    async def artifact(self, kernel: Kernel, instance: Instance, query: Annotated[ClientQuery, Query()]) -> Response:
        """What a unit compiled to, null when it did not."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.artifact(query.client, f"{kernel}/{instance}"))

    async def verification(
        self, kernel: Kernel, instance: Instance, query: Annotated[ClientQuery, Query()]
    ) -> Response:
        """What an emulator said of a unit's present artifact; nothing is executed."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.verification(query.client, f"{kernel}/{instance}"))

    async def runs(self, kernel: Kernel, instance: Instance, query: Annotated[RunsQuery, Query()]) -> Response:
        """A unit's compiles, the newest first."""
        return json_response(await self._engine.runs(f"{kernel}/{instance}", query.limit))

    async def runner(self, kernel: Kernel, instance: Instance, request: RunnerRequest) -> Response:
        """Write a program that runs and verifies a unit; the unit must have been built."""
        async with self._clients.present(request.client):
            await self._engine.runner(request.client, f"{kernel}/{instance}", request.path)
        return _done()

    async def time_trace(self, kernel: Kernel, instance: Instance, request: TimeTraceRequest) -> Response:
        """Where a unit's compile time goes: it is compiled for this. Closing the connection gives it up."""
        ask = partial(self._engine.time_trace, request.client, f"{kernel}/{instance}", request.path)
        return SlowStream(TimeTraceLine, ask, self._clients, self._shared, request.client)

    async def analysis(self, kernel: Kernel, instance: Instance, query: Annotated[ClientQuery, Query()]) -> Response:
        """Performance figures of a unit that need no GPU: resources, occupancy, main loop, predictions."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.analysis(query.client, f"{kernel}/{instance}"))

    async def occupancy_steps(
        self, kernel: Kernel, instance: Instance, query: Annotated[ClientQuery, Query()]
    ) -> Response:
        """Changes of a unit's parameters that may raise its occupancy, by an estimate."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.occupancy_steps(query.client, f"{kernel}/{instance}"))

    async def isa(self, kernel: Kernel, instance: Instance, query: Annotated[IsaQuery, Query()]) -> Response:
        """The disassembly of one of a unit's kernels. Closing the connection gives up the compile that finds its source
        lines."""
        ask = partial(self._engine.isa, query.client, f"{kernel}/{instance}", query.symbol, lines=query.lines)
        return SlowStream(IsaAnswer, ask, self._clients, self._shared, query.client)

    async def calibration(self) -> Response:
        """How far predictions were off, over all units with a fresh timing."""
        return json_response(await self._engine.calibration())

    async def predicted(self, query: Annotated[PredictedQuery, Query()]) -> Response:
        """The compiled instances of a kernel by predicted time on a shape."""
        return json_response(await self._engine.predicted(query.kernel, query.shape, query.arch, query.part))

    async def workspace(self, query: Annotated[ClientQuery, Query()]) -> Response:
        """The workspace itself, with what is wrong in its settings and kernel files."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.workspace(query.client))

    async def file(self, query: Annotated[FileQuery, Query()]) -> Response:
        """The diagnostics of a file."""
        async with self._clients.present(query.client):
            return json_response(await self._engine.file(query.client, query.path))

    async def log(self, query: Annotated[LogQuery, Query()]) -> Response:
        """The end of the daemon's log."""
        return PlainTextResponse((await self._engine.log(query.lines)).encode(errors="replace"))

    async def build(self, request: BuildRequest) -> Response:
        """Build units and follow them; closing the connection gives up what no other client wants."""
        begin = partial(
            self._engine.build,
            request.client,
            request.units,
            force=request.force,
            check_only=request.check_only,
            finish=request.finish,
        )
        return LineStream(begin, BuildLine(event="heartbeat"), self._clients, self._shared, request.client)

    async def cancel(self, request: CancelRequest) -> Response:
        """Stop compiling units; the answer names those that were."""
        async with self._clients.present(request.client):
            return json_response(await self._engine.cancel(request.client, request.units))

    async def overlay(self, client: Client, request: OverlayRequest) -> Response:
        """Set the text of an unsaved buffer, or drop it."""
        async with (
            self._clients.present(client),
            self._clients.overlaying(client, request.path, request.text),
        ):
            await self._engine.overlay(client, request.path, request.text)
        return _done()

    async def focus(self, client: Client, request: FocusRequest) -> Response:
        """What the client looks at comes first."""
        async with self._clients.present(client):
            unsaved = AutoBuild(request.unsaved)
            chosen = (client, request.units, request.files)
            await self._engine.focus(*chosen, everything=request.everything, unsaved=unsaved)
        return _done()

    async def view(self, client: Client, request: ViewRequest) -> Response:
        """How the client's view differs from the workspace."""
        options = ViewOverrides(tuple(request.archs), request.rules, request.header_warnings)
        async with self._clients.present(client):
            await self._engine.view(client, options)
        return _done()

    async def editor(self, client: Client, request: EditorRequest) -> Response:
        """Whether the client is an editor that shows places."""
        async with self._clients.present(client):
            await self._engine.editor(client, shows=request.shows)
        return _done()

    async def leave(self, client: Client) -> Response:
        """The client goes: its streams end, and its unsaved text is dropped."""
        await self._clients.remove(client)
        return _done()

    async def show(self, request: ShowRequest) -> Response:
        """Show a place in the editors that can; the answer is how many there are."""
        return _number(await self._engine.show(request.path, request.line, request.column))

    # The words of templates and files.

    async def vocabulary(self) -> Response:
        """The words of templates, and the keys of kernel files and settings."""
        return json_response(await self._language.vocabulary())

    async def templates(self, query: Annotated[ClientQuery, Query()]) -> Response:
        """Every template that a kernel file could name."""
        async with self._clients.present(query.client):
            return json_response(await self._language.templates(query.client))

    async def template(self, query: Annotated[TemplateQuery, Query()]) -> Response:
        """The files that a template is made of, and the parameters that it asks for."""
        async with self._clients.present(query.client):
            return json_response(await self._language.template(query.client, query.name, query.path))

    async def readers(self, query: Annotated[FileQuery, Query()]) -> Response:
        """The units that read a file, as observed."""
        async with self._clients.present(query.client):
            return json_response(await self._language.readers(query.client, query.path))

    async def readers_of(self, request: ReadersRequest) -> Response:
        """The units that read each of several files."""
        async with self._clients.present(request.client):
            return json_response(await self._language.readers_of(request.client, request.paths))

    async def values(self, request: ValuesRequest) -> Response:
        """What the instance rules say of values of a parameter: accepted ones first, then the nearest."""
        async with self._clients.present(request.client):
            return json_response(await self._language.values(request))

    async def ask_cpp(self, request: CppRequest) -> Response:
        """What clangd says of C++ at a place. Closing the connection gives the question up."""
        return SlowStream(CppAnswerLine, partial(self._cpp.ask, request), self._clients, self._shared, request.client)

    # Benchmarks: what was timed is of the workspace as it is on disk.

    async def devices(self, query: Annotated[DevicesQuery, Query()]) -> Response:
        """What units can be timed on, and which kinds of device cannot be used and why."""
        return json_response(await self._benchmarks.devices(again=query.again))

    async def bench(self, request: BenchRequest) -> Response:
        """Build units, time them and follow that; closing the connection gives up what no other client wants."""
        begin = partial(
            self._benchmarks.bench,
            request.units,
            request.shapes,
            device=request.device,
            force=request.force,
            race=Race(limit_us=request.limit_us) if request.race else None,
            flush_instructions=request.flush_instructions,
            client=request.client,
        )
        return LineStream(begin, BenchLine(event="heartbeat"), self._clients, self._shared, request.client)

    async def verify(self, request: VerifyRequest) -> Response:
        """Build units, have an emulator verify them and follow that; closing the connection gives up what no other
        client wants."""
        begin = partial(
            self._verifications.verify,
            request.units,
            shapes=request.shapes,
            force=request.force,
            client=request.client,
        )
        return LineStream(begin, VerifyLine(event="heartbeat"), self._clients, self._shared, request.client)

    async def timings(self, query: Annotated[TimingsQuery, Query()]) -> Response:
        """A unit's timings, the newest first."""
        return json_response(await self._benchmarks.timings(query.unit, query.shape, query.limit))

    async def timing(self, number: Number) -> Response:
        """A measurement with its raw samples, one part for each cache state."""
        return json_response(await self._benchmarks.timing(number))

    async def ranking(self, query: Annotated[RankingQuery, Query()]) -> Response:
        """The instances of a kernel by time, and why some have none."""
        return json_response(await self._benchmarks.best(query.kernel, query.shape, query.cache))

    async def comparison(self, query: Annotated[CompareQuery, Query()]) -> Response:
        """A unit's timings against another unit's, `previous`, `library`, `baseline` or `baseline:NAME`."""
        return json_response(await self._benchmarks.compare(query.unit, query.against, query.shape))

    async def baselines(self) -> Response:
        """All baselines."""
        return json_response(await self._benchmarks.baselines())

    async def set_baseline(self, name: BaselineInPath, request: BaselineRequest) -> Response:
        """Let a name mean the latest timings of units; the answer names those that have any."""
        return json_response(await self._benchmarks.set_baseline(name, request.units))

    async def remove_baseline(self, name: BaselineInPath) -> Response:
        """Let a name mean nothing; the answer is of how many units."""
        return _number(await self._benchmarks.remove_baseline(name))

    # What others measured.

    async def import_timings(self, request: ImportTimingsRequest) -> Response:
        """Read timings from a file, and keep them apart from those that were taken here."""
        return json_response(await self._imported.import_file(request))

    async def imported_timings(self, query: Annotated[ImportedTimingsQuery, Query()]) -> Response:
        """The imported timings that are about a kernel, the fastest first; all without one."""
        return json_response(await self._imported.timings(query.kernel, query.shape, query.arch))

    async def imported_files(self) -> Response:
        """The files that timings were imported from."""
        return json_response(await self._imported.files())

    async def remove_imported(self, query: Annotated[ImportedFileQuery, Query()]) -> Response:
        """Drop what was imported from a file."""
        await self._imported.remove(query.path)
        return _done()

    # The daemon's end.

    async def stop(self) -> Response:
        """End the daemon."""
        self._stop()
        return _done()


def _done() -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _number(count: int) -> Response:
    return Response(b"%d" % count, media_type="application/json")
