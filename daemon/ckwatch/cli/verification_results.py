"""Prints the results of `ckwatch verify` as they arrive: what is wrong, and where."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ckwatch.checks.fold import fold
from ckwatch.checks.verification_diagnostics import diagnostics_once
from ckwatch.cli.output import Output, tally
from ckwatch.cli.styled_text import StyledText
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError
from ckwatch.model.verification import NOT_MODELLED, ProblemOutcome, Verification, VerificationOutcome, VerifiedProblem

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.text import Span
    from ckwatch.wire.verification import VerifyLine

MARKS = {"verified": ("✓", "green"), "failed": ("✗", "red"), "not verified": ("?", "yellow")}
NOT_COMPARED = "not compared"
UNCOMPARED_STATUS = 3
COMPARABLE = (
    'what these kernels compute is not known; `reference = "FILE.py:FUNCTION"` under [operation] names a Python '
    "function that computes it, and `--allow-uncompared` makes the exit status 0 without one"
)
SKIPPED = "skipped"
"""The outcome of a sweep's instance that instance rules refuse; it does not count as a mistake."""


class VerificationResults:
    """The results of a verification so far."""

    def __init__(self, output: Output, *, allow_uncompared: bool) -> None:
        self.output = output
        self._allow_uncompared = allow_uncompared
        self._found: dict[str, Verification] = {}
        self._outcomes: Counter[str] = Counter()
        self._unbuilt: Counter[str] = Counter()
        self._total = 0
        self.reasons: set[str] = set()
        self.broken: list[str] = []

    async def follow(self, lines: AsyncIterator[VerifyLine]) -> None:
        """Print each unit; what is being done is shown on a terminal."""
        with self.output.working("building") as show:
            async for line in lines:
                self.take(line, show)

    def take(self, line: VerifyLine, show: Callable[[str], None]) -> None:
        """Print a line of the answer, or show it on the terminal by `show` while it is true."""
        if line.event == "start":
            self._total = line.units
            self.output.answer(event="start", units=line.units)
        elif line.event in ("began", "stage"):
            self._stage(line, show)
        elif line.event == "unit" and line.result is not None:
            self._unit(line)

    def _stage(self, line: VerifyLine, show: Callable[[str], None]) -> None:
        done = sum(self._outcomes.values()) + sum(self._unbuilt.values())
        if line.text:
            show(f"{done} of {self._total}  {line.unit}  {line.text}")
        self.output.event(line.event, unit=line.unit, text=line.text)

    def _unit(self, line: VerifyLine) -> None:
        result = line.result
        assert result is not None  # noqa: S101  # the caller looked
        outcome, summary, found = result.outcome, result.summary, result.verification
        if found is not None:
            self._found[result.unit] = found
        if line.outcome == "built":
            self._outcomes[NOT_COMPARED if found is not None and found.is_uncompared else outcome] += 1
        else:
            self._unbuilt[line.outcome] += 1
            self.reasons.add(line.text)
            if line.outcome == "failed":
                self.broken.append(result.unit)
        self.output.event(
            "unit", unit=result.unit, built_as=line.outcome, known=line.known, outcome=outcome, summary=summary,
            verification=found,
        )  # fmt: skip
        if self.output.for_people:
            self._print_unit(result.unit, outcome, summary, found)

    def _print_unit(self, unit: str, outcome: str, summary: str, found: Verification | None) -> None:
        mark, style = MARKS[outcome]
        words = summary.removeprefix(f"{mark} ").replace("\n", "; ")
        tried = "" if found is None else f"  {problem_words(found)}"
        self.output.styled(StyledText((mark, style), (f" {unit}  {words}{tried}", "")))
        sys.stdout.flush()
        if found is not None and self.output.details:
            rows = [[one.name, one.shape, one.outcome.value, part(one), one.message or ""] for one in found.problems]
            self.output.table(rows, indent="    ")

    def finish(self, places: Mapping[str, Span], mistakes: str, advice: Mapping[str, Sequence[Diagnostic]]) -> int:
        """Print what was found, at its place, and the sum; the exit status. `places` are those of the units' instances,
        `mistakes` says which files have errors; `advice` on units does not count."""
        own: dict[str, tuple[Diagnostic, ...]] = {
            unit: diagnostics_once(found, unit, places[unit])
            for unit, found in self._found.items()
            if unit in places and (found.outcome is not VerificationOutcome.VERIFIED or found.warnings)
        }
        for unit, found_out in advice.items():
            own[unit] = (*own.get(unit, ()), *found_out)
        if not self.output.json:
            self.output.diagnostics(fold(own, max(self._total, 1)))
        verified, failed, unknown_units = (self._outcomes[name] for name in ("verified", "failed", "not verified"))
        uncompared = self._outcomes[NOT_COMPARED]
        references = sum(bool(found.reference_mistakes) for found in self._found.values())
        skipped = self._unbuilt[SKIPPED]
        unbuilt = sum(self._unbuilt.values()) - skipped
        broken = self._unbuilt["failed"]
        status = 1 if failed or broken or mistakes or references else 2 if unknown_units or unbuilt else 0
        if not status and uncompared and not self._allow_uncompared:
            status = UNCOMPARED_STATUS
        self.output.event(
            "summary", verified=verified, failed=failed, not_verified=unknown_units + unbuilt, skipped=skipped,
            exit_status=status, not_modelled=NOT_MODELLED, not_compared=uncompared,
            hint=COMPARABLE if uncompared else "",
        )  # fmt: skip
        numbers = {
            "verified": verified, "wrong": failed, "not compared": uncompared, "not verified": unknown_units,
            "not built": unbuilt, "skipped": skipped,
        }  # fmt: skip
        self.output.text(f"{count(self._total, 'unit')}: {tally(numbers, mistakes)}")
        if uncompared:
            self.output.text(f"not compared: {COMPARABLE}")
        if self._found and self.output.for_people and (self.output.details or _is_news()):
            self.output.text(f"not modelled: {'; '.join(NOT_MODELLED)}", "dim")
        return status


def _is_news() -> bool:
    """Return True the first time that this user is shown what is not modelled."""
    digest = hashlib.sha256("\n".join(NOT_MODELLED).encode()).hexdigest()[:12]
    try:
        marker = cache_folder() / f"told-not-modelled-{digest}"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    except (OSError, CkwatchError):
        return True
    return True


def problem_words(found: Verification) -> str:
    """`12 shapes right, 1 refused`; with how much of the outputs was computed where that is not all."""
    counts = Counter(one.outcome for one in found.problems)
    words = [f"{count(counts[ProblemOutcome.RIGHT], 'shape')} right"]
    others = (outcome for outcome in ProblemOutcome if outcome is not ProblemOutcome.RIGHT)
    words += [f"{counts[outcome]} {outcome.value}" for outcome in others if counts[outcome]]
    sampled = [one for one in found.problems if 0 < one.share < 1]
    which = f" ({part(sampled[0])})" if len(sampled) == 1 else ""
    words += [f"{len(sampled)} computed in part{which}"] if sampled else []
    return ", ".join(words)


def part(found: VerifiedProblem) -> str:
    """`whole`, or which workgroups were computed: `64 of 4,096 workgroups`; empty for none."""
    if found.workgroups is not None:
        computed, of = found.workgroups
        return f"{computed:,} of {of:,} workgroups"
    return "whole" if found.share >= 1 else f"{100 * found.share:.2g} %" if found.share else ""
