"""Joins the same message of many units into one diagnostic: "fails in 3 of 24 units: a, b, c".

Two diagnostics are the same when severity, source, code, message and place are. Messages about parameters often differ
in their values only; these stay apart, as their places in the kernel file do (a value that a `[defaults]` table gives
to many instances is one place, and one message).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckwatch.model.diagnostics import Diagnostic

NAMED_UNITS = 3
"""How many units `counted` names before it says how many more there are."""


def fold(per_unit: Mapping[str, Sequence[Diagnostic]], unit_count: int) -> tuple[Diagnostic, ...]:
    """Join equal diagnostics of different units, in the order of their first appearance.

    `per_unit` maps unit ids to their diagnostics; `unit_count` is the number of units that were checked, with and
    without diagnostics. Of joined diagnostics the first one's related information, detail and fixes are kept. A fix
    that not all of them have is dropped: it would be wrong for some.
    """
    groups: dict[tuple[object, ...], list[tuple[str, Diagnostic]]] = {}
    for unit, diagnostics in per_unit.items():
        for diagnostic in diagnostics:
            key = (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message, diagnostic.span)
            groups.setdefault(key, []).append((unit, diagnostic))
    return tuple(_joined(group, unit_count) for group in groups.values())


def _joined(group: Sequence[tuple[str, Diagnostic]], unit_count: int) -> Diagnostic:
    first = group[0][1]
    return replace(
        first,
        units=tuple(dict.fromkeys(unit for unit, _ in group)),
        unit_count=unit_count,
        fixes=tuple(fix for fix in first.fixes if all(fix in other.fixes for _, other in group)),
        approximate=any(diagnostic.approximate for _, diagnostic in group),
    )


def counted(diagnostic: Diagnostic) -> str:
    """`fails in 3 of 24 units: a, b, c`; "" when it was found in the only unit that was checked, or in none."""
    count = len(diagnostic.units)
    if not count or diagnostic.unit_count <= 1:
        return ""
    verb = "fails" if diagnostic.severity == "error" else "occurs"
    named = ", ".join(diagnostic.units[:NAMED_UNITS])
    more = f" and {count - NAMED_UNITS} more" if count > NAMED_UNITS else ""
    return f"{verb} in {count} of {diagnostic.unit_count} units: {named}{more}"
