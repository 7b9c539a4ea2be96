"""The outcomes of affected units at the base and now, and the report of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ckwatch.checks.fold import fold, in_one_line
from ckwatch.checks.verification_diagnostics import diagnostics_once
from ckwatch.cli.change_report import VERDICTS, what_changed
from ckwatch.cli.ci.affected import Affected
from ckwatch.cli.ci.report import CiUnit, Presence
from ckwatch.engine.outcomes import BuiltState, BuiltUnit
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.wire.unit_changes import ChangeVerdict, TimedChanges, UnitChange, UnitOutcome, unit_change

if TYPE_CHECKING:
    from ckwatch.engine.workspace_outcomes import WorkspaceOutcomes
    from ckwatch.model.kernels import Unit

FAIL_ON = (ChangeVerdict.BROKEN, ChangeVerdict.WRONG, ChangeVerdict.SPILLS)

ABSENT = UnitOutcome(outcome="absent")

OnProgress = Callable[[str], None]

NOTED = dict.fromkeys((ChangeVerdict.SLOWER, ChangeVerdict.WORSE, ChangeVerdict.UNKNOWN), Severity.WARNING)
"""Severities of verdicts that do not fail the run and are shown at a place."""

SOURCES = {ChangeVerdict.WRONG: Source.VERIFY, ChangeVerdict.UNKNOWN: Source.HOST, ChangeVerdict.BROKEN: Source.HOST}


@dataclass(frozen=True, slots=True)
class BaseTree:
    """The tree of the base in the folder `tree`, which is that of the repository `root` in what is shown."""

    tree: str
    root: str

    def shown(self, text: str) -> str:
        """A text with paths of the work tree."""
        return text.replace(self.tree, self.root)

    def moved(self, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """The diagnostics at places of the work tree."""
        return tuple(
            replace(
                one,
                message=self.shown(one.message),
                span=self._span(one.span),
                related=tuple(
                    Related(self.shown(link.message), link.span and self._span(link.span)) for link in one.related
                ),
            )
            for one in found
        )

    def outcome(self, found: UnitOutcome) -> UnitOutcome:
        """The outcome of a unit of the base, with places of the work tree."""
        if not found.problem and not found.errors:
            return found
        return replace(found, problem=self.shown(found.problem), errors=self.moved(found.errors))

    def _span(self, span: Span) -> Span:
        return replace(span, path=self.shown(span.path))


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """Both states of a unit, and the diagnostics of its present one."""

    before: UnitOutcome
    after: UnitOutcome
    own: tuple[Diagnostic, ...]
    states: tuple[BuiltState, BuiltState] | None = None
    """Those before and now, where both are to be timed."""


@dataclass(eq=False)
class BothStates:
    """Builds both states of affected units. With `build` False they are checked without a compiler; with `bench` those
    that are right are timed when all are built, on `device` where it is given."""

    now: WorkspaceOutcomes
    base: WorkspaceOutcomes | None
    tree: BaseTree
    fail_on: Sequence[ChangeVerdict]
    build: bool = True
    verify: bool = True
    profile: bool = False
    bench: bool = True
    device: str | None = None

    async def compared(self, affected: Sequence[Affected], on_progress: OnProgress) -> list[CiUnit]:
        """The units with their verdicts, in the order of `affected`."""
        found: dict[int, _Outcomes] = {}

        async def build(at: int, one: Affected) -> None:
            found[at] = await self._outcomes(
                one, lambda stage: on_progress(f"{len(found)} of {len(affected)}  {stage}")
            )

        async with plain_errors(), anyio.create_task_group() as tasks:
            for at, one in enumerate(affected):
                tasks.start_soon(build, at, one)
        timed = await self._timed(found, on_progress)
        return [self._unit(affected[at], found[at], timed.get(at)) for at in sorted(found)]

    async def _outcomes(self, one: Affected, on_stage: OnProgress) -> _Outcomes:
        after, before = BuiltUnit(ABSENT), BuiltUnit(ABSENT)
        if one.now is not None:
            after = await self._outcome(self.now, one.now, on_stage)
        if one.is_same:
            before = after
        elif one.before is not None and self.base is not None:
            before = await self._outcome(self.base, one.before, on_stage)
        elif one.before is None and one.now is not None:
            before = BuiltUnit(_left_out(self.base, one.now, self.tree.root, self.tree.tree))
        if one.now is None and one.before is not None:
            after = BuiltUnit(_left_out(self.now, one.before, self.tree.tree, self.tree.root))
        states = None
        if self.bench and not one.is_same:
            states = _both_right((one.before, before), (one.now, after))
        return _Outcomes(self.tree.outcome(before.outcome), after.outcome, after.diagnostics, states)

    async def _timed(self, found: Mapping[int, _Outcomes], on_progress: OnProgress) -> dict[int, TimedChanges]:
        """Timings of units, one after the other, when nothing else runs."""
        timed: dict[int, TimedChanges] = {}
        wanted = {at: one.states for at, one in sorted(found.items()) if one.states}
        timer = self.now.timer(self.device) if wanted else None
        for at, (before, after) in wanted.items():
            assert timer is not None  # noqa: S101  # there is one to be timed
            on_stage = partial(_timing, on_progress, after.unit.id)
            on_stage("")
            try:
                known = await timer.timed(before, after, on_stage)
            except CkwatchError as error:
                known = TimedChanges(why_not=str(error))
            if known is not None:
                timed[at] = known
        return timed

    async def _outcome(self, side: WorkspaceOutcomes, unit: Unit, on_stage: OnProgress) -> BuiltUnit:
        which = "" if side is self.now else " at the base"
        try:
            built = (
                await side.built(
                    unit,
                    verify=self.verify,
                    profile=self.profile,
                    on_stage=lambda text: on_stage(f"{unit.id}{which}  {text}"),
                )
                if self.build
                else await side.checked(unit)
            )
            if side is self.now:
                built = await side.placed(unit, built)
        except CkwatchError as error:
            return BuiltUnit(UnitOutcome(outcome="faulted", problem=str(error)))
        verification = built.outcome.verification
        if verification is None:
            return built
        found = diagnostics_once(verification, unit.id, unit.instance.span)
        return replace(built, diagnostics=(*built.diagnostics, *found))

    def _unit(self, one: Affected, found: _Outcomes, timed: TimedChanges | None) -> CiUnit:
        was = one.before.id if one.before is not None and one.before.id != one.id else ""
        change = unit_change(one.id, found.before, found.after, was=was, timed=timed)
        unit = one.now or one.before
        assert unit is not None  # noqa: S101  # it exists on one side
        place = unit.instance.span
        if one.now is None:
            place = replace(place, path=self.tree.shown(place.path))
        fails = change.verdict in self.fail_on
        diagnostics = tuple(one for one in found.own if one.severity in (Severity.ERROR, Severity.WARNING))
        severity = Severity.ERROR if fails else NOTED.get(change.verdict)
        reported = change.after.errors or any(one.severity is Severity.ERROR for one in diagnostics)
        if severity is not None and not reported:
            diagnostics = (*diagnostics, _at_unit(change, place, severity))
        presence: Presence = "kept"
        if one.now is None:
            presence = "removed"
        elif one.before is None:
            presence = "new" if change.verdict is not ChangeVerdict.FIXED else "kept"
        elif change.was:
            presence = "renamed"
        return CiUnit(
            id=one.id,
            place=place,
            presence=presence,
            change=change,
            because=tuple(sorted(path.removeprefix(f"{self.tree.root}/") for path in one.because)),
            diagnostics=diagnostics,
            fails=fails,
        )


def _timing(on_progress: OnProgress, unit: str, stage: str) -> None:
    on_progress(f"timing {unit}  {stage}")


def _both_right(
    *sides: tuple[Unit | None, BuiltUnit],
) -> tuple[BuiltState, BuiltState] | None:
    """Both states of a unit, if each was built and nothing is known to be wrong in it."""
    states = [
        BuiltState(unit, built.result)
        for unit, built in sides
        if unit is not None and built.result and built.outcome.outcome == "built" and not built.outcome.is_wrong
    ]
    return (states[0], states[1]) if len(states) == 2 else None


def untimed(units: Sequence[CiUnit]) -> list[str]:
    """Why units were not timed, each reason in a sentence with how many they are."""
    reasons = Counter(
        one.change.timed.why_not.partition("\n")[0]
        for one in units
        if one.change.timed is not None and one.change.timed.why_not
    )
    return [f"{count(number, 'unit')} not timed: {reason}" for reason, number in reasons.items()]


def _at_unit(change: UnitChange, place: Span, severity: Severity) -> Diagnostic:
    """The verdict as a diagnostic at the unit's instance."""
    words = "; ".join([VERDICTS[change.verdict][2], *what_changed(change)])
    source = SOURCES.get(change.verdict, Source.PERFORMANCE)
    return Diagnostic(severity, source, f"ci/{change.verdict}", words, place, units=(change.unit,), unit_count=1)


def _left_out(side: WorkspaceOutcomes | None, unit: Unit, here: str, there: str) -> UnitOutcome:
    """The outcome of a unit that a side does not have: mistakes in its kernel file or in `ckwatch.toml` may be why.
    `here` is the repository's folder of the unit, `there` that of the side."""
    if side is None:
        return ABSENT
    path = unit.kernel.path.replace(here, there, 1)
    errors = tuple(
        found
        for found in side.loaded.diagnostics
        if found.severity is Severity.ERROR and found.span.path in (path, f"{side.root}/ckwatch.toml")
    )
    return UnitOutcome(outcome="failed", problem=in_one_line(errors[0].message), errors=errors) if errors else ABSENT


def new_errors(now: WorkspaceOutcomes, base: WorkspaceOutcomes | None, tree: BaseTree) -> list[Diagnostic]:
    """The errors in `ckwatch.toml` and in kernel files that the base does not have."""
    known = tree.moved([] if base is None else base.loaded.diagnostics)
    old = {(one.span.path, one.code, one.message) for one in known}
    errors = [one for one in now.loaded.diagnostics if one.severity is Severity.ERROR]
    return [one for one in errors if (one.span.path, one.code, one.message) not in old]


def all_diagnostics(workspace: Sequence[Diagnostic], units: Sequence[CiUnit]) -> tuple[Diagnostic, ...]:
    """Those of the workspace's files, then those of units, equal ones joined."""
    own: Mapping[str, Sequence[Diagnostic]] = {one.id: one.diagnostics for one in units}
    return (*workspace, *fold(own, max(len(units), 1)))
