"""Opens a daemon without its socket: builds its parts in order, and closes them in reverse."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter, RunFinishedError, from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from ckwatch.bench.history.artifacts import Artifacts
from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.codeobject.report_diff import KernelWarning
from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.toolchain.discover import discover
from ckwatch.core import events
from ckwatch.core.effects import (
    Advise,
    Analyze,
    Check,
    CheckWith,
    Compile,
    Load,
    LookUp,
    Measure,
    Recall,
    Record,
    Render,
    Scan,
    Verify,
)
from ckwatch.core.state import State
from ckwatch.engine.answers import Daemon
from ckwatch.engine.build_tools import BuildTools, FindToolchain
from ckwatch.engine.client_requests import ClientRequests
from ckwatch.engine.handlers.advise import AdviceFinder, LinedKernel
from ckwatch.engine.handlers.analyze import ArtifactAnalyzer, ReportCache, code_version
from ckwatch.engine.handlers.compile import CompileHandler
from ckwatch.engine.handlers.farm_link import FarmLink
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.look_up import RecentSnapshot
from ckwatch.engine.handlers.measure import MeasureRunner
from ckwatch.engine.handlers.other_toolchains import OtherToolchains
from ckwatch.engine.handlers.recall import RecallHandler
from ckwatch.engine.handlers.regressions import failure_diagnostic
from ckwatch.engine.handlers.render import RenderHandler, TextCache
from ckwatch.engine.handlers.scan import ScanHandler
from ckwatch.engine.handlers.verify import Emulate, VerifyRunner, WorkerEmulator
from ckwatch.engine.loop import EngineLoop, Handlers
from ckwatch.engine.queries.advice import AdviceQuery
from ckwatch.engine.queries.analysis import AnalysisQueries
from ckwatch.engine.queries.benchmarks import BenchmarkQueries, FollowedBenchmarks
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.cpp import CppQueries
from ckwatch.engine.queries.device_profiles import DeviceProfileQueries
from ckwatch.engine.queries.imported_timings import ImportedTimingsQueries
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.occupancy_steps import OccupancyStepsQuery
from ckwatch.engine.queries.profiles import ProfileQueries
from ckwatch.engine.queries.snapshot import SentUnitCache, SnapshotQueries
from ckwatch.engine.queries.status import StatusQueries
from ckwatch.engine.queries.time_trace import TimeTraceQuery
from ckwatch.engine.queries.toolchain_builds import FollowedToolchainBuilds
from ckwatch.engine.queries.unit import UnitQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.queries.upgrade import UpgradeQuery
from ckwatch.engine.queries.verifications import FollowedVerifications
from ckwatch.engine.side_work import SideWork
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.engine.watched_files import start_watching
from ckwatch.engine.webhook import VARIABLE, Webhook
from ckwatch.model.errors import plain_errors
from ckwatch.model.figures import Figures
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Shape, Unit
from ckwatch.model.version import __version__
from ckwatch.system.allocator import return_free_pages
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.system.garbage_collection import collect_when_idle, young_only
from ckwatch.system.processes import niceness
from ckwatch.wire.endpoint import endpoint_of
from ckwatch.workspace.trust import require_trusted

if TYPE_CHECKING:
    from ckwatch.core.unit_state import UnitState
    from ckwatch.engine.queries.listings import IsaListings
    from ckwatch.model.verification import Verification

HISTORY_FILE_NAME = "history.sqlite"

log = logging.getLogger(__name__)

WORKERS = 8
"""Processes that render at most: as many as there are cores."""

RENDERS_PER_WORKER = 8
"""Renders that are begun for each: it need not wait for the next, and gets those of one template."""

REST_S = 10.0
"""How often it is seen whether there is nothing to do: then workers end, and what was sent is forgotten."""

UNITS_AT_ONCE = 20
"""Units that one step changes at most: a millisecond or two with their notifications, thrice as long beside a load."""

STORE_CLEANUP_S = 600.0
"""How often the store is kept within its size."""


@asynccontextmanager
async def open_engine(
    root: Path,
    *,
    environment: Mapping[str, str] = os.environ,
    log_file: Path | None = None,
    launch: Launcher = run_process,
    find_toolchain: FindToolchain = discover,
    history: Path | None = None,
    emulate: Emulate | None = None,
    render_workers: int | None = None,
) -> AsyncIterator[Daemon]:
    """The daemon for the workspace in the folder `root`, running until the context is left.

    Raises UntrustedError for a workspace whose code may not run here, and CkwatchError when there is no `ckwatch.toml`.
    Everything that opens an engine calls this: a daemon, a command with `--no-daemon`, a script. `launch` starts
    compilers, `find_toolchain` finds them, and `emulate` is the emulator; tests pass others. `render_workers` processes
    render at once, by default one per processor.
    """
    await to_thread.run_sync(require_trusted, root)
    with young_only():
        workers = render_workers or min(WORKERS, len(os.sched_getaffinity(0)))
        tools = BuildTools(environment, workers, launch, find_toolchain)
        state = State(renders=workers * RENDERS_PER_WORKER, units_at_once=UNITS_AT_ONCE, root=str(root))
        recorder = HistoryRecorder(history or database_path(root, environment), state)
        loop = EngineLoop(state)
        tools.on_shared_problem = partial(_report_shared, loop, current_token())
        parts: _Parts | None = None
        try:
            parts = _Parts(root, loop, tools, recorder, emulate or WorkerEmulator(tools, root))
            view_loader = parts.view_loader
            log.info("loading the workspace")
            await to_thread.run_sync(partial(view_loader.load, events.MAIN, {}, events.ViewOverrides()))
            log.info("reading the store and the history")
            if tools.store is not None:
                await to_thread.run_sync(tools.store.remove_leftovers)
            state.remembered = await recorder.open()
            state.recallable = recorder.has_results
            if recorder.timings is not None:
                state.remembered_timings = await to_thread.run_sync(
                    remembered_timings, view_loader.kernels(), recorder.timings
                )
            if recorder.artifacts is not None:
                names = [unit.id for kernel in view_loader.kernels() for unit in kernel.units]
                state.remembered_figures = await to_thread.run_sync(remembered_figures, names, recorder.artifacts)
            await recorder.note_start(os.getpid(), __version__)
            daemon = parts.daemon(log_file)
            async with plain_errors(), anyio.create_task_group() as tasks:
                tasks.start_soon(loop.run, parts.handlers)
                tasks.start_soon(collect_when_idle, lambda: state.busy)
                tasks.start_soon(_clean_store, loop, parts.compiles, tools)
                tasks.start_soon(_rest, loop, tools, recorder, daemon.snapshots, parts.renders.text_cache)
                tasks.start_soon(parts.background_pch.run)
                tasks.start_soon(parts.measure.end_idle_races)
                tasks.start_soon(parts.cpp.run)
                tasks.start_soon(parts.farm.run)
                tasks.start_soon(parts.webhook(root, environment).run, events.MAIN)
                log.info("beginning to watch files")
                await start_watching(tasks, root, loop, tools, view_loader)
                if recorder.problem is not None:
                    await loop.post(events.WarningChanged("history", recorder.problem))
                if (warning := priority_warning(niceness())) is not None:
                    await loop.post(events.WarningChanged("priority", warning))
                try:
                    yield daemon
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                if parts is not None:
                    await parts.measure.close()
                await tools.aclose()
                await recorder.close()


def _report_shared(loop: EngineLoop, token: EventLoopToken, problem: str | None) -> None:
    """Post an event from a worker thread, unless the daemon is stopping."""
    with suppress(RunFinishedError):
        from_thread.run(loop.post, events.WarningChanged("shared-store", problem), token=token)


class _Parts:
    """The handlers, in a table by the effects that they perform, and the queries."""

    def __init__(
        self, root: Path, loop: EngineLoop, tools: BuildTools, recorder: HistoryRecorder, emulate: Emulate
    ) -> None:
        state, post, threads, snapshot = loop.state, loop.post_soon, CapacityLimiter(4), RecentSnapshot()
        self._loop, self._tools, self._recorder = loop, tools, recorder
        self.view_loader = ViewLoader(root, tools, threads)
        self.renders = RenderHandler(tools, self.view_loader, threads)
        self._toolchains = OtherToolchains(tools, self.view_loader, self.renders, threads)
        self.background_pch = BackgroundPch(lambda: state.busy, lambda: state.jobs)
        common = (tools, self.view_loader, self.renders)
        self.farm = FarmLink(root, self.view_loader, tools, post)
        self.compiles = CompileHandler(*common, snapshot, self.background_pch, post, threads, self.farm)
        self._analyzer = ArtifactAnalyzer(ReportCache(tools), recorder)
        self.measure = MeasureRunner(root, self.view_loader, tools, recorder, self.farm)
        self.farm.on_devices = self.measure.farm_changed
        self.measure.on_devices = self._devices_found
        self._verify = VerifyRunner(state, self.view_loader, tools, emulate, self._place)
        self._side_work = SideWork()
        self._lookup = UnitLookup(loop)
        self.sent = SentUnitCache(loop)
        self._language = LanguageQueries(loop, self.view_loader, self.renders, self._lookup)
        self.cpp = CppQueries(
            root,
            endpoint_of(root).log.with_name("clangd"),
            *(loop, tools, self.view_loader, self.renders, self._lookup, self._language),
        )
        self._analyses = AnalysisQueries(loop, self._analyzer, recorder, self._lookup)
        self._listings: IsaListings | None = None
        self.handlers: Handlers = {
            Load: self.view_loader.run,
            Scan: ScanHandler(state, tools, snapshot, threads).run,
            Recall: RecallHandler(str(root), *common, recorder, threads).run,
            Render: self.renders.run,
            LookUp: self.compiles.look_up,
            Check: self.compiles.check,
            Compile: self.compiles.compile,
            Analyze: self._analyzer.analyze,
            Measure: self.measure.measure,
            Verify: self._verify.verify,
            Advise: AdviceFinder(state, *common, self._analyzer.reports, self._kernel_lines).advise,
            CheckWith: self._toolchains.run,
            Record: recorder.record,
        }
        loop.on_unit_removed = self.renders.text_cache.drop
        loop.on_files_changed = snapshot.reset  # or a look-up would take a header for what it was

    def webhook(self, root: Path, environment: Mapping[str, str]) -> Webhook:
        """Posts alerts."""

        def address() -> str:
            settings = self.view_loader.workspace(events.MAIN).settings.daemon
            return settings.webhook or environment.get(VARIABLE, "")

        async def warn(text: str | None) -> None:
            await self._loop.post(events.WarningChanged("webhook", text))

        unit, names = partial(self.sent.named, events.MAIN), partial(self._loop.state.members, events.MAIN)
        return Webhook(root.name, self._loop.feed, unit, address, warn, names)

    def daemon(self, log_file: Path | None) -> Daemon:
        """The queries and requests."""
        loop, tools, view_loader, renders = self._loop, self._tools, self.view_loader, self.renders
        lookup, sent, side_work = self._lookup, self.sent, self._side_work
        builds = FollowedBuilds(loop, tools, lookup, side_work, self.background_pch)
        requests = ClientRequests(loop, lookup, sent)
        benchmarks = FollowedBenchmarks(loop, builds, self.measure)
        on_devices = (self.measure, lookup, self._make_listings)
        device_profiles = DeviceProfileQueries(loop, tools, view_loader, renders, *on_devices)
        return Daemon(
            loop=loop,
            lookup=lookup,
            statuses=StatusQueries(
                *(loop, tools, view_loader, lookup, self.background_pch, log_file, self.farm),
                *(requests.__len__, builds.__len__),
            ),
            snapshots=SnapshotQueries(loop, lookup, sent),
            units=UnitQueries(loop, tools, view_loader, renders, self._recorder, self._verify, lookup),
            analyses=self._analyses,
            make_listings=self._make_listings,
            time_traces=TimeTraceQuery(loop, tools, view_loader, renders, lookup, side_work),
            builds=builds,
            requests=requests,
            benchmarks=BenchmarkQueries(loop, benchmarks, self.measure, self._recorder, lookup, tools),
            imported=ImportedTimingsQueries(loop, self._recorder, lookup),
            toolchain_builds=FollowedToolchainBuilds(loop, builds, view_loader),
            verifications=FollowedVerifications(loop, builds, self._verify),
            language=self._language,
            cpp=self.cpp,
            occupancy=OccupancyStepsQuery(self._language, self._analyses, lookup),
            profiles=ProfileQueries(
                loop, tools, self._recorder, lookup, self._verify, self._make_listings, device_profiles
            ),
            device_profiles=device_profiles,
            advice=AdviceQuery(loop, lookup),
            upgrades=UpgradeQuery(loop, tools, self._toolchains, self._verify, lookup, side_work),
        )

    async def _devices_found(self, devices: tuple[DeviceFacts, ...]) -> None:
        await self._loop.post(events.DevicesFound(devices))

    def _make_listings(self) -> IsaListings:
        """Blocks; call from a worker thread: its modules take a while to load."""
        from ckwatch.engine.queries.listings import IsaListings, SourceLines

        if self._listings is None:
            common = self._loop, self._tools, self.view_loader
            lines = SourceLines(*common, self.renders, self._side_work)
            self._listings = IsaListings(*common, self._analyses, lines)
        return self._listings

    async def _kernel_lines(self, unit: UnitState, symbol: str, *, awaited: bool) -> LinedKernel | None:
        listings = await to_thread.run_sync(self._make_listings)
        return await listings.kernel_lines(unit, symbol, awaited=awaited)

    async def _place(self, unit: UnitState, found: Verification) -> Verification:
        listings = await to_thread.run_sync(self._make_listings)
        return await listings.placed(unit, found)


def priority_warning(own_niceness: int) -> str | None:
    """Return the warning of a daemon of this niceness about its compilers, which cannot have less."""
    if own_niceness <= 0:
        return None
    return (
        f"the daemon was started with niceness {own_niceness}, which its compilers have too, also those that somebody "
        "waits for; `ckwatch restart` without `nice` ends this"
    )


async def _clean_store(loop: EngineLoop, compiles: CompileHandler, tools: BuildTools) -> None:
    """Now and then, when nothing runs and something has been compiled, keep the store within its size."""
    done = 0
    while True:
        await anyio.sleep(STORE_CLEANUP_S)
        if compiles.compiled != done and not loop.state.busy:
            done = compiles.compiled
            await tools.collect_garbage()


async def _rest(
    loop: EngineLoop, tools: BuildTools, recorder: HistoryRecorder, snapshots: SnapshotQueries, texts: TextCache
) -> None:
    """Keep little in memory while nothing happens."""
    was_busy = True
    while True:
        await anyio.sleep(REST_S)
        is_busy = loop.state.busy
        if was_busy and not is_busy:
            await tools.rest()
            await recorder.rest()
            snapshots.rest()
            texts.rest()
            await to_thread.run_sync(return_free_pages)
        was_busy = is_busy


def database_path(root: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The history of the workspace at `root`, beside the log of its daemon. Creates nothing."""
    return endpoint_of(root, environment).log.with_name(HISTORY_FILE_NAME)


def remembered_timings(
    kernels: Iterable[events.KernelUnits], timings: Timings
) -> dict[str, Mapping[str, events.ShapeTiming]]:
    """The newest of each unit and shape that is as it was. Blocks; call from a worker thread. Nothing when the history
    cannot be read."""
    found: dict[str, Mapping[str, events.ShapeTiming]] = {}
    try:
        for kernel in kernels:
            shapes = {shape.name: shape for shape in kernel.kernel.shapes}
            units = {unit.id: unit for unit in kernel.units}
            newest: dict[tuple[str, str], TimingRecord] = {}
            for record in timings.of_kernel(kernel.kernel.name) if shapes else ():
                known = newest.get((record.unit, record.shape))
                if record.unit in units and (known is None or known.id < record.id):
                    newest[record.unit, record.shape] = record
            for (unit, name), record in newest.items():
                shape = shapes.get(name)
                if shape is not None and _is_of_shape(record, shape):
                    found[unit] = {**found.get(unit, {}), name: _shape_timing(units[unit], shape, record)}
    except HistoryError:
        return {}  # opening the history has warned the user
    return found


def _is_of_shape(record: TimingRecord, shape: Shape) -> bool:
    return dict(record.sizes) == dict(shape.sizes) and dict(record.runtime) == dict(shape.runtime)


def _shape_timing(unit: Unit, shape: Shape, record: TimingRecord) -> events.ShapeTiming:
    rows = tuple(record_to_wire(record, record.artifact_key))
    wrong = () if record.failure is None else (failure_diagnostic(unit, shape, record.failure),)
    raced = record.report is not None and record.report.raced
    device = "" if record.device is None else record.device.address
    return events.ShapeTiming(shape.name, record.artifact_key, rows, wrong, raced=raced, device=device)


def remembered_figures(units: Iterable[str], artifacts: Artifacts) -> dict[str, events.ArtifactFigures]:
    """The last figures of each unit. Blocks; call from a worker thread. Nothing when the history cannot be read."""
    found: dict[str, events.ArtifactFigures] = {}
    try:
        for unit, (_, content) in artifacts.latest(units, form=code_version()).items():
            known = json.loads(content)
            warned = tuple(KernelWarning(**one) for one in known["warned"])
            changes = {name: tuple(known["shown"][name]) for name in ("changes", "baseline_changes")}
            found[unit] = events.ArtifactFigures(Figures(**{**known["shown"], **changes}), warned, known["need"])
    except (HistoryError, ValueError, KeyError, TypeError):
        return found  # the user is warned of a damaged history; figures are looked up again
    return found
