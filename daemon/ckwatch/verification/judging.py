"""Judges a kernel that is to take another's place, by what was found of both on problems that were drawn for them.

The other one, the reference, says what is right: operation, tolerances, limits and shapes are those of its kernel file,
since whoever wrote the candidate may have changed the candidate's. What the reference does itself, such as reading the
environment, is not held against the candidate.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ckwatch.checks.verification_diagnostics import diagnostics_once
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.judgements import JudgedAs, Judgement, SpeedBasis, SpeedRow
from ckwatch.model.kernels import Operation, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.model.trials import LEFT_TO_THE_REFERENCE, Trial
from ckwatch.model.verification import (
    FOR_JUDGES,
    ProblemOutcome,
    Verification,
    VerificationDepth,
    VerificationOutcome,
    VerifiedProblem,
)
from ckwatch.verification.problems import OWN_SHAPE, SEED_BITS, drawn_trials

MOST_OF_TOLERANCE, MORE_THAN_REFERENCE = 0.5, 4.0
"""A candidate uses the tolerance up whose errors are more than this part of it, and so many times the reference's."""

DRIFT, MORE_DRIFT = 0.25, 3.0
"""Errors go one way whose mean is more than this part of the tolerance, and so many times the reference's."""

LEAST_PROBLEMS = 3
"""Over which errors are averaged."""

ALIKE = 0.03
"""Predictions that differ by less say nothing."""

_SIGNATURE = ("kind", "size_arguments", "runtime_arguments", "computation")
_OF_TENSORS = ("name", "dtype", "layout", "sizes", "strides", "in_out", "partial", "optional")


def subject_of(candidate: Unit, reference: Unit) -> Unit:
    """The candidate as it is judged: its instance with the reference's operation and shapes. Raises CkwatchError where
    the two do not compute the same, or not for the same arch."""
    if candidate.id == reference.id:
        raise CkwatchError(f"'{candidate.id}' cannot be judged against itself", "name another unit after --against")
    if candidate.arch != reference.arch:
        raise CkwatchError(
            f"{candidate.id} and {reference.id} are compiled for different archs", "name units of one arch"
        )
    ours, theirs = (_signature(unit) for unit in (candidate, reference))
    if differs := next((name for name, value in theirs.items() if ours.get(name) != value), None):
        raise CkwatchError(
            f"{candidate.id} and {reference.id} are not the same operation: `{differs}` is different",
            "a candidate takes the arguments that its reference takes",
        )
    kernel = replace(candidate.kernel, operation=reference.kernel.operation, shapes=reference.kernel.shapes)
    return replace(candidate, kernel=kernel)


def _signature(unit: Unit) -> Mapping[str, object]:
    operation: Operation = unit.kernel.operation
    found: dict[str, object] = {name: getattr(operation, name) for name in _SIGNATURE}
    for group, tensors in (("input", operation.inputs), ("output", operation.outputs)):
        found[group] = [
            None if tensor is None else [getattr(tensor, name) for name in _OF_TENSORS] for _, tensor in tensors
        ]
    found["runtime"] = {name: operation.runtime_types.get(name, "int32_t") for name in operation.runtime_arguments}
    takes = () if operation.reference is None else operation.reference.takes
    known = {one.name for one in operation.tensors} | set(operation.size_arguments) | set(operation.runtime_arguments)
    return found | {name: unit.instance.parameters.get(name) for name in takes if name not in known}


def judged_trials(units: Sequence[Unit], reference: Unit, seed: int | None) -> dict[str, tuple[Trial, ...]]:
    """By the units' ids, the problems that they are judged on against one of them, the reference, which gets the
    essential ones alone. `seed`: by which all is drawn, another one each time without. Raises CkwatchError as
    `subject_of`."""
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    essential, thorough = VerificationDepth.ESSENTIAL, VerificationDepth.THOROUGH
    return {
        one.id: drawn_trials(one, seed, essential)
        if one.id == reference.id
        else drawn_trials(subject_of(one, reference), seed, thorough)
        for one in units
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """The candidate or the reference: its unit, and the place of its instance."""

    unit: str
    place: Span


def judged(candidate: Party, reference: Party, seed: int, found: Verification, by: Verification) -> Judgement:
    """The judgement of what was found of the candidate, and of the reference on problems of the same seed; faster or
    not is not looked at: ACCEPTED means right."""
    left = _not_done_by(by)
    found, by = _without(found, left), _without(by, left)
    outcomes = Counter(one.outcome for one in found.problems)
    result = Judgement(
        candidate=candidate.unit,
        reference=reference.unit,
        seed=seed,
        verdict=JudgedAs.ACCEPTED,
        right=outcomes[ProblemOutcome.RIGHT],
        refused=outcomes[ProblemOutcome.REFUSED],
    )
    own = _without_allowed(by, by)
    if own.outcome is not VerificationOutcome.VERIFIED:
        why = f"the reference cannot be judged by: {own.summary}"
        return with_reason(result, JudgedAs.NOT_JUDGED, reference, "judge/reference", why)
    kept = _without_allowed(found, by)
    shown = diagnostics_once(kept, candidate.unit, candidate.place)
    reasons = [one for one in shown if one.severity is Severity.ERROR]
    reasons += [_reason(candidate, code, text) for code, text in _others(kept, by)]
    if reasons:
        return replace(result, verdict=JudgedAs.REFUSED, reasons=tuple(reasons))
    if kept.outcome is not VerificationOutcome.VERIFIED:
        return with_reason(result, JudgedAs.NOT_JUDGED, candidate, "judge/not-verified", kept.summary)
    return result


def with_reason(result: Judgement, verdict: JudgedAs, party: Party, code: str, text: str) -> Judgement:
    """The judgement with another verdict, and why."""
    return replace(result, verdict=verdict, reasons=(_reason(party, code, text),))


def with_speed(
    result: Judgement, candidate: Party, basis: SpeedBasis, device: str, rows: Sequence[SpeedRow], why_not: str = ""
) -> Judgement:
    """The judgement of a candidate that is right, with how fast it is: at least once faster than the reference, and
    never slower. `why_not`: why that is not known."""
    result = replace(result, basis=basis, device=device, speed=tuple(rows))
    verdicts = {row.verdict: row for row in reversed(rows)}
    how = HOW[basis]
    if not rows:
        text = f"whether it is faster is not known: {why_not}"
        return with_reason(result, JudgedAs.NOT_JUDGED, candidate, "judge/speed", text)
    if "SLOW" in verdicts:
        row = verdicts["SLOW"]
        text = f"it is slower than the reference on {row.shape}, {how.format(f'{row.ratio:.3f} ×')}"
        return with_reason(result, JudgedAs.REFUSED, candidate, "judge/slower", text)
    if "FAST" not in verdicts and "UNSURE" in verdicts:
        row = verdicts["UNSURE"]
        text = (
            f"whether it is faster is not known: on {row.shape}, {how.format(f'{row.ratio:.3f} ×')}, the timings vary"
        )
        return with_reason(result, JudgedAs.NOT_JUDGED, candidate, "judge/speed", text)
    if "FAST" not in verdicts:
        row = rows[0]
        text = f"it is not faster than the reference: on {row.shape} {how.format(f'{row.ratio:.3f} ×')}"
        return with_reason(result, JudgedAs.REFUSED, candidate, "judge/not-faster", text)
    return result


HOW = {
    SpeedBasis.TIMINGS: "{} its time",
    SpeedBasis.PREDICTION: "{} its time by prediction, not by a timing",
    SpeedBasis.PROFILE: "{} its cycles by an estimate from counted instructions, not by a timing",
}


def estimated_row(shape: str, ours: float, theirs: float) -> SpeedRow:
    """A row by predicted times, or by counted cycles."""
    ratio = ours / theirs
    verdict = "FAST" if ratio < 1 - ALIKE else "SLOW" if ratio > 1 + ALIKE else "SAME"
    return SpeedRow(shape=shape, verdict=verdict, ratio=ratio)


def _not_done_by(reference: Verification) -> set[str]:
    """The problems that count only where the reference kernel is right on them, and it is not."""
    ends = tuple(one.value for one in LEFT_TO_THE_REFERENCE)
    return {one.name for one in reference.problems if one.name.endswith(ends) and one.outcome is ProblemOutcome.WRONG}


def _without(found: Verification, names: Collection[str]) -> Verification:
    """Without these problems, and what was found on them."""
    problems = tuple(one for one in found.problems if one.name not in names)
    return replace(found, problems=problems, findings=tuple(one for one in found.findings if one.problem not in names))


def _without_allowed(found: Verification, by: Verification) -> Verification:
    """Without what the reference does as well, as far as it is a mistake for judges alone."""
    allowed = {one.message for one in by.findings if one.kind in FOR_JUDGES}
    return replace(
        found,
        findings=tuple(one for one in found.findings if one.kind not in FOR_JUDGES or one.message not in allowed),
    )


def _others(found: Verification, by: Verification) -> Iterator[tuple[str, str]]:
    """Reasons that no problem shows by itself, with their codes."""
    ours, theirs = ({one.name: one for one in each.problems} for each in (found, by))
    pairs = [(one, theirs[name]) for name, one in ours.items() if name in theirs]
    for mine, other in pairs:
        if mine.name.startswith(OWN_SHAPE) and mine.outcome is ProblemOutcome.REFUSED and _is_right(other):
            text = f"it does not support {mine.name}, which the reference computes: {mine.message}"
            yield "judge/refuses-shape", text
    right = [(one, other) for one, other in pairs if _is_right(one) and _is_right(other)]
    if len(right) < LEAST_PROBLEMS:
        return
    error, usual = (fmean(one[side].error for one in right) for side in (0, 1))
    if error > max(MOST_OF_TOLERANCE, MORE_THAN_REFERENCE * usual):
        text = f"it uses the tolerance up: its errors are {error:.0%} of what they may be, the reference's {usual:.0%}"
        yield "judge/tolerance", text
    drift, usual = (fmean(one[side].drift for one in right) for side in (0, 1))
    if abs(drift) > max(DRIFT, MORE_DRIFT * abs(usual)):
        way = "away from" if drift > 0 else "towards"
        mean = f"their mean is {abs(drift):.0%} of what an error may be, the reference's {abs(usual):.0%}"
        yield "judge/drift", f"its errors go one way, {way} zero: {mean}"


def _is_right(one: VerifiedProblem) -> bool:
    return one.outcome is ProblemOutcome.RIGHT


def _reason(party: Party, code: str, text: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Source.VERIFY, code, text, party.place, units=(party.unit,), unit_count=1)
