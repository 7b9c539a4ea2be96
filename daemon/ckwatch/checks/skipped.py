"""Combinations that sweeps skip: how many the instance rules refuse, and by which rules.

A sweep is a search, in which what cannot be compiled is no mistake. One message counts what it skips, at the value that
all of it has, else at the sweep's name. It is an error where that is everything; if one value is the reason, it is
shown as in an instance, and not again if an instance has the same error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache

from ckwatch.checks.fold import in_one_line
from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import SweepOrigin, Unit
from ckwatch.model.text import Span

REASONS_SHOWN = 6

CODE = "kernel-file/skipped-combinations"


def skip_summaries(
    skipped: Iterable[tuple[Unit, Sequence[Diagnostic]]], reported: Iterable[Diagnostic] = ()
) -> tuple[Diagnostic, ...]:
    """A message for each sweep of the `skipped` units, whose own diagnostics say why.

    Where a kernel's archs differ in it, there is one for each arch, which names it. `reported` are the diagnostics of
    units that are not skipped: a sweep that only repeats their errors, by value or by rule, has no message of its own.
    """
    known = {known for one in reported if one.severity is Severity.ERROR for known in (one.code, one.span)}
    sweeps: dict[tuple[str, SweepOrigin], dict[str, list[tuple[Unit, Sequence[Diagnostic]]]]] = {}
    for unit, why in skipped:
        if unit.instance.sweep is not None:
            archs = sweeps.setdefault((unit.kernel.path, unit.instance.sweep), {})
            archs.setdefault(unit.arch, []).append((unit, why))
    found = []
    for (_, sweep), archs in sweeps.items():
        own = {arch: one for arch, units in archs.items() if (one := _summary(sweep, units, known)) is not None}
        if not own:
            continue
        kernel = next(iter(archs.values()))[0][0].kernel
        if len({one.message for one in own.values()}) == 1 and len(own) >= len(kernel.archs):
            found.append(next(iter(own.values())))
        else:
            found += [replace(one, message=f"{arch}: {one.message}") for arch, one in own.items()]
    return tuple(found)


def skipped_text(total: int, broken: Iterable[tuple[str, str]]) -> str:
    """`12 of 48 combinations are skipped, which break rules: 8 × MPerBlock % (MPerXdl * MXdlPerWave) == 0, 4 × …`.

    `broken`: code and message of the first rule that each of them breaks; operations spell a rule's condition in
    parameters of their own.
    """
    counted = Counter(_condition(code, message) for code, message in broken).most_common()
    shown = [f"{number} × {condition}" for condition, number in counted[:REASONS_SHOWN]]
    left = sum(number for _, number in counted[REASONS_SHOWN:])
    reasons = ", ".join([*shown, *([f"{left} × other rules"] if left else [])])
    skipped = sum(number for _, number in counted)
    if skipped < total:
        return f"{skipped} of {total} combinations are skipped, which break rules: {reasons}"
    return f"{f'all {total} combinations break' if total > 1 else 'the only combination breaks'} rules: {reasons}"


def _condition(code: str, message: str) -> str:
    known = _conditions().get(code, ())
    return next((one for one in known if f" {one}: " in in_one_line(message)), known[0] if known else code)


@cache
def _conditions() -> Mapping[str, Sequence[str]]:
    found: dict[str, dict[str, None]] = {}
    for operation in OPERATIONS.values():
        for rule in operation.rules:
            found.setdefault(f"rule/{rule.slug}", {})[operation.spelled(rule.condition)] = None
    return {code: tuple(conditions) for code, conditions in found.items()}


def _summary(
    sweep: SweepOrigin, units: Sequence[tuple[Unit, Sequence[Diagnostic]]], known: AbstractSet[str | Span]
) -> Diagnostic | None:
    firsts: dict[str, tuple[Unit, Diagnostic]] = {}
    refusals = []
    for unit, why in units:
        rules = (one for one in why if one.source is Source.RULE and one.severity is Severity.INFORMATION)
        rule = next(rules, None)
        if rule is not None:
            refusals.append(rule)
            firsts.setdefault(rule.code, (unit, rule))
    everything = len(refusals) >= sweep.combinations
    message = skipped_text(sweep.combinations, [(one.code, one.message) for one in refusals])
    if refusals and all(one.code in known or one.span in known for one in refusals):
        return None
    places = {one.span for one in refusals}
    if everything:
        message = f"sweep `{sweep.name}` makes nothing that can be compiled: {message}"
        if len(places) == 1:
            cause = refusals[0]
            related = (*cause.related, Related(message, units[0][0].instance.span))
            return replace(cause, severity=Severity.ERROR, related=related, units=())
    examples = (Related(f"{unit.instance.name}: {in_one_line(one.message)}", one.span) for unit, one in firsts.values())
    severity = Severity.ERROR if everything else Severity.INFORMATION
    span = refusals[0].span if len(places) == 1 else units[0][0].instance.span
    return Diagnostic(severity, Source.KERNEL_FILE, CODE, message, span, tuple(examples)[:REASONS_SHOWN])
