"""Verifications that clients follow: units are built, then verified, and each is reported as soon as it is known."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio import CancelScope, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.core.events import MAIN, CompileFacts, VerifyDropped, VerifyRequested
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.verify import FINDING_LINES, VerifyRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.benchmarks import CHANGED, NOT_BUILT, REMOVED, SKIPPED
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.to_wire import unit_verification, verification_to_wire
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.kernels import Outcome
from ckwatch.model.trials import Trial
from ckwatch.model.unit_patterns import select_units
from ckwatch.verification.problems import trials_asked
from ckwatch.wire.verification import UnitVerification, VerifyLine


@dataclass(slots=True)
class _FollowedVerification:
    """One request. `trials`: by units, the only problems that are wanted, which the schedule knows nothing of, those of
    `asked` last; `pending`: the units that are not reported yet, with the numbers of the requests for them."""

    send: MemoryObjectSendStream[VerifyLine]
    force: bool
    scope: str
    trials: Mapping[str, Sequence[Trial]] | None = None
    pending: dict[str, int] = field(default_factory=dict)
    asked: str = ""
    begun: set[str] = field(default_factory=set)
    built: bool = False
    ended: bool = False

    def report(self, line: VerifyLine) -> None:
        """Send a line. There are no more than a few for each unit."""
        if not self.ended:
            self.send.send_nowait(line)

    def end_if_complete(self) -> None:
        """Report the end, once."""
        if self.built and not self.pending and not self.ended:
            self.report(VerifyLine(event="done"))
            self.ended = True
            self.send.close()


class FollowedVerifications:
    """Fits `ckwatch.server.engine_api.VerificationEngine`: the verifications that are followed now."""

    def __init__(self, loop: EngineLoop, builds: FollowedBuilds, runner: VerifyRunner) -> None:
        self._loop = loop
        self._builds = builds
        self._numbers = itertools.count(1)
        self._followed: list[_FollowedVerification] = []
        self._runner = runner
        runner.on_stage = self._stage

    @asynccontextmanager
    async def verify(
        self,
        patterns: Sequence[str] | None,
        *,
        shapes: Sequence[str] = (),
        force: bool = False,
        client: str | None = None,
    ) -> AsyncIterator[AsyncIterator[VerifyLine]]:
        """The lines of a verification; leaving the context before `done` cancels what nothing else wants. `shapes`: as
        `trials_asked`; none: all problems.

        Raises UnknownUnitError when a pattern means no unit, CkwatchError for a shape that means none.
        """
        scope = client or MAIN
        async with self._builds.build(client, patterns, force=False, check_only=False) as lines:
            names, _ = select_units(self._loop.state.members(scope), None if patterns is None else tuple(patterns))
            trials = None
            if shapes:
                seen = [self._loop.state.seen(scope, name) for name in names]
                trials = await to_thread.run_sync(trials_asked, [one.unit for one in seen if one is not None], shapes)
            send, receive = anyio.create_memory_object_stream[VerifyLine](float("inf"))
            one = _FollowedVerification(send, force, scope, trials)
            self._followed.append(one)
            one.report(VerifyLine(event="start", units=len(names)))
            try:
                async with plain_errors(), anyio.create_task_group() as tasks:

                    async def build() -> None:
                        async for line in lines:
                            if line.event == "unit" and line.id is not None:
                                await self._built(one, line.id, line.problem)
                        one.built = True
                        one.end_if_complete()

                    tasks.start_soon(build)
                    tasks.start_soon(self._watch, one)
                    yield receive
                    tasks.cancel_scope.cancel()
            finally:
                self._followed.remove(one)
                send.close()
                receive.close()
                if one.pending:
                    with CancelScope(shield=True):
                        await self._loop.post(VerifyDropped(tuple(one.pending), scope=scope, at=time.time()))

    async def _built(self, one: _FollowedVerification, name: str, problem: str | None) -> None:
        unit = self._loop.state.seen(one.scope, name)
        if unit is None or problem is not None or unit.built is None:
            outcome = "removed" if unit is None else unit.outcome or Outcome.CHECKED
            text = problem or (SKIPPED if outcome is Outcome.SKIPPED else NOT_BUILT)
            self._report(one, name, text, outcome=str(outcome))
            return
        if one.trials is not None:
            await self._verify_trials(one, unit, unit.built, one.trials.get(name, ()))
            return
        one.pending[name] = number = next(self._numbers)
        await self._loop.post(VerifyRequested(number, (name,), one.force, one.scope, at=time.time()))

    async def _verify_trials(
        self, one: _FollowedVerification, unit: UnitState, result: CompileFacts, trials: Sequence[Trial]
    ) -> None:
        one.asked = name = unit.unit.id
        try:
            found = await self._runner.verify_trials(unit, result, trials)
        except CkwatchError as error:
            self._report(one, name, str(error))
        else:
            told = unit_verification(name, result.artifact, found)
            one.report(VerifyLine(event="unit", unit=name, outcome="built", result=told))

    async def _watch(self, one: _FollowedVerification) -> None:
        """After each change, report what is done; until cancelled."""
        feed = self._loop.feed
        while True:
            seq = feed.seq
            for name, number in list(one.pending.items()):
                if self._loop.state.verify_requests >= number:
                    self._report_if_done(one, name)
            one.end_if_complete()
            await feed.wait(seq)

    def _report_if_done(self, one: _FollowedVerification, name: str) -> None:
        unit = self._loop.state.seen(one.scope, name)
        if unit is not None and unit.verification.request is not None:
            return
        del one.pending[name]
        found = None if unit is None else verification_to_wire(unit)
        if found is None:
            self._report(one, name, REMOVED if unit is None else _why_not(unit))
        else:
            known = name not in one.begun
            one.report(VerifyLine(event="unit", unit=name, outcome="built", known=known, result=found))

    def _report(self, one: _FollowedVerification, name: str, why: str, *, outcome: str = "built") -> None:
        """The unit is not verified."""
        result = UnitVerification(unit=name, outcome="not verified", summary=why)
        one.report(VerifyLine(event="unit", unit=name, text=why, outcome=outcome, result=result))

    def _stage(self, unit: str, stage: str) -> None:
        for one in self._followed:
            if unit not in one.pending and unit != one.asked:
                continue
            if unit not in one.begun and stage != FINDING_LINES:
                one.begun.add(unit)
                one.report(VerifyLine(event="began", unit=unit))
            one.report(VerifyLine(event="stage", unit=unit, text=stage))


def _why_not(unit: UnitState) -> str:
    return unit.verification.unverified_because or CHANGED
