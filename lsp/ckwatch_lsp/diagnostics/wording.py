"""What a diagnostic says: its message, in which instances it arises, and what explains it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ckwatch.wire.values import Diagnostic, Related

NAMED = 3
"""Instances that are named before it is said how many more there are."""

EXPLAINED = 400
"""Characters of an explanation that is shown with the message."""


def instances(diagnostic: Diagnostic, here: Collection[str]) -> str:
    """`in 3 of 24 instances: a, b, c`; empty where there is no other instance. `here`: the units whose instance the
    diagnostic stands at; it is not named when it is the only one."""
    units = diagnostic.units
    if not units or diagnostic.unit_count <= 1 or (len(units) == 1 and units[0] in here):
        return ""
    if len(units) >= diagnostic.unit_count:
        return f"in all {diagnostic.unit_count} instances"
    names = short_names(units)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"in {len(units)} of {diagnostic.unit_count} instances: {', '.join(names[:NAMED])}{more}"


def short_names(units: Sequence[str]) -> list[str]:
    """Units without what all of them share: the kernel, the arch."""
    kernels = {unit.partition("/")[0] for unit in units}
    archs = {unit.rpartition("@")[2] for unit in units}
    found = []
    for unit in units:
        kernel, _, rest = unit.partition("/")
        instance, _, arch = rest.rpartition("@")
        name = instance if len(kernels) == 1 else f"{kernel}/{instance}"
        found.append(name if len(archs) == 1 else f"{name}@{arch}")
    return found


def explained(diagnostic: Diagnostic) -> tuple[Related, ...]:
    """Everything that explains it: what it is related to, and a rule's own words."""
    detail = diagnostic.detail
    if diagnostic.source == "rule" and detail and len(detail) <= EXPLAINED:
        return (*diagnostic.related, Related.model_construct(message=detail, span=None))
    return diagnostic.related


def message(diagnostic: Diagnostic, here: Collection[str], *, related: bool) -> str:
    """The whole message. `related`: what explains it is shown apart, else the most important of it is in here."""
    counted = instances(diagnostic, here)
    text = f"{diagnostic.message} ({counted})" if counted else diagnostic.message
    if related:
        return text
    everything = explained(diagnostic)
    hint = next((one.message for one in everything if one.span is None), None)
    place = next((_placed(one) for one in everything if one.span is not None and one.span != diagnostic.span), None)
    return "\n".join(line for line in (text, hint, place) if line)


def _placed(one: Related) -> str:
    assert one.span is not None  # noqa: S101  # the caller looked
    return f"{one.span.path.rpartition('/')[2]}:{one.span.start.line + 1}: {one.message}"


def fix_title(replaced: Sequence[str], texts: Sequence[str]) -> str:
    """What a fix does: `Replace 'a' by 'b'`."""
    if len(texts) == 1:
        old, new = _quoted(replaced[0]), _quoted(texts[0])
        if not replaced[0]:
            return f"Insert {new}"
        return f"Replace {old} by {new}" if texts[0] else f"Remove {old}"
    return f"Fix it in {len(texts)} places"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= 40 else line[:39] + "…"
    return f"'{shown}'" if "'" not in shown else f"“{shown}”"
