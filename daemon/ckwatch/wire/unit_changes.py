"""Differences between two states of units: two toolchains, or two commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import exp, log
from statistics import fmean
from typing import Literal

from ckwatch.codeobject.report import CodeObjectReport, KernelReport, main_kernel
from ckwatch.codeobject.report_diff import FIGURES, FigureChange, compare_kernels
from ckwatch.model.amounts import change, digits, time_of
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.timings import VerdictName
from ckwatch.model.verification import Verification, VerificationOutcome
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.values import Value

PREDICTED_SAME = 0.01
"""Predicted times that differ by less count as equal."""

MEASURED = "time on "
"""Beginning of names of figures that were measured."""

DECISIVE = ("spilled", "scratch", "occupancy", "predicted time")
"""Beginnings of names of figures that make a unit worse or better. Others matter by what they do to these."""

COUNTED = {
    "instructions": "instructions",
    "cache_lines": "cache lines",
    "lds_turns": "LDS turns",
    "lds_conflicts": "LDS conflicts",
}
"""Counts of a launch that are compared, with their words."""

SUMMED = (
    *("VGPR", "AGPR", "SGPR", "spilled VGPR", "spilled SGPR", "scratch", "LDS", "occupancy", "code size"),
    "loop instructions",
)
"""Figures whose sums over units are reported."""


class ChangeVerdict(StrEnum):
    """The outcome of a change for a unit, the worst first."""

    BROKEN = "broken"
    WRONG = "wrong"
    SPILLS = "spills"
    SLOWER = "slower"
    WORSE = "worse"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    NEW = "new"
    REMOVED = "removed"
    FIXED = "fixed"
    BETTER = "better"
    SAME = "same"
    SKIPPED = "skipped"


CERTAIN = (ChangeVerdict.BROKEN, ChangeVerdict.WRONG, ChangeVerdict.SPILLS)
"""Verdicts that depend on no prediction."""


class CountedWork(Value):
    """The work of a launch on `shape`, as an emulator executed it: exact counts per workgroup, over all kernels.

    `instructions` of waves, `cache_lines` that requests of memory touch, `lds_turns` that accesses of LDS take, of
    which `lds_conflicts` would not be without bank conflicts.
    """

    shape: str
    instructions: float
    cache_lines: float
    lds_turns: float
    lds_conflicts: float


class UnitOutcome(Value):
    """A unit in one of the states. `outcome`: `absent` where there is no such unit, `checked` where no compiler was
    asked for. `problem`: why there is no artifact, or no answer to whether there is one, in a sentence; `errors` has
    the compiler's messages. `from_store`: the artifact was there before it was asked for. `verification` is None where
    `not_verified` says why. `counted`: where a profile was asked for, and an emulator executes it."""

    outcome: Literal["built", "failed", "skipped", "faulted", "checked", "absent"]
    problem: str = ""
    errors: tuple[Diagnostic, ...] = ()
    artifact_key: str = ""
    from_store: bool = False
    report: CodeObjectReport | None = None
    shapes: tuple[ShapePrediction, ...] = ()
    verification: Verification | None = None
    not_verified: str = ""
    counted: CountedWork | None = None

    @property
    def kernel(self) -> KernelReport | None:
        """The kernel that does the work."""
        return None if self.report is None else main_kernel(self.report)

    @property
    def spills(self) -> int:
        """Registers that are spilled, over all kernels."""
        kernels = () if self.report is None else self.report.kernels
        return sum(one.resources.vgpr_spills + one.resources.sgpr_spills for one in kernels)

    @property
    def is_verified(self) -> bool:
        """Return True if the emulator has found its results right."""
        return self.verification is not None and self.verification.outcome is VerificationOutcome.VERIFIED

    @property
    def is_wrong(self) -> bool:
        """Return True if the emulator has found a wrong result or a mistake."""
        return self.verification is not None and self.verification.outcome is VerificationOutcome.FAILED


class TimedChange(Value):
    """Both states in turns on one shape of a device, with one cache state: medians, how the new one is by the rules of
    `ckwatch bench`, and `ratio`, its time as a part of the old one's."""

    shape: str
    cache: str
    device: str
    verdict: VerdictName
    ratio: float
    before_us: float
    after_us: float


class TimedChanges(Value):
    """Timings of both states on a device. `failure`: the new state does not do there what it did before, in a sentence;
    `why_not`: why there are no `timings`, or not of all shapes."""

    timings: tuple[TimedChange, ...] = ()
    failure: str = ""
    why_not: str = ""


class UnitChange(Value):
    """A unit before and after. `reasons` for the verdict, as sentences; `figures` of the main kernel that read
    differently, predicted times and differences of measured ones among them; `rewrites`: what the unit's text has to
    say instead, where that is known. `was`: its name before, where that was another. `timed`: where timings were asked
    for, and both states are there and right."""

    unit: str
    verdict: ChangeVerdict
    reasons: tuple[str, ...]
    figures: tuple[FigureChange, ...]
    before: UnitOutcome
    after: UnitOutcome
    rewrites: tuple[str, ...] = ()
    was: str = ""
    timed: TimedChanges | None = None


class SummedFigure(Value):
    """A figure over all units that were built before and after: sums, and of how many units it grew or shrank."""

    name: str
    before: float
    after: float
    grew: int
    shrank: int


class ChangeSummary(Value):
    """All units: how many have which verdict, sums of figures and of verified units, and the geometric mean of
    predicted times after / before over all units and shapes; None where nothing is predicted."""

    verdicts: dict[ChangeVerdict, int]
    figures: tuple[SummedFigure, ...]
    predicted_ratio: float | None = None

    @property
    def is_certainly_worse(self) -> bool:
        """Return True if a unit became worse in a way that depends on no prediction."""
        return any(self.verdicts.get(one) for one in CERTAIN)


class UpgradeLine(Value):
    """A line of an upgrade's answer: `start`, `stage` of a unit, `unit` with what would change, `done` at the end.

    `units`: of `start` how many there are; `before` and `after` name the toolchains.
    """

    event: Literal["start", "stage", "unit", "done", "heartbeat"]
    units: int = 0
    before: str = ""
    after: str = ""
    unit: str | None = None
    text: str = ""
    change: UnitChange | None = None


def unit_change(
    unit: str,
    before: UnitOutcome,
    after: UnitOutcome,
    rewrites: Sequence[str] = (),
    *,
    was: str = "",
    timed: TimedChanges | None = None,
) -> UnitChange:
    """Compare two states of a unit."""
    figures = (*_measured(timed), *_figures(before, after))
    verdict, reasons = _verdict(before, after, figures, timed)
    return UnitChange(
        unit=unit,
        verdict=verdict,
        reasons=tuple(reasons),
        figures=figures,
        before=before,
        after=after,
        rewrites=tuple(rewrites),
        was=was,
        timed=timed,
    )


def _measured(timed: TimedChanges | None) -> Iterator[FigureChange]:
    """The timings that are different."""
    for one in () if timed is None else timed.timings:
        if one.verdict in ("FAST", "SLOW"):
            name = f"{MEASURED}{one.shape}, {one.cache} cache, {one.device}"
            now = f"{time_of(one.after_us)} ({change(one.ratio)}, {one.verdict})"
            yield FigureChange(name=name, before=time_of(one.before_us), now=now, worse=one.verdict == "SLOW")


def _figures(before: UnitOutcome, after: UnitOutcome) -> tuple[FigureChange, ...]:
    old, new = before.kernel, after.kernel
    figures = [] if old is None or new is None else list(compare_kernels(old, new))
    for shape, (old_us, new_us) in _predicted(before, after).items():
        ratio = new_us / old_us
        if abs(ratio - 1) >= PREDICTED_SAME:
            now = f"{time_of(new_us)} ({change(ratio)})"
            name = f"predicted time on {shape}"
            figures.append(FigureChange(name=name, before=time_of(old_us), now=now, worse=ratio > 1))
    return (*figures, *_counted(before.counted, after.counted))


def _counted(before: CountedWork | None, after: CountedWork | None) -> Iterator[FigureChange]:
    """The counts that differ."""
    if before is None or after is None or before.shape != after.shape:
        return
    for field, words in COUNTED.items():
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            name = f"{words} per workgroup on {after.shape}"
            yield FigureChange(name=name, before=digits(old), now=digits(new), worse=new > old)


def _predicted(before: UnitOutcome, after: UnitOutcome) -> Mapping[str, tuple[float, float]]:
    """The predicted times by shape."""
    old = {one.shape: one.prediction.time_us for one in before.shapes}
    return {
        one.shape: (before_us, one.prediction.time_us)
        for one in after.shapes
        if one.prediction.time_us and (before_us := old.get(one.shape))
    }


def _verdict(
    before: UnitOutcome, after: UnitOutcome, figures: Sequence[FigureChange], timed: TimedChanges | None
) -> tuple[ChangeVerdict, list[str]]:
    outcomes = (before.outcome, after.outcome)
    if "faulted" in outcomes:
        return ChangeVerdict.UNKNOWN, [one.problem for one in (before, after) if one.outcome == "faulted"]
    if "absent" in outcomes:
        return _came_or_went(before, after)
    if not {*outcomes} <= {"built", "checked"}:
        return _unbuilt(before, after)
    if after.is_wrong and not before.is_wrong and after.verification is not None:
        return ChangeVerdict.WRONG, [after.verification.summary]
    if timed is not None and timed.failure:
        return ChangeVerdict.WRONG, [timed.failure]
    if after.spills > before.spills:
        return ChangeVerdict.SPILLS, [f"{before.spills} → {after.spills} registers spilled"]
    if before.is_wrong and not after.is_wrong and after.verification is not None:
        return ChangeVerdict.FIXED, [after.verification.summary]
    if before.verification is not None and after.verification is None:
        return ChangeVerdict.UNKNOWN, [f"it is not verified: {after.not_verified}"]
    if (before.report is None) != (after.report is None):
        return ChangeVerdict.UNKNOWN, ["its code object cannot be read"]
    both_wrong = (
        [f"wrong before and after: {after.verification.summary}"] if after.verification and after.is_wrong else []
    )
    measured = {one.worse for one in figures if one.name.startswith(MEASURED)}
    if True in measured:
        return ChangeVerdict.SLOWER, both_wrong
    settled = timed is not None and timed.timings and all(one.verdict != "UNSURE" for one in timed.timings)
    static = {one.worse for one in figures if one.worse is not None and one.name.startswith(DECISIVE)}
    directions = measured or (set[bool | None]() if settled else static)
    if len(directions) == 1:
        return ChangeVerdict.WORSE if True in directions else ChangeVerdict.BETTER, both_wrong
    return ChangeVerdict.CHANGED if figures else ChangeVerdict.SAME, both_wrong


def _came_or_went(before: UnitOutcome, after: UnitOutcome) -> tuple[ChangeVerdict, list[str]]:
    """One of the two does not exist."""
    if after.outcome == "absent":
        return ChangeVerdict.REMOVED, [after.problem] if after.problem else []
    if after.outcome == "failed":
        return ChangeVerdict.BROKEN, [f"it is new: {after.problem}"]
    if after.is_wrong and after.verification is not None:
        return ChangeVerdict.WRONG, [f"it is new: {after.verification.summary}"]
    if after.outcome == "skipped":
        return ChangeVerdict.SKIPPED, [after.problem]
    spilled = [f"{after.spills} registers spilled"] if after.spills else []
    return ChangeVerdict.NEW, [*([before.problem] if before.problem else []), *spilled]


def _unbuilt(before: UnitOutcome, after: UnitOutcome) -> tuple[ChangeVerdict, list[str]]:
    """One of the two has no artifact."""
    if after.outcome in ("built", "checked"):
        if after.is_wrong and after.verification is not None:
            return ChangeVerdict.WRONG, [after.verification.summary]
        return ChangeVerdict.FIXED, [f"it did not compile: {before.problem}"]
    if after.outcome == "skipped":
        return ChangeVerdict.SKIPPED, [after.problem]
    if before.outcome == "failed":
        return ChangeVerdict.SAME, [f"it compiles with neither: {after.problem}"]
    return ChangeVerdict.BROKEN, [after.problem]


def change_summary(changes: Sequence[UnitChange]) -> ChangeSummary:
    """Sum over units."""
    counts = Counter(one.verdict for one in changes)
    pairs = [(one.before.kernel, one.after.kernel) for one in changes]
    kernels = [(old, new) for old, new in pairs if old is not None and new is not None]
    summed = [_summed(name, kernels) for name in SUMMED]
    verified = [(one.before.is_verified, one.after.is_verified) for one in changes]
    summed.append(_sum("verified units", verified))
    predicted = [pair for one in changes for pair in _predicted(one.before, one.after).values()]
    return ChangeSummary(
        verdicts={verdict: counts[verdict] for verdict in ChangeVerdict if counts[verdict]},
        figures=tuple(one for one in summed if one is not None and (one.before or one.after)),
        predicted_ratio=exp(fmean(log(new / old) for old, new in predicted)) if predicted else None,
    )


def _summed(name: str, kernels: Sequence[tuple[KernelReport, KernelReport]]) -> SummedFigure | None:
    """The sums of a figure that is a number; None where it is known of no unit."""
    (figure,) = (one for one in FIGURES if one.name == name)
    values = [(figure.of(old), figure.of(new)) for old, new in kernels]
    numbers = [(old, new) for old, new in values if isinstance(old, (int, float)) and isinstance(new, (int, float))]
    return _sum(name, numbers) if numbers else None


def _sum(name: str, pairs: Sequence[tuple[float, float]]) -> SummedFigure:
    return SummedFigure(
        name=name,
        before=sum(old for old, _ in pairs),
        after=sum(new for _, new in pairs),
        grew=sum(new > old for old, new in pairs),
        shrank=sum(new < old for old, new in pairs),
    )
