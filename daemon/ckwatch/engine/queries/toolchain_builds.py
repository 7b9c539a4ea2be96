"""Builds and checks with several toolchains that clients follow: a unit is reported when all of them have had it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread

from ckwatch.checks.other_toolchains import with_other_toolchains
from ckwatch.core.events import CheckWithFacts, CheckWithRequested, WorkKind
from ckwatch.core.toolchain_schedule import has_other_toolchains
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.following import CHANGED, REMOVED, FollowedRequest, FollowedWork
from ckwatch.engine.to_wire import unit_to_wire, unit_toolchain
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.state import BuildLine

ALL = "all"


@dataclass(slots=True, kw_only=True)
class _FollowedToolchains(FollowedRequest[BuildLine]):
    """`toolchains` in the order in which they are reported."""

    toolchains: tuple[str, ...]
    build: bool


class FollowedToolchainBuilds(FollowedWork[_FollowedToolchains]):
    """The requests with toolchains that are followed now; those without are builds as ever."""

    kind = WorkKind.CHECK_WITH

    def __init__(self, loop: EngineLoop, builds: FollowedBuilds, view_loader: ViewLoader) -> None:
        super().__init__(loop, builds)
        self._view_loader = view_loader

    @asynccontextmanager
    async def build(
        self,
        scope: str,
        patterns: Sequence[str] | None,
        *,
        force: bool,
        check_only: bool,
        finish: bool = False,
        toolchains: Sequence[str] | None = None,
        lines: bool = False,
    ) -> AsyncIterator[AsyncIterator[BuildLine]]:
        """The lines of a build; with `toolchains` each unit is checked or built with these, too. Raises
        UnknownUnitError for a pattern that means no unit, ToolchainError for a name that means no toolchain."""
        names = await self._named(scope, toolchains) if toolchains else ()
        # What the workspace's own toolchain has built is found in the store, as that of any other.
        own = self._view_loader.toolchains.policy.main in names
        check_own = check_only or (bool(names) and not own)
        built = self._builds.build(scope, patterns, force=force, check_only=check_own, finish=finish, lines=lines)
        async with built as built_lines:
            if not names:
                yield built_lines
                return
            one = _FollowedToolchains(
                scope=scope,
                force=force,
                toolchains=names,
                build=not check_only,
                done=BuildLine(event="done", seq=self._loop.feed.newest(scope)),
            )
            start = await anext(aiter(built_lines))
            async with self._following(one, built_lines, start) as found:
                yield found

    async def _named(self, scope: str, toolchains: Sequence[str]) -> tuple[str, ...]:
        """The names that are meant, each once."""
        known, workspace = self._view_loader.toolchains, self._view_loader.workspace(scope)
        found: dict[str, None] = {}
        for name in toolchains:
            if name != ALL:
                await to_thread.run_sync(known.compiler, name, workspace)
                found[name] = None
                continue
            if not workspace.settings.toolchain.also:
                hint = 'Name more than one: `also = ["rocm-6.4"]` under [toolchain] of ckwatch.toml.'
                raise CkwatchError("there is no other toolchain than the workspace's own", hint)
            # One that is not there is an error of the workspace, which is reported besides.
            found |= dict.fromkeys((known.policy.main, *(one.name for one in known.policy.others)))
        return tuple(found)

    async def _built(self, one: _FollowedToolchains, name: str, problem: str | None) -> None:
        unit = self._loop.state.seen(one.scope, name)
        if unit is None or problem in (REMOVED, "cancelled") or not has_other_toolchains(unit):
            unwanted = problem if unit is None or has_other_toolchains(unit) else "CUDA has no other toolchains"
            one.report(BuildLine(event="unit", id=name, problem=unwanted or REMOVED))
            return
        one.pending[name] = number = next(self._numbers)
        await self._loop.post(CheckWithRequested(number, (name,), one.toolchains, one.build, one.force, one.scope))

    def _report_done(self, one: _FollowedToolchains, name: str, number: int) -> None:
        if self._loop.state.check_requests < number:
            return
        unit = self._loop.state.seen(one.scope, name)
        if unit is not None and unit.toolchains.requested.keys() & set(one.toolchains):
            return
        del one.pending[name]
        found = {} if unit is None else {each: unit.toolchains.results.get(each) for each in one.toolchains}
        if unit is None or any(facts is None or not unit.holds(facts) for facts in found.values()):
            one.report(BuildLine(event="unit", id=name, problem=REMOVED if unit is None else CHANGED))
            return
        known = {each: facts for each, facts in found.items() if facts is not None}
        one.report(
            BuildLine(
                event="unit",
                id=name,
                unit=unit_to_wire(unit),
                diagnostics=with_other_toolchains((), None, {each: _errors(unit, known[each]) for each in known}),
                toolchains=tuple(unit_toolchain(unit, facts, checked=not one.build) for facts in known.values()),
            )
        )


def _errors(unit: UnitState, facts: CheckWithFacts) -> tuple[Diagnostic, ...]:
    """The errors with a toolchain; why there is no result is one."""
    if not facts.problem:
        return facts.diagnostics
    place = unit.unit.instance.span
    return (Diagnostic(Severity.ERROR, Source.HOST, "host/toolchain", facts.problem, place, units=(unit.key.unit,)),)
