"""Verifications that clients follow: units are built, then verified, and each is reported as soon as it is known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread

from ckwatch.core.events import MAIN, CompileFacts, VerifyRequested, WorkKind
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.verify import FINDING_LINES, VerifyRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.following import CHANGED, NOT_BUILT, REMOVED, SKIPPED, FollowedRequest, FollowedWork
from ckwatch.engine.to_wire import unit_verification, verification_to_wire
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.trials import Trial
from ckwatch.verification.judging import judged_trials
from ckwatch.verification.problems import trials_asked
from ckwatch.wire.verification import UnitVerification, VerifyLine


@dataclass(slots=True, kw_only=True)
class _FollowedVerification(FollowedRequest[VerifyLine]):
    """`trials`: by units, the only problems that are wanted, which the schedule knows nothing of, those of `asked`
    last; `reference`: the unit that they are judged by."""

    trials: Mapping[str, Sequence[Trial]] | None
    reference: Unit | None = None
    asked: str = ""


class FollowedVerifications(FollowedWork[_FollowedVerification]):
    """Verifications by an emulator: the verifications that are followed now."""

    kind = WorkKind.VERIFY

    def __init__(self, loop: EngineLoop, builds: FollowedBuilds, runner: VerifyRunner) -> None:
        super().__init__(loop, builds)
        self._runner = runner
        runner.on_stage = self._stage

    @asynccontextmanager
    async def verify(
        self,
        patterns: Sequence[str] | None,
        *,
        shapes: Sequence[str] = (),
        force: bool = False,
        against: str | None = None,
        seed: int | None = None,
        scope: str = MAIN,
    ) -> AsyncIterator[AsyncIterator[VerifyLine]]:
        """The lines of a verification; leaving the context before `done` cancels what nothing else wants. `shapes`: as
        `trials_asked`; none: all problems. `against`, `seed`: as of `judged_trials`. Raises UnknownUnitError when a
        pattern means no unit, CkwatchError for a shape that means none, and as `subject_of`."""
        async with self._builds.build(scope, patterns, force=False, check_only=False) as lines:
            trials, reference = None, None
            units = [seen.unit for seen in self._loop.state.meant(scope, patterns)]
            if against is not None:
                reference = next((one for one in units if one.id == against), None)
                if reference is None:
                    raise CkwatchError(f"'{against}' is not among the units that are verified", "name it among them")
                if shapes:
                    raise CkwatchError("a judge draws shapes by itself", "leave out the shapes, or `against`")
                trials = await to_thread.run_sync(judged_trials, units, reference, seed)
            elif shapes:
                trials = await to_thread.run_sync(trials_asked, units, shapes)
            done = VerifyLine(event="done")
            one = _FollowedVerification(scope=scope, force=force, done=done, trials=trials, reference=reference)
            async with self._following(one, lines, VerifyLine(event="start", units=len(units))) as found:
                yield found

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
        await self._loop.post(VerifyRequested(number, (name,), one.force, one.scope))

    async def _verify_trials(
        self, one: _FollowedVerification, unit: UnitState, result: CompileFacts, trials: Sequence[Trial]
    ) -> None:
        one.asked = name = unit.unit.id
        try:
            reference = None if one.reference is None or one.reference.id == name else one.reference
            found = await self._runner.verify_trials(unit, result, trials, reference)
        except CkwatchError as error:
            self._report(one, name, str(error))
        else:
            unit_result = unit_verification(name, result.artifact, found)
            one.report(VerifyLine(event="unit", unit=name, outcome="built", result=unit_result))

    def _report_done(self, one: _FollowedVerification, name: str, number: int) -> None:
        if self._loop.state.verify_requests < number:
            return
        unit = self._loop.state.seen(one.scope, name)
        if unit is not None and unit.verification.request is not None:
            return
        del one.pending[name]
        found = None if unit is None else verification_to_wire(unit)
        if found is None:
            self._report(one, name, REMOVED if unit is None else unit.verification.unverified_because or CHANGED)
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
