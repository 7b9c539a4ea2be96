"""Joins the same message of many units into one diagnostic: "fails in 3 of 24 units: a, b, c".

Two diagnostics are the same when severity, source, code and place are, and their messages are but for the types and
numbers of an instance. What instance rules say of one value is one message, whichever of them the units break. Messages
about parameters stay apart where their places in the kernel file do (a value that a `[defaults]` table gives to many
instances is one place, and one message).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source

NAMED_UNITS = 3
"""How many units `counted` names before it says how many more there are."""

OTHER_WORDS = 4
"""How many of the messages that differ from the shown one in types or numbers are kept beside it."""

_TYPE = (
    r"(?:unsigned |signed |long )*"
    r"(?:__half2?|half|_Float16|__bf16|hip_bfloat16|float|double|int|unsigned|short|char|long)"
)
_VALUES = re.compile(rf"(?P<hash>_[0-9a-f]{{12}}\b)|(?P<type>\b{_TYPE}\b)|\d+(?:\.\d+)?(?:[uUlL]+\b)?|\[[\d, ]+\]")
_ARGUMENTS = re.compile(r"(?<=\w)<[^<>]*>")


def fold(per_unit: Mapping[str, Sequence[Diagnostic]], unit_count: int) -> tuple[Diagnostic, ...]:
    """Join equal diagnostics of different units, in the order of their first appearance.

    `per_unit` maps unit ids to their diagnostics; `unit_count` is the number of units that were checked, with and
    without diagnostics. Of joined diagnostics the first one's message, related information, detail and fixes are kept;
    other wordings become related information. A fix that not all of them have is dropped: it would be wrong for some.
    """
    groups: dict[tuple[object, ...], list[tuple[str, Diagnostic]]] = {}
    for unit, diagnostics in per_unit.items():
        for diagnostic in diagnostics:
            key = (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message, diagnostic.span)
            groups.setdefault(key, []).append((unit, diagnostic))
    merged: dict[tuple[object, ...], list[tuple[set[str], list[tuple[str, Diagnostic]]]]] = {}
    for group in groups.values():
        first = group[0][1]
        alike = merged.setdefault(_mistake(first), [])
        units = {unit for unit, _ in group}
        # Two messages of one unit are two mistakes.
        known = next((other for other in alike if units.isdisjoint(other[0])), None)
        if known is None:
            alike.append((units, group))
        else:
            known[0].update(units)
            known[1].extend(group)
    joined = (group for alike in merged.values() for _, group in alike)
    order = {id(group): at for at, group in enumerate(groups.values())}
    return tuple(_joined(group, unit_count) for group in sorted(joined, key=lambda group: order[id(group)]))


def _mistake(one: Diagnostic) -> tuple[object, ...]:
    if one.source is Source.RULE:
        return one.source, one.span
    return one.severity, one.source, one.code, but_for_values(one.message), one.span


def but_for_values(message: str) -> str:
    """The message without what may differ between instances: numbers, types, template arguments."""
    while (shorter := _ARGUMENTS.sub("", message)) != message:
        message = shorter
    return _VALUES.sub(lambda match: "_#" if match["hash"] else "#", message)


def in_one_line(message: str) -> str:
    """A message whose formula has a line of its own, for where there is one line."""
    return " ".join(message.split("\n"))


def _joined(group: Sequence[tuple[str, Diagnostic]], unit_count: int) -> Diagnostic:
    group = sorted(group, key=lambda found: found[1].severity is not Severity.ERROR)
    first = group[0][1]
    others = dict.fromkeys(diagnostic.message for _, diagnostic in group if diagnostic.message != first.message)
    words = tuple(Related(f"also: {in_one_line(message)}", None) for message in list(others)[:OTHER_WORDS])
    return replace(
        first,
        related=(*first.related, *words),
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
