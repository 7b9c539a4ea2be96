"""Builds that clients follow: each settled unit becomes a line of the answer. Cancelling them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field

import anyio
from anyio import CancelScope, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.checks.other_toolchains import of_toolchain
from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.core.effects import Notify
from ckwatch.core.events import (
    MAIN,
    ArtifactsLost,
    BuildRequested,
    CancelRequested,
    CompileFacts,
    RequestDropped,
    WorkDropped,
    WorkKind,
)
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compile_facts import ArtifactFiles
from ckwatch.engine.handlers.derived_files import store_keys
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.side_work import SideWork
from ckwatch.engine.to_wire import unit_to_wire
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.unit_patterns import select_units
from ckwatch.wire.state import BuildLine


@dataclass(eq=False)
class _FollowedBuild:
    """One request. Its lines are no more than its units."""

    scope: str
    check_only: bool
    send: MemoryObjectSendStream[BuildLine]
    started: bool = field(default=False, init=False)
    resolved: anyio.Event = field(default_factory=anyio.Event, init=False)
    unknown: str | None = field(default=None, init=False)


@dataclass(eq=False)
class FollowedBuilds:
    """The builds that are followed now. `len` counts them."""

    _loop: EngineLoop
    _tools: BuildTools
    _lookup: UnitLookup
    _side_work: SideWork
    _background_pch: BackgroundPch
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1), init=False)
    _builds: dict[str, _FollowedBuild] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._loop.on_notify = self._notified

    def __len__(self) -> int:
        return len(self._builds)

    @asynccontextmanager
    async def build(
        self,
        scope: str,
        patterns: Sequence[str] | None,
        *,
        force: bool,
        check_only: bool,
        finish: bool = False,
        lines: bool = False,
    ) -> AsyncIterator[AsyncIterator[BuildLine]]:
        """The lines of a build, once it is known which units it means.

        With `finish` compilers that have begun go on when it is left; with `lines` they write line tables. Raises
        UnknownUnitError for a pattern that means none.
        """
        if not check_only:
            await self._report_lost(scope, patterns)
        name = f"build-{next(self._numbers)}"
        send, receive = anyio.create_memory_object_stream[BuildLine](float("inf"))
        build = self._builds[name] = _FollowedBuild(scope, check_only, send)
        asked = None if patterns is None else tuple(patterns)
        try:
            await self._loop.post(BuildRequested(name, scope, asked, force, check_only, finish, lines))
            await build.resolved.wait()
            if build.unknown is not None:
                raise await self._lookup.unknown(scope, build.unknown)
            yield receive
        finally:
            if self._builds.pop(name, None) is not None:
                with CancelScope(shield=True):
                    await self._loop.post(RequestDropped(name))
            send.close()
            receive.close()

    async def cancel(self, scope: str, patterns: Sequence[str] | None) -> list[str]:
        """Stop compiling, timing and verifying units, in a client's view, or with MAIN in every view; those that
        were stopped.

        Time traces, listings and, with MAIN, precompiled headers are compiled for units, too.

        Raises UnknownUnitError.
        """
        state = self._loop.state
        await self._lookup.loaded()
        names = await self._lookup.names(scope, patterns)
        seen = [unit for name in names if (unit := state.seen(scope, name))]
        dropped = {
            WorkKind.CHECK_WITH: [unit.key.unit for unit in seen if unit.toolchains.requested],
            WorkKind.MEASURE: [unit.key.unit for unit in seen if unit.timing.requested],
            WorkKind.VERIFY: [unit.key.unit for unit in seen if unit.verification.request],
        }
        stopped: dict[str, None] = {}
        scopes = [scope] if scope != MAIN else [MAIN, *(view.name for view in state.client_views)]
        meant = {unit.key: unit.unit for one in scopes for unit in state.meant(one, patterns)}
        for one in scopes:
            here = self._in_work(one, patterns)
            stopped |= dict.fromkeys(here)
            if here:
                await self._loop.post(CancelRequested(one, frozenset(here)))
        for kind, found in dropped.items():
            if found:
                await self._loop.post(WorkDropped(kind, tuple(found), everything=True, scope=scope))
        beside = self._side_work.cancel(meant.__contains__)
        if scope == MAIN:
            beside += self._background_pch.cancel({(unit.kernel.name, unit.arch) for unit in meant.values()})
        return list(stopped | dict.fromkeys([*itertools.chain(*dropped.values()), *beside]))

    def _in_work(self, scope: str, patterns: Sequence[str] | None) -> list[str]:
        """The units of a view that are being worked on, wait for it, or are about to be asked for."""
        state = self._loop.state
        members = state.members(scope)
        asked: set[str] = set()
        for request in state.requests.values():
            if request.scope == scope and not request.check_only and request.awaits_asking:
                unknown = request.pending is None
                asked.update(select_units(members, request.patterns)[0] if unknown else request.not_yet_asked)
        return [unit.key.unit for unit in state.meant(scope, patterns) if unit.key.unit in asked or not unit.settled]

    async def _report_lost(self, scope: str, patterns: Sequence[str] | None) -> None:
        """Report the results that the store no longer has."""
        results = [unit.compile.result for unit in self._loop.state.meant(scope, patterns) if unit.settled]
        found = [one for one in results if one is not None and isinstance(one.products, ArtifactFiles)]
        store = self._tools.store
        if found and store is not None:
            lost = await to_thread.run_sync(_lost_artifacts, found, store)
            if lost:
                await self._loop.post(ArtifactsLost(lost))

    def _notified(self, notifications: Sequence[Notify]) -> None:
        """After each step: send its notifications, and the units of builds that have become known."""
        if not self._builds:
            return
        state = self._loop.state
        for name, build in self._builds.items():
            request = state.requests.get(name)
            settled = [one.unit for one in notifications if one.request == name and one.unit is not None]
            over = any(one.request == name and one.unit is None and one.problem is None for one in notifications)
            if not build.started and (settled or over or (request is not None and request.pending is not None)):
                build.started = True
                build.resolved.set()
                names = {*settled, *((request.pending or ()) if request is not None else ())}
                units = tuple(unit for unit in state.members(build.scope) if unit in names)
                build.send.send_nowait(BuildLine(event="start", units=units))
        for notification in notifications:
            self._send(notification)

    def _send(self, notification: Notify) -> None:
        build = self._builds.get(notification.request)
        if build is None:
            return
        if notification.unit is None:
            del self._builds[notification.request]
            build.unknown = notification.problem
            build.resolved.set()
            if notification.problem is None:
                build.send.send_nowait(BuildLine(event="done", seq=self._loop.feed.newest(build.scope)))
            build.send.close()
            return
        unit = self._loop.state.seen(build.scope, notification.unit)
        main = self._loop.state.toolchains.main
        diagnostics = () if unit is None else of_toolchain(unit.diagnostics, main)
        if build.check_only and unit is not None and unit.render.facts is not None:
            diagnostics = (*unit.render.facts.diagnostics, *unit.advice_diagnostics)
        line = BuildLine(
            event="unit",
            id=notification.unit,
            unit=None if unit is None else unit_to_wire(unit),
            problem=notification.problem,
            diagnostics=diagnostics,
        )
        build.send.send_nowait(line)


def _lost_artifacts(results: Sequence[CompileFacts], store: ArtifactStore) -> frozenset[str]:
    """The artifacts that the store does not have as they were stored. Blocks; call from a worker thread."""
    lost = set()
    for result in results:
        untouched = isinstance(result.products, ArtifactFiles) and result.products.untouched()
        if not untouched and store.entry(*store_keys(result.artifact)) is None:
            lost.add(result.artifact)
    return frozenset(lost)
