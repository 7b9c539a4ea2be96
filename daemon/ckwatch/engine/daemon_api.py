"""The daemon as the server sees it: each question goes to its module in `queries`, each request becomes an event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.core.events import MAIN, AutoBuild, ViewOverrides
from ckwatch.engine.client_requests import ClientRequests
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.analysis import AnalysisQueries
from ckwatch.engine.queries.benchmarks import BenchmarkQueries
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.cpp import CppQueries
from ckwatch.engine.queries.imported_timings import ImportedTimingsQueries
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.occupancy_steps import OccupancyStepsQuery
from ckwatch.engine.queries.snapshot import SnapshotQueries
from ckwatch.engine.queries.status import StatusQueries
from ckwatch.engine.queries.time_trace import TimeTraceQuery
from ckwatch.engine.queries.unit import UnitQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.queries.verifications import FollowedVerifications
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, OccupancySteps, PredictedRanking
from ckwatch.wire.messages import Artifact, BuildLine, RenderedText, Run, Status, TimeTrace, UnitDetail, WorkspaceDetail
from ckwatch.wire.state import Change, File, Snapshot, Unit
from ckwatch.wire.verification import UnitVerification

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings


@dataclass(slots=True)
class DaemonApi:
    """Fits `ckwatch.server.engine_api.Engine`, which says what the methods do and raise.

    `make_listings` is called, in a thread, with the first question for a listing: its modules take a while to load.
    """

    loop: EngineLoop
    lookup: UnitLookup
    status_queries: StatusQueries
    snapshots: SnapshotQueries
    unit_queries: UnitQueries
    analyses: AnalysisQueries
    make_listings: Callable[[], IsaListings]
    time_traces: TimeTraceQuery
    builds: FollowedBuilds
    requests: ClientRequests
    benchmarks: BenchmarkQueries
    imported: ImportedTimingsQueries
    verifications: FollowedVerifications
    language: LanguageQueries
    cpp: CppQueries
    occupancy: OccupancyStepsQuery
    listings: IsaListings | None = None

    async def status(self) -> Status:
        return await self.status_queries.status()

    async def workspace(self, client: str | None) -> WorkspaceDetail:
        return await self.status_queries.workspace(client)

    async def log(self, lines: int) -> str:
        return await self.status_queries.log(lines)

    async def snapshot(self, client: str | None) -> Snapshot:
        return await self.snapshots.snapshot(client)

    async def changes(self, client: str | None, after: int) -> Sequence[Change]:
        return await self.snapshots.changes(client, after)

    async def units(self, client: str | None, patterns: Sequence[str] | None) -> list[Unit]:
        return await self.snapshots.units(client, patterns)

    async def file(self, client: str | None, path: str) -> File:
        return await self.snapshots.file(client, path)

    async def unit(self, client: str | None, unit: str) -> UnitDetail:
        return await self.unit_queries.unit(client, unit)

    async def rendered(self, client: str | None, unit: str, *, with_map: bool) -> RenderedText:
        return await self.unit_queries.rendered(client, unit, with_map=with_map)

    async def artifact(self, client: str | None, unit: str) -> Artifact | None:
        return await self.unit_queries.artifact(client, unit)

    async def verification(self, client: str | None, unit: str) -> UnitVerification:
        return await self.unit_queries.verification(client, unit)

    async def runs(self, unit: str, limit: int) -> list[Run]:
        return await self.unit_queries.runs(unit, limit)

    async def runner(self, client: str | None, unit: str, path: str) -> None:
        await self.unit_queries.runner(client, unit, path)

    async def time_trace(self, client: str | None, unit: str, path: str | None) -> TimeTrace:
        return await self.time_traces.time_trace(client, unit, path)

    async def analysis(self, client: str | None, unit: str) -> Analysis:
        return await self.analyses.analysis(await self.lookup.one(client or MAIN, unit))

    async def occupancy_steps(self, client: str | None, unit: str) -> OccupancySteps:
        return await self.occupancy.steps(client, unit)

    async def isa(self, client: str | None, unit: str, symbol: str | None, *, lines: bool) -> Isa:
        state = await self.lookup.one(client or MAIN, unit)
        if self.listings is None:
            made = await to_thread.run_sync(self.make_listings)
            self.listings = self.listings or made
        return await self.listings.listing(state, symbol, lines=lines)

    async def calibration(self) -> Calibrated:
        return await self.analyses.calibration()

    async def predicted(self, kernel: str, shape: str, arch: str | None, part: str) -> PredictedRanking:
        return await self.analyses.predicted(kernel, shape, arch, part)

    def build(
        self, client: str | None, patterns: Sequence[str] | None, *, force: bool, check_only: bool, finish: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[BuildLine]]:
        return self.builds.build(client, patterns, force=force, check_only=check_only, finish=finish)

    async def cancel(self, client: str | None, patterns: Sequence[str] | None) -> list[str]:
        return await self.builds.cancel(client, patterns)

    async def overlay(self, client: str, path: str, text: str | None) -> None:
        await self.requests.overlay(client, path, text)

    async def focus(
        self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool, unsaved: AutoBuild
    ) -> None:
        await self.requests.focus(client, patterns, files, everything=everything, unsaved=unsaved)

    async def view(self, client: str, options: ViewOverrides) -> None:
        await self.requests.view(client, options)

    async def editor(self, client: str, *, shows: bool) -> None:
        await self.requests.editor(client, shows=shows)

    async def show(self, path: str, line: int, column: int) -> int:
        return await self.requests.show(path, line, column)

    async def forget(self, client: str) -> None:
        await self.requests.forget(client)
