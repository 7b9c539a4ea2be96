"""The daemon as the server sees it: questions are answered from the state, requests become events.

Each question has its module in `queries`; this one only says which.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from anyio import to_thread

from ckwatch.core.events import (
    MAIN,
    AutoBuild,
    CancelRequested,
    ClientLost,
    FocusChanged,
    MeasureDropped,
    OptionsChanged,
    OverlayChanged,
    ViewOverrides,
)
from ckwatch.core.state import Phase, State, UnitState
from ckwatch.engine.background_pch import BackgroundPch
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.file_diagnostics import file_diagnostics, fold_diagnostics
from ckwatch.engine.handlers.analyze import ArtifactAnalyzer
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.measure import MeasureRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.memory import resident_bytes
from ckwatch.engine.queries.analysis import AnalysisQueries, of_arch
from ckwatch.engine.queries.benchmarks import BenchmarkQueries, FollowedBenchmarks
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.snapshot import LazySnapshot, SentUnitCache
from ckwatch.engine.queries.time_trace import TimeTraceQuery
from ckwatch.engine.queries.unit import artifact_to_wire, log_tail, rendered_to_wire, status_text, write_runner
from ckwatch.engine.to_wire import causes_to_wire, diagnostic_to_wire, span_to_wire, unit_to_wire, workspace_to_wire
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.kernels import Unit as ModelUnit
from ckwatch.model.unit_patterns import select_units, suggest_pattern
from ckwatch.model.version import __version__
from ckwatch.wire import state as wire
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, PredictedRanking
from ckwatch.wire.messages import Artifact, BuildLine, RenderedText, Run, Status, TimeTrace, UnitDetail, WorkspaceDetail

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings


class LazyListings:
    """Listings of artifacts."""

    def __init__(self, runtime: EngineLoop, tools: BuildTools, analyses: AnalysisQueries) -> None:
        self._from = runtime, tools, analyses
        self._listings: IsaListings | None = None

    async def of(self, unit: UnitState, name: str | None, *, lines: bool) -> Isa:
        """As `IsaListings.of`."""
        if self._listings is None:
            made = await to_thread.run_sync(self._load)
            self._listings = self._listings or made
        return await self._listings.of(unit, name, lines=lines)

    def _load(self) -> IsaListings:
        from ckwatch.engine.queries.listings import IsaListings

        return IsaListings(*self._from)


TOPICS_AT_ONCE = 200
"""Topics that one answer of `changes` holds at most: two milliseconds of work."""

CHANGES_DELAY_S = 0.01
"""Changes that follow one another within this time are told together."""


class DaemonApi:
    """Fits `ckwatch.server.engine_api.Engine`."""

    def __init__(
        self,
        runtime: EngineLoop,
        tools: BuildTools,
        memoirs: HistoryRecorder,
        measurements: MeasureRunner,
        precompiling: BackgroundPch,
        insights: ArtifactAnalyzer,
        log_file: Path | None,
    ) -> None:
        self._runtime = runtime
        self._tools = tools
        self._memoirs = memoirs
        self._precompiling = precompiling
        self._log_file = log_file
        self._builds = FollowedBuilds(runtime, tools)
        self._time_traces = TimeTraceQuery(runtime, tools)
        self._analyses = AnalysisQueries(runtime, insights)
        self._isas = LazyListings(runtime, tools, self._analyses)
        benches = FollowedBenchmarks(runtime, self._builds, measurements)
        self.benchmarks = BenchmarkQueries(runtime, benches, measurements, memoirs)
        self.language = LanguageQueries(runtime, tools)
        self._started_at = time.time()
        self._started = time.monotonic()
        self._sent = SentUnitCache(runtime)
        self._clients: set[str] = set()
        self._turns = anyio.Lock()
        self.stopping = anyio.Event()
        self.on_stop: Callable[[], None] = self.stopping.set

    @property
    def _state(self) -> State:
        return self._runtime.state

    async def status(self) -> Status:
        """What the daemon is and does."""
        state = self._state
        units = list(state.main.units.values())
        memory = await to_thread.run_sync(resident_bytes)
        workspace = self._runtime.workshop.loads.workspaces.get(MAIN)
        shown = workspace_to_wire(state, MAIN)
        compiler = self._tools.compiler
        return Status(
            version=__version__,
            pid=os.getpid(),
            root=state.root,
            started_at=self._started_at,
            uptime_s=time.monotonic() - self._started,
            seq=self._runtime.feed.seq,
            unit_count=len(units),
            phases=dict(Counter(unit.phase.value for unit in units)),
            outcomes=dict(Counter(unit.outcome.value for unit in units if unit.outcome is not None)),
            busy=state.busy or bool(len(self._builds)),
            precompiling=self._precompiling.pending,
            clients=len(self._clients),
            memory_bytes=memory,
            idle_exit_s=0.0 if workspace is None else workspace.settings.daemon.idle_exit_s,
            log_file=None if self._log_file is None else str(self._log_file),
            toolchain=None if compiler is None else compiler.toolchain.clang_version,
            warnings=shown.warnings,
        )

    async def snapshot(self, client: str | None) -> wire.Snapshot:
        """Everything, units as they are when they are asked for."""
        scope = client or MAIN
        seq = self._runtime.feed.seq
        states: dict[str, wire.Unit | wire.File | wire.Workspace] = {"workspace": workspace_to_wire(self._state, scope)}
        paths = {*self._runtime.diagnosed.paths(MAIN), *self._state.main.diagnostics}
        view = self._state.scopes.get(scope)
        if view is not None:
            paths |= {*self._runtime.diagnosed.paths(scope), *view.diagnostics}
        for path in sorted(paths):
            states[f"file/{path}"] = await self.file(client, path)
        # What changes until they are asked for comes again as a change after `seq`.
        units = LazySnapshot(states, self._state.members(scope), partial(self._sent.named, scope))
        return wire.Snapshot.model_construct(seq=seq, states=units)  # type: ignore[arg-type]  # sent item by item

    async def changes(self, client: str | None, after: int) -> list[wire.Change]:
        """As the protocol says."""
        feed, scope = self._runtime.feed, client or MAIN
        if not feed.is_known(after):
            return [wire.Change(seq=feed.seq, topic="reset")]
        found = feed.after(scope, after, TOPICS_AT_ONCE)
        if not found:
            while not found:
                # What changes may be other clients' views only.
                await feed.wait(feed.seq)
                found = feed.after(scope, after, TOPICS_AT_ONCE)
            await anyio.sleep(CHANGES_DELAY_S)
        async with self._turns:  # fifty followers that wake up together take turns on the event loop
            await anyio.lowlevel.checkpoint()
            found = feed.after(scope, after, TOPICS_AT_ONCE)
            changes = []
            for seq, topic in found:
                state = await self._topic(scope, topic)
                changes.append(wire.Change.model_construct(seq=seq, topic=topic, state=state))
        return changes

    async def workspace(self, client: str | None) -> WorkspaceDetail:
        """The workspace itself."""
        await self._loaded()
        scope = client or MAIN
        view = self._state.scopes.get(scope, self._state.main)
        loaded = view.workspace or self._state.main.workspace
        found = self._runtime.workshop.loads.workspace(scope)
        compiler = self._tools.compiler
        return WorkspaceDetail(
            root=self._state.root,
            problem=view.problem,
            diagnostics=()
            if loaded is None
            else tuple(diagnostic_to_wire(one, stale=False) for one in loaded.diagnostics),
            files=found.files,
            template_folders=tuple(str(folder) for folder in found.template_folders),
            toolchain=None if compiler is None else compiler.toolchain.clang_version,
            toolchain_problem=None if loaded is None else loaded.toolchain_problem,
        )

    async def runner(self, client: str | None, unit: str, path: str) -> None:
        """As the protocol says. Raises CkwatchError for a unit that has no runner, or was not built."""
        state = await self._one(client or MAIN, unit)
        artifact = await to_thread.run_sync(artifact_to_wire, state, self._tools)
        compiler = self._tools.compiler
        if artifact is None or artifact.outcome != "built" or compiler is None:
            raise CkwatchError(f"'{unit}' has not been built", "build it first")
        workspace = self._runtime.workshop.loads.workspace(state.key.scope)
        renderers = self._tools.renderers(workspace.template_folders)
        await write_runner(state.unit, artifact, renderers, compiler.toolchain, Path(path))

    async def time_trace(self, client: str | None, unit: str, path: str | None) -> TimeTrace:
        """As the protocol says. Raises UnknownUnitError, CkwatchError and ToolchainError."""
        state = await self._one(client or MAIN, unit)
        return await self._time_traces.trace(state, None if path is None else Path(path))

    async def analysis(self, client: str | None, unit: str) -> Analysis:
        """What the unit's code object tells. Raises UnknownUnitError, and CkwatchError where there is none."""
        return await self._analyses.of(await self._one(client or MAIN, unit))

    async def isa(self, client: str | None, unit: str, symbol: str | None, *, lines: bool) -> Isa:
        """The disassembly of a kernel of the unit. Raises UnknownUnitError, and CkwatchError where there is none."""
        return await self._isas.of(await self._one(client or MAIN, unit), symbol, lines=lines)

    async def calibration(self) -> Calibrated:
        """How far predictions were off."""
        await self._loaded()
        units = list(self._state.main.units.values())
        return await self._analyses.calibration(units, self._memoirs.timings)

    async def predicted(self, kernel: str, shape: str, arch: str | None, part: str) -> PredictedRanking:
        """A kernel's instances by predicted time. Raises UnknownUnitError and CkwatchError."""
        await self._loaded()
        units = [unit for unit in self._state.main.units.values() if unit.unit.kernel.name == kernel]
        if not units:
            raise await self._unknown(MAIN, kernel)
        mine = of_arch(units, arch or units[0].unit.arch)
        while any(unit.phase in (Phase.WAITING, Phase.RENDERING, Phase.LOOKING) for unit in mine):
            await self._runtime.feed.wait(self._runtime.feed.seq)
        return await self._analyses.ranked(kernel, mine, shape, part)

    async def units(self, client: str | None, patterns: Sequence[str] | None) -> list[wire.Unit]:
        """Raises UnknownUnitError for a pattern that means none."""
        await self._loaded()
        scope = client or MAIN
        found = []
        for count, name in enumerate(await self._names(scope, patterns)):
            unit = self._state.seen(scope, name)
            if unit is not None:
                found.append(self._sent.of(scope, unit))
            if count % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
        return found

    async def unit(self, client: str | None, unit: str) -> UnitDetail:
        """All about one unit. Raises UnknownUnitError."""
        state = await self._one(client or MAIN, unit)
        render = state.render
        instance = state.unit.instance
        workspace = self._state.scopes[state.key.scope].workspace or self._state.main.workspace
        reason = None if workspace is None else workspace.toolchain_problem
        commands, memory = await to_thread.run_sync(self._commands, state)
        return UnitDetail(
            unit=unit_to_wire(state),
            parameters=dict(instance.parameters),
            parameter_places={name: span_to_wire(span) for name, span in instance.spans.items()},
            template=state.unit.kernel.template,
            reads={} if render is None else dict(render.reads),
            missed=() if render is None else tuple(sorted(render.missed)),
            headers=self._state.graph.header_count(state.key),
            token_key=None if render is None else render.tokens or None,
            standing=status_text(state, reason),
            cause=causes_to_wire(state.cause),
            diagnostics=tuple(diagnostic_to_wire(one, stale=not state.fresh) for one in state.diagnostics),
            command=commands,
            peak_memory_bytes=memory,
        )

    async def rendered(self, client: str | None, unit: str, *, with_map: bool) -> RenderedText:
        """The unit's text as it renders now. Raises UnknownUnitError."""
        state = await self._one(client or MAIN, unit)
        scope = self._state.scopes[state.key.scope]
        outcome = await self._runtime.workshop.outcome(state.key, state.unit, dict(scope.overlays), scope.options)
        return await to_thread.run_sync(rendered_to_wire, state.key.unit, outcome, with_map)

    async def artifact(self, client: str | None, unit: str) -> Artifact | None:
        """What the unit's last result left in the store; None when there is none. Raises UnknownUnitError."""
        state = await self._one(client or MAIN, unit)
        return await to_thread.run_sync(artifact_to_wire, state, self._tools)

    async def runs(self, unit: str, limit: int) -> list[Run]:
        """Past compiles. Raises UnknownUnitError and HistoryError."""
        runs = await self._memoirs.runs(unit, limit)
        if not runs:
            await self._one(MAIN, unit)
        return runs

    async def file(self, client: str | None, path: str) -> wire.File:
        """A file's diagnostics."""
        scope = client or MAIN
        inputs = file_diagnostics(self._state, self._runtime.diagnosed, scope, normal_path(path))
        seen = {name: self._state.seen(scope, name) for name in inputs[1]}
        generations = {name: unit.generation for name, unit in seen.items() if unit is not None}
        diagnostics = await to_thread.run_sync(fold_diagnostics, *inputs) if any(inputs[:3]) else ()
        return wire.File.model_construct(path=path, diagnostics=diagnostics, generations=generations)

    def build(
        self, client: str | None, patterns: Sequence[str] | None, *, force: bool, check_only: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[BuildLine]]:
        """As the protocol says."""
        return self._builds.build(client or MAIN, patterns, force=force, check_only=check_only)

    async def cancel(self, client: str | None, patterns: Sequence[str] | None) -> list[str]:
        """Stop compiling and timing; the units that were at it. Raises UnknownUnitError."""
        scope = client or MAIN
        units = [unit for name in await self._names(scope, patterns) if (unit := self._state.seen(scope, name))]
        stopped = [unit.key.unit for unit in units if not unit.settled]
        timed = [unit.key.unit for unit in units if unit.to_measure]
        await self._runtime.post(CancelRequested(scope, frozenset(stopped), at=time.time()))
        if timed:
            await self._runtime.post(MeasureDropped(tuple(timed), everything=True, at=time.time()))
        return list(dict.fromkeys([*stopped, *timed]))

    async def overlay(self, client: str, path: str, text: str | None) -> None:
        """Lend a text, or take it back."""
        self._clients.add(client)
        name = normal_path(path)
        digest = None if text is None else await to_thread.run_sync(_text_digest, text)
        await self._runtime.post(OverlayChanged(client, name, text, digest, at=time.time()))

    async def focus(
        self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool, unsaved: AutoBuild
    ) -> None:
        """What the client looks at. Raises UnknownUnitError, but not for the id of a unit, which may be gone."""
        self._clients.add(client)
        names: set[str] = set()
        if patterns:
            await self._loaded()
        for pattern in patterns:
            try:
                names.update(await self._names(client, [pattern]))
            except UnknownUnitError:
                if "@" not in pattern:
                    raise
        for file in files:
            path = normal_path(file)
            names |= {key.unit for key in self._state.graph.readers(path)}
            names |= {name for name, unit in self._state.members(client).items() if unit.kernel.path == path}
        await self._runtime.post(FocusChanged(client, frozenset(names), everything, unsaved, at=time.time()))

    async def view(self, client: str, options: ViewOverrides) -> None:
        """How the client's view differs."""
        self._clients.add(client)
        await self._runtime.post(OptionsChanged(client, options, at=time.time()))

    async def forget(self, client: str) -> None:
        """The client has gone."""
        self._clients.discard(client)
        await self._runtime.post(ClientLost(client, at=time.time()))
        self._runtime.feed.forget(client)
        self._sent.forget(client)

    async def log(self, lines: int) -> str:
        """The last lines of the daemon's log."""
        return await to_thread.run_sync(log_tail, self._log_file, lines)

    def stop(self) -> None:
        """End soon."""
        self.on_stop()

    async def _names(self, scope: str, patterns: Sequence[str] | None) -> list[str]:
        members = self._state.members(scope)
        names, unknown = select_units(members, patterns)
        if unknown is not None:
            raise await self._unknown(scope, unknown)
        return names

    async def _loaded(self) -> None:
        """Return when it is known which units there are."""
        main = self._state.main
        while not main.started and main.problem is None:
            await self._runtime.feed.wait(self._runtime.feed.seq)

    async def _one(self, scope: str, unit: str) -> UnitState:
        await self._loaded()
        found = self._state.seen(scope, unit)
        if found is None:
            raise await self._unknown(scope, unit)
        return found

    async def _unknown(self, scope: str, name: str) -> CkwatchError:
        units: list[ModelUnit] = list(self._state.members(scope).values())
        hint = await to_thread.run_sync(suggest_pattern, units, name)
        return UnknownUnitError(f"no kernel, instance or unit is called '{name}'", hint)

    async def _topic(self, scope: str, topic: str) -> wire.Unit | wire.File | wire.Workspace | None:
        kind, _, name = topic.partition("/")
        if kind == "unit":
            return self._sent.named(scope, name)
        if kind == "file":
            return await self.file(scope or None, name)
        return workspace_to_wire(self._state, scope)

    def _commands(self, state: UnitState) -> tuple[tuple[tuple[str, ...], ...], int]:
        artifact = artifact_to_wire(state, self._tools)
        memory = 0 if state.result is None else state.result.peak_memory_bytes
        return (() if artifact is None else artifact.commands), memory


def normal_path(path: str) -> str:
    """An absolute path without `..` and doubled slashes, by its letters alone."""
    return os.path.normpath(path)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
