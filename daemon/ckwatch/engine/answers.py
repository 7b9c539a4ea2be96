"""The daemon as the server sees it: a table of the functions that answer each question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.core.events import AutoBuild, ViewOverrides
from ckwatch.engine.client_requests import ClientRequests
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.advice import AdviceQuery
from ckwatch.engine.queries.analysis import AnalysisQueries
from ckwatch.engine.queries.benchmarks import BenchmarkQueries
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.cpp import CppQueries
from ckwatch.engine.queries.device_profiles import DeviceProfileQueries
from ckwatch.engine.queries.imported_timings import ImportedTimingsQueries
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.occupancy_steps import OccupancyStepsQuery
from ckwatch.engine.queries.profiles import ProfileQueries
from ckwatch.engine.queries.snapshot import SnapshotQueries
from ckwatch.engine.queries.status import StatusQueries
from ckwatch.engine.queries.time_trace import TimeTraceQuery
from ckwatch.engine.queries.toolchain_builds import FollowedToolchainBuilds
from ckwatch.engine.queries.unit import UnitQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.queries.upgrade import UpgradeQuery
from ckwatch.engine.queries.verifications import FollowedVerifications
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.questions import clients, timings, units, workspace
from ckwatch.questions.table import Answers, answers
from ckwatch.wire.analysis import Analysis, Isa
from ckwatch.wire.requests import FocusRequest, ViewRequest
from ckwatch.wire.state import Change, Status

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings


@dataclass
class Daemon:
    """Fits `ckwatch.server.engine_api.Engine`.

    `make_listings` is called, in a thread, with the first question for a listing: its modules take a while to load.
    """

    loop: EngineLoop
    lookup: UnitLookup
    statuses: StatusQueries
    snapshots: SnapshotQueries
    units: UnitQueries
    analyses: AnalysisQueries
    make_listings: Callable[[], IsaListings]
    time_traces: TimeTraceQuery
    builds: FollowedBuilds
    requests: ClientRequests
    benchmarks: BenchmarkQueries
    imported: ImportedTimingsQueries
    toolchain_builds: FollowedToolchainBuilds
    verifications: FollowedVerifications
    language: LanguageQueries
    cpp: CppQueries
    occupancy: OccupancyStepsQuery
    profiles: ProfileQueries
    device_profiles: DeviceProfileQueries
    advice: AdviceQuery
    upgrades: UpgradeQuery

    @cached_property
    def answers(self) -> Answers:
        """The function that answers each question."""
        Workspace, Units, Timings, Client = (  # noqa: N806  # they are classes
            workspace.WorkspaceQuestions,
            units.UnitQuestions,
            timings.TimingQuestions,
            clients.ClientQuestions,
        )
        return answers(
            Workspace.status.answered_by(self.statuses.status),
            Workspace.workspace.answered_by(self.statuses.workspace),
            Workspace.log.answered_by(self.statuses.log),
            Workspace.show.answered_by(self.requests.show),
            Workspace.unsaved.answered_by(self.requests.unsaved),
            Workspace.vocabulary.answered_by(self.language.vocabulary),
            Workspace.templates.answered_by(self.language.templates),
            Workspace.template.answered_by(self.language.template),
            Workspace.readers.answered_by(self.language.readers),
            Workspace.values.answered_by(self.language.values),
            Units.units.answered_by(self.snapshots.units),  # type: ignore[arg-type]  # the server iterates over them
            Units.unit_rows.answered_by(self.snapshots.unit_rows),  # type: ignore[arg-type]  # so here
            Units.unit.answered_by(self.units.unit),
            Units.plan.answered_by(self.units.plan),
            Units.rendered.answered_by(self.units.rendered),
            Units.artifact.answered_by(self.units.artifact),
            Units.verification.answered_by(self.units.verification),
            Units.runs.answered_by(self.units.runs),
            Units.runner.answered_by(self.units.runner),
            Units.time_trace.answered_by(self.time_traces.time_trace),
            Units.analysis.answered_by(self.analysis),
            Units.occupancy_steps.answered_by(self.occupancy.steps),
            Units.isa.answered_by(self.isa),
            Units.profile.answered_by(self.profiles.profile),
            Units.profile_on_device.answered_by(self.device_profiles.take),
            Units.import_profile.answered_by(self.device_profiles.import_file),
            Units.advice.answered_by(self.advice.advice),
            Units.calibration.answered_by(self.analyses.calibration),
            Units.predicted.answered_by(self.analyses.predicted),
            Units.building.answered_by(self.toolchain_builds.build),
            Units.cancel.answered_by(self.builds.cancel),
            Units.bench.answered_by(self.benchmarks.bench),
            Units.verifying.answered_by(self.verifications.verify),
            Units.upgrading.answered_by(self.upgrades.upgrade),
            Timings.devices.answered_by(self.benchmarks.devices),
            Timings.processor_roof.answered_by(self.benchmarks.processor_roof),
            Timings.timings.answered_by(self.benchmarks.timings),
            Timings.timing.answered_by(self.benchmarks.timing),
            Timings.best.answered_by(self.benchmarks.best),
            Timings.compare.answered_by(self.benchmarks.compare),
            Timings.set_baseline.answered_by(self.benchmarks.set_baseline),
            Timings.baselines.answered_by(self.benchmarks.baselines),
            Timings.remove_baseline.answered_by(self.benchmarks.remove_baseline),
            Timings.import_timings.answered_by(self.imported.import_file),
            Timings.imported_timings.answered_by(self.imported.timings),
            Timings.imported_files.answered_by(self.imported.files),
            Timings.remove_imported.answered_by(self.imported.remove),
            Client.snapshot.answered_by(self.snapshots.snapshot),
            Client.overview.answered_by(self.snapshots.overview),
            Client.file.answered_by(self.snapshots.file),
            Client.readers_of.answered_by(self.language.readers_of),
            Client.ask_cpp.answered_by(self.cpp.ask),
            Client.overlay.answered_by(
                lambda client, request: self.requests.overlay(client, request.path, request.text)
            ),
            Client.focus.answered_by(self._focus),
            Client.view.answered_by(self._view),
            Client.editor.answered_by(lambda client, request: self.requests.editor(client, shows=request.shows)),
        )

    async def _focus(self, client: str, request: FocusRequest) -> None:
        chosen = (client, request.units, request.files)
        await self.requests.focus(*chosen, everything=request.everything, unsaved=AutoBuild(request.unsaved))

    async def _view(self, client: str, request: ViewRequest) -> None:
        options = ViewOverrides(tuple(request.archs), request.rules, request.header_warnings)
        await self.requests.view(client, options)

    async def analysis(self, scope: str, unit: str) -> Analysis:
        """The report of a unit's code object."""
        return await self.analyses.analysis(await self.lookup.one(scope, unit))

    async def isa(self, scope: str, unit: str, kernel: str | None, *, lines: bool) -> Isa:
        """The listing of a unit's kernel."""
        state = await self.lookup.one(scope, unit)
        listings = await to_thread.run_sync(self.make_listings)
        return await listings.listing(state, kernel, lines=lines)

    async def status(self) -> Status:
        """The daemon itself."""
        return await self.statuses.status()

    async def changes(self, scope: str, after: int, *, rows: bool = False) -> Sequence[Change]:
        """The next topics that changed after `after`, units as `rows` or whole."""
        return await self.snapshots.changes(scope, after, rows=rows)

    async def forget(self, client: str) -> None:
        """The client has gone."""
        await self.requests.forget(client)
