"""The daemon as the server sees it: questions are answered from the machine's state, wishes become events."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio import to_thread

from ckwatch import __version__
from ckwatch.errors import CkwatchError, UnknownUnitError
from ckwatch.events import (
    MAIN,
    CancelRequested,
    ClientLost,
    Focused,
    MeasureDropped,
    Options,
    OptionsChanged,
    OverlayChanged,
    Unasked,
)
from ckwatch.machine.state import Phase, State, UnitState
from ckwatch.model.kernel import Unit as ModelUnit
from ckwatch.model.selection import chosen, suggestion
from ckwatch.runtime.analyses import Analyses, of_arch
from ckwatch.runtime.benches import Benches
from ckwatch.runtime.builds import Builds
from ckwatch.runtime.insights import Insights
from ckwatch.runtime.isa import Isas
from ckwatch.runtime.language import LanguageAnswers
from ckwatch.runtime.measuring import Measurements
from ckwatch.runtime.memoirs import Memoirs
from ckwatch.runtime.memory import resident_bytes
from ckwatch.runtime.precompiling import Precompiling
from ckwatch.runtime.runners import write_runner
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.sent_units import SentUnits
from ckwatch.runtime.shown import causes_of, diagnostic_of, file_inputs, folded, span_of, unit_of, workspace_of
from ckwatch.runtime.states import States
from ckwatch.runtime.time_traces import TimeTraces
from ckwatch.runtime.timing_answers import TimingAnswers
from ckwatch.runtime.tools import Tools
from ckwatch.runtime.written import artifact_of, log_tail, rendered_of, standing_of
from ckwatch.wire import values as wire
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, PredictedRanking
from ckwatch.wire.messages import (
    Artifact,
    BuildLine,
    RenderedText,
    Run,
    Status,
    TimeTrace,
    UnitDetail,
    WorkspaceDetail,
)

AT_ONCE = 200
"""Topics that one answer of `changes` holds at most: two milliseconds of work."""

GATHERED_S = 0.01
"""Changes that follow one another within this time are told together."""


class Daemon:
    """Fits `ckwatch.serve.engine.Engine`."""

    def __init__(
        self,
        runtime: Runtime,
        tools: Tools,
        memoirs: Memoirs,
        measurements: Measurements,
        precompiling: Precompiling,
        insights: Insights,
        log_file: Path | None,
    ) -> None:
        self._runtime = runtime
        self._tools = tools
        self._memoirs = memoirs
        self._precompiling = precompiling
        self._log_file = log_file
        self._builds = Builds(runtime, tools)
        self._time_traces = TimeTraces(runtime, tools)
        self._analyses = Analyses(runtime, insights)
        self._isas = Isas(runtime, tools, self._analyses)
        benches = Benches(runtime, self._builds, measurements)
        self.benchmarks = TimingAnswers(runtime, benches, measurements, memoirs)
        self.language = LanguageAnswers(runtime, tools)
        self._started_at = time.time()
        self._started = time.monotonic()
        self._sent = SentUnits(runtime)
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
        shown = workspace_of(state, MAIN)
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
        states: dict[str, wire.Unit | wire.File | wire.Workspace] = {"workspace": workspace_of(self._state, scope)}
        paths = {*self._runtime.diagnosed.paths(MAIN), *self._state.main.diagnostics}
        view = self._state.scopes.get(scope)
        if view is not None:
            paths |= {*self._runtime.diagnosed.paths(scope), *view.diagnostics}
        for path in sorted(paths):
            states[f"file/{path}"] = await self.file(client, path)
        # What changes until they are asked for comes again as a change after `seq`.
        units = States(states, self._state.members(scope), partial(self._sent.named, scope))
        return wire.Snapshot.model_construct(seq=seq, states=units)  # type: ignore[arg-type]  # sent item by item

    async def changes(self, client: str | None, after: int) -> list[wire.Change]:
        """As the protocol says."""
        feed, scope = self._runtime.feed, client or MAIN
        if not feed.is_known(after):
            return [wire.Change(seq=feed.seq, topic="reset")]
        found = feed.after(scope, after, AT_ONCE)
        if not found:
            while not found:
                # What changes may be other clients' views only.
                await feed.wait(feed.seq)
                found = feed.after(scope, after, AT_ONCE)
            await anyio.sleep(GATHERED_S)
        async with self._turns:  # fifty followers that wake up together take turns on the event loop
            await anyio.lowlevel.checkpoint()
            found = feed.after(scope, after, AT_ONCE)
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
            diagnostics=() if loaded is None else tuple(diagnostic_of(one, stale=False) for one in loaded.diagnostics),
            files=found.files,
            template_folders=tuple(str(folder) for folder in found.template_folders),
            toolchain=None if compiler is None else compiler.toolchain.clang_version,
            toolchain_problem=None if loaded is None else loaded.toolchain_problem,
        )

    async def runner(self, client: str | None, unit: str, path: str) -> None:
        """As the protocol says. Raises CkwatchError for a unit that has no runner, or was not built."""
        state = await self._one(client or MAIN, unit)
        artifact = await to_thread.run_sync(artifact_of, state, self._tools)
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
            if count % AT_ONCE == AT_ONCE - 1:
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
            unit=unit_of(state),
            parameters=dict(instance.parameters),
            parameter_places={name: span_of(span) for name, span in instance.spans.items()},
            template=state.unit.kernel.template,
            reads={} if render is None else dict(render.reads),
            missed=() if render is None else tuple(sorted(render.missed)),
            headers=self._state.graph.header_count(state.key),
            token_key=None if render is None else render.tokens or None,
            standing=standing_of(state, reason),
            cause=causes_of(state.cause),
            diagnostics=tuple(diagnostic_of(one, stale=not state.fresh) for one in state.diagnostics),
            command=commands,
            peak_memory_bytes=memory,
        )

    async def rendered(self, client: str | None, unit: str, *, with_map: bool) -> RenderedText:
        """The unit's text as it renders now. Raises UnknownUnitError."""
        state = await self._one(client or MAIN, unit)
        scope = self._state.scopes[state.key.scope]
        outcome = await self._runtime.workshop.outcome(state.key, state.unit, dict(scope.overlays), scope.options)
        return await to_thread.run_sync(rendered_of, state.key.unit, outcome, with_map)

    async def artifact(self, client: str | None, unit: str) -> Artifact | None:
        """What the unit's last result left in the store; None when there is none. Raises UnknownUnitError."""
        state = await self._one(client or MAIN, unit)
        return await to_thread.run_sync(artifact_of, state, self._tools)

    async def runs(self, unit: str, limit: int) -> list[Run]:
        """Past compiles. Raises UnknownUnitError and HistoryError."""
        runs = await self._memoirs.runs(unit, limit)
        if not runs:
            await self._one(MAIN, unit)
        return runs

    async def file(self, client: str | None, path: str) -> wire.File:
        """A file's diagnostics."""
        scope = client or MAIN
        inputs = file_inputs(self._state, self._runtime.diagnosed, scope, normal(path))
        seen = {name: self._state.seen(scope, name) for name in inputs[1]}
        generations = {name: unit.generation for name, unit in seen.items() if unit is not None}
        diagnostics = await to_thread.run_sync(folded, *inputs) if any(inputs[:3]) else ()
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
        name = normal(path)
        digest = None if text is None else await to_thread.run_sync(_digest, text)
        await self._runtime.post(OverlayChanged(client, name, text, digest, at=time.time()))

    async def focus(
        self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool, unsaved: Unasked
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
            path = normal(file)
            names |= {key.unit for key in self._state.graph.readers(path)}
            names |= {name for name, unit in self._state.members(client).items() if unit.kernel.path == path}
        await self._runtime.post(Focused(client, frozenset(names), everything, unsaved, at=time.time()))

    async def view(self, client: str, options: Options) -> None:
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
        names, unknown = chosen(members, patterns)
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
        hint = await to_thread.run_sync(suggestion, units, name)
        return UnknownUnitError(f"no kernel, instance or unit is called '{name}'", hint)

    async def _topic(self, scope: str, topic: str) -> wire.Unit | wire.File | wire.Workspace | None:
        kind, _, name = topic.partition("/")
        if kind == "unit":
            return self._sent.named(scope, name)
        if kind == "file":
            return await self.file(scope or None, name)
        return workspace_of(self._state, scope)

    def _commands(self, state: UnitState) -> tuple[tuple[tuple[str, ...], ...], int]:
        artifact = artifact_of(state, self._tools)
        memory = 0 if state.result is None else state.result.peak_memory_bytes
        return (() if artifact is None else artifact.commands), memory


def normal(path: str) -> str:
    """An absolute path without `..` and doubled slashes, by its letters alone."""
    return os.path.normpath(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
