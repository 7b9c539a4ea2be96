"""The results of a build or a check, and their output.

Nothing here needs an event loop, pydantic or rich: a check is over in less time than they take to load.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ckwatch.cli.mistakes import joined, mistakes_in
from ckwatch.cli.output import Output, tally
from ckwatch.cli.styled_text import StyledText
from ckwatch.model.amounts import count, duration
from ckwatch.model.causes import ARTIFACT_LOST
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.errors import ToolchainError

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.cli.reports.findings import UnitCase
    from ckwatch.wire.state import BuildLine, WorkspaceDetail

NO_COMPILER = "no compiler"
UNPRINTED = ("checked", NO_COMPILER)
"""Outcomes that are the same for all units; they are reported once, at the end."""

STYLES = {"built": "green", "checked": "green", "failed": "red", "faulted": "magenta"}

OUTCOMES = ("checked", "built", "skipped", "failed", "faulted")


class FinishedUnit:
    """A unit's end. `from_store`: its result was there before the command `began` (Unix seconds), which includes the
    daemon's start; `lost`: it was built before, and the store no longer had it."""

    def __init__(self, line: BuildLine, began: float, *, check_only: bool) -> None:
        unit = line.unit
        self.id = line.id or ""
        self.unit = unit
        self.diagnostics = line.diagnostics
        failed = any(found.severity is Severity.ERROR for found in self.diagnostics)
        self.toolchains = line.toolchains
        if line.problem is not None or unit is None:
            self.outcome = line.problem or "removed"
        elif self.toolchains:
            self.outcome = _together([one.outcome or "checked" for one in self.toolchains])
        elif check_only:
            self.outcome = "failed" if failed else "skipped" if unit.outcome == "skipped" else "checked"
        else:
            self.outcome = unit.outcome or "checked"
        compiled = unit is not None and unit.finished_at is not None and unit.finished_at >= began
        kept = not check_only and not compiled and bool(unit and unit.key) and not self.toolchains
        self.from_store = kept and self.outcome in ("built", "failed")
        self.lost = unit is not None and any(one.what == ARTIFACT_LOST and one.at >= began for one in unit.cause)
        self.seconds = unit.seconds if unit is not None and compiled else 0.0

    def add(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Add what was found out later."""
        known = [one for one in self.diagnostics if one not in diagnostics]
        self.diagnostics = (*known, *diagnostics)

    def print_json(self, output: Output) -> None:
        """Print the line of `--json`."""
        unit = self.unit
        own = ("kernel", "instance", "arch", "symbol", "key", "figures")
        output.event(
            "unit", {"unit": self.id}, {name: getattr(unit, name, None) for name in own}, outcome=self.outcome,
            from_store=self.from_store, lost=self.lost, seconds=round(self.seconds, 4),
            products=unit.products if unit is not None and self.outcome == "built" and not self.toolchains else {},
            toolchains=self.toolchains, diagnostics=self.diagnostics,
        )  # fmt: skip

    def case(self) -> UnitCase:
        """The unit as a test."""
        from ckwatch.cli.reports.findings import UnitCase

        found = [one for one in self.diagnostics if one.severity is Severity.ERROR] or self.diagnostics
        why = found[0].message if found else self.outcome
        return UnitCase(
            unit=self.id,
            failed=why if self.outcome == "failed" else "",
            faulted=why if self.outcome not in OUTCOMES or self.outcome == "faulted" else "",
            skipped=why if self.outcome == "skipped" else "",
            diagnostics=tuple(self.diagnostics),
            seconds=self.seconds,
        )

    def line(self, width: int) -> StyledText | None:
        """Return the line to print when the unit ends, with its name in `width` characters; None for what is counted at
        the end."""
        if self.outcome in UNPRINTED:
            return None
        if self.toolchains:
            of_each = ", ".join(f"{one.name} {one.outcome}" for one in self.toolchains)
            return unit_line(self.outcome, self.id, of_each, width)
        origin = "from the store" if self.from_store else duration(self.seconds) if self.seconds else ""
        if self.lost:
            origin += f", {ARTIFACT_LOST}"
        return unit_line(self.outcome, self.id, origin, width)


def _together(outcomes: Sequence[str]) -> str:
    """The outcome of a unit that has these with several toolchains: the worst."""
    return max(outcomes, key=OUTCOMES.index)


def unit_line(word: str, unit: str, more: str, width: int) -> StyledText:
    """A word about a unit, whose name takes `width` characters, and more of them."""
    return StyledText((f"{word:>8}", STYLES.get(word, "yellow")), (f"  {unit:<{width}}  {more}", ""))


def unix_time_of(monotonic_s: float) -> float:
    """The Unix time of that moment of the monotonic clock."""
    return time.time() - (time.monotonic() - monotonic_s)


def finish(
    output: Output, ended: Sequence[FinishedUnit], workspace: WorkspaceDetail, patterns: Sequence[str], begun: float
) -> int:
    """Print what is wrong and the summary of a build of what `patterns` name, which `begun` at that time of the
    monotonic clock; the exit status. Raises ToolchainError where nothing could be compiled."""
    mistakes = mistakes_in(workspace, patterns)
    if workspace.toolchain_problem is not None and any(one.outcome == NO_COMPILER for one in ended):
        raise ToolchainError.of(workspace.toolchain_problem)
    counts = Counter(one.outcome for one in ended)
    from_store = sum(one.from_store for one in ended)
    status = 1 if mistakes.are_errors or counts["failed"] else 2 if counts["faulted"] or counts["cancelled"] else 0
    seconds = time.monotonic() - begun

    # With --json each unit's own diagnostics went with the unit; these are all, equal ones once. What sweeps skip is
    # summed up among the workspace's.
    own = {one.id: one.diagnostics for one in ended if one.outcome != "skipped"}
    shown = joined(mistakes.concerning, _folded(own, len(ended)))
    names = (*OUTCOMES, *sorted(counts.keys() - {*OUTCOMES}))
    lost = sum(one.lost for one in ended)
    numbers = {name: counts[name] for name in names}
    more = {"from the store": from_store, "built again: missing from the store": lost}
    summary = f"{count(len(ended), 'unit')}: {tally(numbers | more, mistakes.summary)} in {seconds:.2f} s"
    if output.reports:
        cases = [one.case() for one in ended]
        output.report(shown, cases, exit_status=status, summary=summary, seconds=seconds)
    output.diagnostics(shown)
    outcomes = {"units": len(ended), **numbers, "from_store": from_store, "seconds": round(seconds, 4)}
    by_toolchain = _by_toolchain(ended)
    output.event("summary", outcomes, exit_status=status, errors_elsewhere=mistakes.elsewhere, toolchains=by_toolchain)
    output.text(summary)
    for toolchain, found in by_toolchain.items():
        output.text(f"{toolchain}: {', '.join(f'{number} {name}' for name, number in found.items())}")
    if mistakes.hint:
        output.text(mistakes.hint, "dim")
    return status


def _by_toolchain(ended: Sequence[FinishedUnit]) -> dict[str, Counter[str]]:
    """How many units have which outcome, by toolchains."""
    found: dict[str, Counter[str]] = {}
    for one in ended:
        for toolchain in one.toolchains:
            found.setdefault(toolchain.name, Counter())[toolchain.outcome or "checked"] += 1
    return found


def _folded(own: Mapping[str, tuple[Diagnostic, ...]], units: int) -> tuple[Diagnostic, ...]:
    if not any(own.values()):
        return ()
    from ckwatch.checks.fold import fold

    return fold(own, units)
