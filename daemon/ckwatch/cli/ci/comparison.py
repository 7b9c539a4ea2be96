"""The outcomes of affected units at the base and now, and the report of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from ckwatch.checks.fold import fold, in_one_line
from ckwatch.checks.verification_diagnostics import diagnostics_once
from ckwatch.cli.change_report import VERDICTS, what_changed
from ckwatch.cli.ci.affected import Affected
from ckwatch.cli.ci.report import CiUnit, Presence
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.text import Span
from ckwatch.wire.unit_changes import ChangeVerdict, UnitChange, UnitOutcome, unit_change

if TYPE_CHECKING:
    from ckwatch.engine.outcomes import BuiltUnit
    from ckwatch.engine.workspace_outcomes import WorkspaceOutcomes
    from ckwatch.model.kernels import Unit

FAIL_ON = (ChangeVerdict.BROKEN, ChangeVerdict.WRONG, ChangeVerdict.SPILLS)

ABSENT = UnitOutcome(outcome="absent")

OnProgress = Callable[[str], None]

NOTED = {ChangeVerdict.WORSE: Severity.WARNING, ChangeVerdict.UNKNOWN: Severity.WARNING}
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
        return found.model_copy(update={"problem": self.shown(found.problem), "errors": self.moved(found.errors)})

    def _span(self, span: Span) -> Span:
        return replace(span, path=self.shown(span.path))


@dataclass(eq=False)
class BothStates:
    """Builds both states of affected units. With `build` False they are checked without a compiler."""

    now: WorkspaceOutcomes
    base: WorkspaceOutcomes | None
    tree: BaseTree
    fail_on: Sequence[ChangeVerdict]
    build: bool = True
    verify: bool = True
    profile: bool = False

    async def compared(self, affected: Sequence[Affected], on_progress: OnProgress) -> list[CiUnit]:
        """The units with their verdicts, in the order of `affected`."""
        found: dict[int, CiUnit] = {}

        async def compare(at: int, one: Affected) -> None:
            found[at] = await self._compared(
                one, lambda stage: on_progress(f"{len(found)} of {len(affected)}  {stage}")
            )

        async with plain_errors(), anyio.create_task_group() as tasks:
            for at, one in enumerate(affected):
                tasks.start_soon(compare, at, one)
        return [found[at] for at in sorted(found)]

    async def _compared(self, one: Affected, on_stage: OnProgress) -> CiUnit:
        after, own = ABSENT, tuple[Diagnostic, ...]()
        if one.now is not None:
            after, own = await self._outcome(self.now, one.now, on_stage)
        before = after if one.is_same else ABSENT
        if one.before is not None and self.base is not None and not one.is_same:
            before, _ = await self._outcome(self.base, one.before, on_stage)
        if one.before is None and one.now is not None:
            before = _left_out(self.base, one.now, self.tree.root, self.tree.tree)
        if one.now is None and one.before is not None:
            after = _left_out(self.now, one.before, self.tree.tree, self.tree.root)
        was = one.before.id if one.before is not None and one.before.id != one.id else ""
        return self._unit(one, unit_change(one.id, self.tree.outcome(before), after, was=was), own)

    async def _outcome(
        self, side: WorkspaceOutcomes, unit: Unit, on_stage: OnProgress
    ) -> tuple[UnitOutcome, tuple[Diagnostic, ...]]:
        which = "" if side is self.now else " at the base"
        try:
            built: BuiltUnit = (
                await side.built(
                    unit,
                    verify=self.verify,
                    profile=self.profile,
                    on_stage=lambda text: on_stage(f"{unit.id}{which}  {text}"),
                )
                if self.build
                else await side.checked(unit)
            )
        except CkwatchError as error:
            return UnitOutcome(outcome="faulted", problem=str(error)), ()
        found = built.diagnostics
        verification = built.outcome.verification
        if verification is not None:
            found = (*found, *diagnostics_once(verification, unit.id, unit.instance.span))
        return built.outcome, found

    def _unit(self, one: Affected, change: UnitChange, own: tuple[Diagnostic, ...]) -> CiUnit:
        unit = one.now or one.before
        assert unit is not None  # noqa: S101  # it exists on one side
        place = unit.instance.span
        if one.now is None:
            place = replace(place, path=self.tree.shown(place.path))
        fails = change.verdict in self.fail_on
        diagnostics = tuple(found for found in own if found.severity in (Severity.ERROR, Severity.WARNING))
        severity = Severity.ERROR if fails else NOTED.get(change.verdict)
        said = change.after.errors or any(found.severity is Severity.ERROR for found in diagnostics)
        if severity is not None and not said:
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
