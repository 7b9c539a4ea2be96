"""Findings of the emulator → diagnostics, at the instance and at the line of the template or header."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.text import Position, Span
from ckwatch.model.verification import (
    FOR_JUDGES,
    STOPS,
    WARNINGS,
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    Verification,
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
    verified = _VerifiedUnit(found, unit, instance, placed)
    groups = verified.by_line()
    stores = verified.stores() if placed else []
    shown = [verified.at_instance(one) for one in groups[:SHOWN_FINDINGS]]
    problems = verified.of_problems()
    shown = [*problems, *shown] if problems and problems[0].code == WRONG_RESULT else [*shown, *problems]
    more = len(groups) - SHOWN_FINDINGS
    if more > 0:
        shown.append(verified.diagnostic(Severity.INFORMATION, "verify/more", f": and {count(more, 'more finding')}"))
    if placed:
        shown += [verified.at_place(one, one[0].place) for one in groups if one[0].place is not None]
        shown += [verified.at_place([one], one.place) for one in stores if one.place is not None]
    return (*shown, *mistake_diagnostics(found.reference_mistakes, unit, instance))


def mistake_diagnostics(mistakes: Iterable[ReferenceMistake], unit: str, instance: Span) -> tuple[Diagnostic, ...]:
    """Make diagnostics of mistakes of the user's reference, at their lines in it."""
    shown = []
    for one in mistakes:
        if not one.path:  # a file says so already
            continue
        place = Position(one.line - 1, 0)
        related = [Related(f"on {one.problem}", None)] if one.problem else []
        related.append(Related("in this instance", instance))
        shown.append(
            Diagnostic(
                *(Severity.ERROR, Source.REFERENCE, f"reference/{one.kind.value}", one.message),
                *(Span(one.path, place, place), tuple(related)),
                detail=one.detail,
                units=(unit,),
                unit_count=1,
            )
        )
    return tuple(shown)


def diagnostics_once(found: Verification, unit: str, instance: Span) -> tuple[Diagnostic, ...]:
    """Make diagnostics for a list: each finding once, at its place where that is known, else at the instance."""
    verified = _VerifiedUnit(found, unit, instance, placed=True)
    store = next((one for one in verified.stores() if one.place is not None), None)
    return (
        *mistake_diagnostics(found.reference_mistakes, unit, instance),
        *(verified.at_store(one, store) for one in verified.of_problems()),
        *(
            verified.at_instance(one) if one[0].place is None else verified.at_place(one, one[0].place)
            for one in verified.by_line()
        ),
    )


def severity_of(finding: EmulatedFinding) -> Severity:
    """A mistake is an error, the kernel's or ours; what explains one, or what the emulator does not know, is not."""
    if finding.kind in WARNINGS:
        return Severity.WARNING
    harmless = finding.kind in (FindingKind.NON_FINITE, FindingKind.UNKNOWN_INSTRUCTION)
    return Severity.INFORMATION if harmless else Severity.ERROR


def who(finding: EmulatedFinding) -> str:
    """`workgroup (1, 0, 0), wave 2, lane 17`; or that it is not executed, or need not be."""
    if finding.workgroup is None:
        return "found by reading the code" if finding.kind in FOR_JUDGES else "not executed"
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
        f"problem: {finding.problem}" if finding.workgroup is not None else "",
        f"in {finding.kernel}",
    )
    return "\n".join(line for line in lines if line)


def _instruction(text: str | None, address: int | None) -> str:
    return "" if not text else text if address is None else f"{address:#x}: {text}"


@dataclass(frozen=True, slots=True)
class _VerifiedUnit:
    """A unit with its verification, and the diagnostics of both."""

    found: Verification
    unit: str
    instance: Span
    placed: bool

    def by_line(self) -> list[list[EmulatedFinding]]:
        """The findings of one kind and line together, the first one first: one mistake shows at many instructions."""
        groups: dict[object, list[EmulatedFinding]] = {}
        for one in self.found.findings:
            if one.kind is FindingKind.WRONG_RESULT:
                continue
            line = (one.place.path, one.place.start.line) if self.placed and one.place is not None else id(one)
            groups.setdefault((one.kind, line), []).append(one)
        return list(groups.values())

    def stores(self) -> list[EmulatedFinding]:
        """The stores of wrong elements, one of each line. The problem itself says that its result is wrong."""
        found: dict[object, EmulatedFinding] = {}
        for one in self.found.findings:
            if one.kind is FindingKind.WRONG_RESULT:
                found.setdefault(one.place and (one.place.path, one.place.start.line), one)
        return list(found.values())

    def at_store(self, problem: Diagnostic, store: EmulatedFinding | None) -> Diagnostic:
        """A diagnostic of problems at the line that writes the wrong element, if that is known."""
        if store is None or store.place is None or problem.code != WRONG_RESULT:
            return problem
        related = (Related(f"{who(store)}: {store.message}", None), Related("in this instance", self.instance))
        return replace(problem, span=store.place, related=related)

    def at_instance(self, findings: Sequence[EmulatedFinding]) -> Diagnostic:
        finding = findings[0]
        by = [Related(f"by {finding.instruction}", finding.place)] if finding.place is not None else []
        return self._finding(findings, self.instance, [*by, *_other(finding)] if self.placed else [])

    def at_place(self, findings: Sequence[EmulatedFinding], place: Span) -> Diagnostic:
        return self._finding(findings, place, [*_other(findings[0]), Related("in this instance", self.instance)])

    def _finding(self, findings: Sequence[EmulatedFinding], span: Span, related: Sequence[Related]) -> Diagnostic:
        finding = findings[0]
        more = f"; {count(len(findings) - 1, 'more instruction')} of this line" if len(findings) > 1 else ""
        problem = f", {finding.problem}" if finding.workgroup is not None else ""
        text, code = f"{problem}: {finding.message}", f"verify/{finding.kind.value}"
        hint = [Related(finding.hint, None)] if finding.hint else []
        related = (Related(f"{who(finding)}{more}", None), *hint, *related)
        return self.diagnostic(severity_of(finding), code, text, evidence(finding), span, related)

    def of_problems(self) -> list[Diagnostic]:
        """One for the problems with wrong results but those of which a finding says why the kernel was stopped; without
        findings, for those that were not verified."""
        stopped = {one.problem for one in self.found.findings if one.kind in STOPS}
        for outcome, severity, code, what in (
            (ProblemOutcome.WRONG, Severity.ERROR, WRONG_RESULT, "wrong"),
            (ProblemOutcome.NOT_VERIFIED, Severity.INFORMATION, NOT_VERIFIED, "not verified"),
        ):
            problems = [one for one in self.found.problems if one.outcome is outcome]
            if outcome is ProblemOutcome.WRONG:
                problems = [one for one in problems if one.name not in stopped]
            if problems and (outcome is ProblemOutcome.WRONG or not self.found.findings):
                total = len(self.found.problems)
                others = f" ({what} on {len(problems)} of {total} shapes)" if len(problems) > 1 else ""
                lines = [f"{one.name} ({one.shape}): {one.message or what}" for one in problems]
                return [self.diagnostic(severity, code, f", {lines[0]}{others}", "\n".join(lines))]
        return []

    def diagnostic(
        self, severity: Severity, code: str, text: str, detail: str = "", span: Span | None = None,
        related: Sequence[Related] = (),
    ) -> Diagnostic:  # fmt: skip
        message = f"{self.found.device.replace(':', ' ')}{text}"
        return Diagnostic(
            *(severity, Source.VERIFY, code, message, span or self.instance, tuple(related)),
            detail=detail,
            units=(self.unit,),
            unit_count=1,
        )


def _other(finding: EmulatedFinding) -> list[Related]:
    if finding.other_place is None:
        return []
    if finding.kind in WARNINGS:
        return [Related("its values lead here", finding.other_place)]
    return [Related(f"the other instruction: {finding.other_instruction or 'not known'}", finding.other_place)]
