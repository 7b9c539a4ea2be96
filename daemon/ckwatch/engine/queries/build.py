"""Builds that somebody follows: each settled unit becomes a line of the answer."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio import CancelScope, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.core.effects import Notify
from ckwatch.core.events import ArtifactsLost, BuildRequested, CompileFacts, RequestDropped
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compile import ArtifactFiles
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.to_wire import diagnostic_to_wire, unit_to_wire
from ckwatch.model.errors import UnknownUnitError
from ckwatch.model.unit_patterns import select_units, suggest_pattern
from ckwatch.wire.messages import BuildLine


class _FollowedBuild:
    """One request. Its lines are no more than its units."""

    def __init__(self, scope: str, check_only: bool, send: MemoryObjectSendStream[BuildLine]) -> None:
        self.scope = scope
        self.check_only = check_only
        self.send = send
        self.started = False
        self.resolved = anyio.Event()
        self.unknown: str | None = None


class FollowedBuilds:
    """The builds that are followed now."""

    def __init__(self, runtime: EngineLoop, tools: BuildTools) -> None:
        self._runtime = runtime
        self._tools = tools
        self._numbers = itertools.count(1)
        self._buildings: dict[str, _FollowedBuild] = {}
        runtime.on_stepped = self._stepped

    def __len__(self) -> int:
        return len(self._buildings)

    @asynccontextmanager
    async def build(
        self, scope: str, patterns: Sequence[str] | None, *, force: bool, check_only: bool
    ) -> AsyncIterator[AsyncIterator[BuildLine]]:
        """The lines of a build, once it is known which units it means.

        Raises UnknownUnitError when a pattern means none.
        """
        if not check_only:
            await self._note_lost(scope, patterns)
        name = f"build-{next(self._numbers)}"
        send, receive = anyio.create_memory_object_stream[BuildLine](float("inf"))
        building = self._buildings[name] = _FollowedBuild(scope, check_only, send)
        asked = None if patterns is None else tuple(patterns)
        try:
            await self._runtime.post(BuildRequested(name, scope, asked, force, check_only, at=time.time()))
            await building.resolved.wait()
            if building.unknown is not None:
                units = list(self._runtime.state.members(scope).values())
                hint = await to_thread.run_sync(suggest_pattern, units, building.unknown)
                raise UnknownUnitError(f"no kernel, instance or unit is called '{building.unknown}'", hint)
            yield receive
        finally:
            if self._buildings.pop(name, None) is not None:
                with CancelScope(shield=True):
                    await self._runtime.post(RequestDropped(name, at=time.time()))
            send.close()
            receive.close()

    async def _note_lost(self, scope: str, patterns: Sequence[str] | None) -> None:
        """Look whether the store still has what is said to be built."""
        state = self._runtime.state
        names, _ = select_units(state.members(scope), None if patterns is None else tuple(patterns))
        results = [unit.result for name in names if (unit := state.seen(scope, name)) is not None and unit.fresh]
        found = [one for one in results if one is not None and isinstance(one.products, ArtifactFiles)]
        store = self._tools.store
        if found and store is not None:
            lost = await to_thread.run_sync(_lost_artifacts, found, store)
            if lost:
                await self._runtime.post(ArtifactsLost(lost, at=time.time()))

    def _stepped(self, tells: Sequence[Notify]) -> None:
        """After each step: what it told, and builds whose units have become known by it."""
        if not self._buildings:
            return
        state = self._runtime.state
        for name, building in self._buildings.items():
            request = state.requests.get(name)
            told = [tell.unit for tell in tells if tell.request == name and tell.unit is not None]
            over = any(tell.request == name and tell.unit is None and tell.problem is None for tell in tells)
            if not building.started and (told or over or (request is not None and request.pending is not None)):
                building.started = True
                building.resolved.set()
                names = {*told, *((request.pending or ()) if request is not None else ())}
                units = tuple(unit for unit in state.members(building.scope) if unit in names)
                building.send.send_nowait(BuildLine(event="start", units=units))
        for tell in tells:
            self._tell(tell)

    def _tell(self, tell: Notify) -> None:
        building = self._buildings.get(tell.request)
        if building is None:
            return
        if tell.unit is None:
            del self._buildings[tell.request]
            building.unknown = tell.problem
            building.resolved.set()
            if tell.problem is None:
                building.send.send_nowait(BuildLine(event="done"))
            building.send.close()
            return
        unit = self._runtime.state.seen(building.scope, tell.unit)
        diagnostics = () if unit is None else unit.diagnostics
        if building.check_only and unit is not None:
            diagnostics = () if unit.render is None else unit.render.diagnostics
        line = BuildLine(
            event="unit",
            id=tell.unit,
            unit=None if unit is None else unit_to_wire(unit),
            problem=tell.problem,
            diagnostics=tuple(diagnostic_to_wire(diagnostic, stale=False) for diagnostic in diagnostics),
        )
        building.send.send_nowait(line)


def _lost_artifacts(results: Sequence[CompileFacts], store: ArtifactStore) -> frozenset[str]:  # for a thread
    """The artifacts that the store does not have as they were stored."""
    lost = set()
    for result in results:
        key, _, headers = result.artifact.partition(".")
        untouched = isinstance(result.products, ArtifactFiles) and result.products.untouched()
        if not untouched and store.entry(key, headers) is None:
            lost.add(result.artifact)
    return frozenset(lost)
