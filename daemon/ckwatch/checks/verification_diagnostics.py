"""Findings of the emulator → diagnostics, at the instance and at the line of the template or header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.text import Span
from ckwatch.model.verification import (
    EXPLANATIONS,
    STOPS,
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    Verification,
    VerifiedProblem,
)

SHOWN_FINDINGS = 8
"""Findings that are shown at an instance; the last says how many more there are."""

WRONG_RESULT = "verify/wrong-result"
NOT_VERIFIED = "verify/not-verified"


def verification_diagnostics(
    found: Verification, unit: str, instance: Span, *, placed: bool = True
) -> tuple[Diagnostic, ...]:
    """Make diagnostics of a verification of `unit`, whose instance stands at `instance`. `placed`: the places of
    findings belong to the present text; otherwise findings are shown at the instance alone."""
    problems = _unexplained(found)
    wrong = [one for one in problems if one.outcome is ProblemOutcome.WRONG]
    unknown = [one for one in problems if one.outcome is ProblemOutcome.NOT_VERIFIED]
    groups = _by_line(found, placed=placed)
    shown = [_at_instance(found, one, unit, instance, placed=placed) for one in groups[:SHOWN_FINDINGS]]
    if wrong:
        shown.insert(0, _of_problems(found, wrong, unit, instance, Severity.ERROR, WRONG_RESULT, "wrong"))
    elif unknown and not found.findings:
        level = Severity.INFORMATION
        shown.append(_of_problems(found, unknown, unit, instance, level, NOT_VERIFIED, "not verified"))
    more = len(groups) - SHOWN_FINDINGS
    if more > 0:
        text = f"{_where(found)}: and {count(more, 'more finding')}"
        shown.append(_diagnostic(unit, Severity.INFORMATION, "verify/more", text, instance))
    if placed:
        shown += [_at_place(found, one, unit, instance, one[0].place) for one in groups if one[0].place is not None]
    return tuple(shown)


def _unexplained(found: Verification) -> tuple[VerifiedProblem, ...]:
    """The problems but those of which a finding says why the kernel was stopped."""
    stopped = {one.problem for one in found.findings if one.kind in STOPS}
    return tuple(one for one in found.problems if one.outcome is not ProblemOutcome.WRONG or one.name not in stopped)


def diagnostics_once(found: Verification, unit: str, instance: Span) -> tuple[Diagnostic, ...]:
    """The same for a list: each finding once, at its place where that is known, else at the instance."""
    problems = verification_diagnostics(replace(found, findings=(), problems=_unexplained(found)), unit, instance)
    if found.findings:
        problems = tuple(one for one in problems if one.code != NOT_VERIFIED)
    return (
        *problems,
        *(
            _at_instance(found, one, unit, instance, placed=True)
            if one[0].place is None
            else _at_place(found, one, unit, instance, one[0].place)
            for one in _by_line(found, placed=True)
        ),
    )


def severity_of(finding: EmulatedFinding) -> Severity:
    """A mistake is an error, the kernel's or ours; what explains one, or what the emulator does not know, is not."""
    harmless = finding.kind in EXPLANATIONS | {FindingKind.UNKNOWN_INSTRUCTION}
    return Severity.INFORMATION if harmless else Severity.ERROR


def who(finding: EmulatedFinding) -> str:
    """`workgroup (1, 0, 0), wave 2, lane 17`."""
    lane = "" if finding.lane is None else f", lane {finding.lane}"
    return f"workgroup ({', '.join(map(str, finding.workgroup))}), wave {finding.wave}{lane}"


def evidence(finding: EmulatedFinding) -> str:
    """Who did it, at which address, by which instruction, in which problem, and how often; a line each."""
    times = f", and {finding.count - 1:,} times more" if finding.count > 1 else ""
    other = [] if finding.other_wave is None else [f"wave {finding.other_wave}"]
    other += [] if finding.other_lane is None else [f"lane {finding.other_lane}"]
    address = "" if finding.address is None else f"address {finding.address:#x}, {count(finding.size_bytes, 'byte')}"
    lines = (
        f"{who(finding)}{times}",
        address,
        _instruction(finding.instruction, finding.code_address),
        f"{_instruction(finding.other_instruction, finding.other_code_address)} {' '.join(other)}".rstrip(),
        finding.note,
        f"problem: {finding.problem}",
        f"in {finding.kernel}",
    )
    return "\n".join(line for line in lines if line)


def _by_line(found: Verification, *, placed: bool) -> list[list[EmulatedFinding]]:
    """The findings of one kind and line together, the first one first: one mistake shows at many instructions."""
    groups: dict[object, list[EmulatedFinding]] = {}
    for one in found.findings:
        line = (one.place.path, one.place.start.line) if placed and one.place is not None else id(one)
        groups.setdefault((one.kind, line), []).append(one)
    return list(groups.values())


def _instruction(text: str | None, address: int | None) -> str:
    return "" if not text else text if address is None else f"{address:#x}: {text}"


def _at_instance(
    found: Verification, findings: Sequence[EmulatedFinding], unit: str, instance: Span, *, placed: bool
) -> Diagnostic:
    finding = findings[0]
    related = _first(findings)
    if placed:
        related += [] if finding.place is None else [Related(f"by {finding.instruction}", finding.place)]
        related += _other(finding)
    return _finding(found, finding, unit, instance, related)


def _at_place(
    found: Verification, findings: Sequence[EmulatedFinding], unit: str, instance: Span, place: Span
) -> Diagnostic:
    related = [*_first(findings), *_other(findings[0]), Related("in this instance", instance)]
    return _finding(found, findings[0], unit, place, related)


def _first(findings: Sequence[EmulatedFinding]) -> list[Related]:
    more = f"; {count(len(findings) - 1, 'more instruction')} of this line" if len(findings) > 1 else ""
    return [Related(f"{who(findings[0])}{more}", None)]


def _other(finding: EmulatedFinding) -> list[Related]:
    if finding.other_place is None:
        return []
    return [Related(f"the other instruction: {finding.other_instruction or 'not known'}", finding.other_place)]


def _finding(
    found: Verification, finding: EmulatedFinding, unit: str, span: Span, related: Sequence[Related]
) -> Diagnostic:
    message = f"{_where(found)}, {finding.problem}: {finding.message}"
    code = f"verify/{finding.kind.value}"
    return _diagnostic(unit, severity_of(finding), code, message, span, related, evidence(finding))


def _of_problems(
    found: Verification,
    problems: Sequence[VerifiedProblem],
    unit: str,
    instance: Span,
    severity: Severity,
    code: str,
    what: str,
) -> Diagnostic:
    first = problems[0]
    others = f" ({what} on {len(problems)} of {len(found.problems)} shapes)" if len(problems) > 1 else ""
    message = f"{_where(found)}, {first.name} ({first.shape}): {first.message or what}{others}"
    detail = "\n".join(f"{one.name} ({one.shape}): {one.message or what}" for one in problems)
    return _diagnostic(unit, severity, code, message, instance, (), detail)


def _where(found: Verification) -> str:
    return found.device.replace(":", " ")


def _diagnostic(
    unit: str,
    severity: Severity,
    code: str,
    message: str,
    span: Span,
    related: Sequence[Related] = (),
    detail: str = "",
) -> Diagnostic:
    return Diagnostic(
        severity, Source.VERIFY, code, message, span, tuple(related), detail=detail, units=(unit,), unit_count=1
    )
