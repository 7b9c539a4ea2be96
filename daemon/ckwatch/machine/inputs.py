"""What of a unit is input to its render and compile, and what only says where its messages belong."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.model.kernel import Unit


def difference(old: Unit, new: Unit) -> str | None:
    """What makes `new` another input than `old`; None when only places in the kernel file differ."""
    file = new.kernel.path.rsplit("/", 1)[-1]
    changes = _changes(old.instance.parameters, new.instance.parameters)
    if changes:
        return f"{file}: {changes}"
    if old.kernel.template != new.kernel.template:
        return f"{file}: template {old.kernel.template} → {new.kernel.template}"
    if old.kernel.operation is not new.kernel.operation and old.kernel.operation != new.kernel.operation:
        return f"{file}: the operation changed"
    if old.kernel.flags != new.kernel.flags:
        return f"{file}: the flags changed"
    return None


def has_moved(old: Unit, new: Unit) -> bool:
    """Whether messages about the unit belong to other places in the kernel file."""
    return (
        old.instance.span != new.instance.span
        or old.instance.spans != new.instance.spans
        or old.kernel.template_span != new.kernel.template_span
        or old.kernel.operation_spans != new.kernel.operation_spans
        or old.kernel.path != new.kernel.path
    )


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    if old == new:
        return ""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '(none)')} → {new.get(name, '(none)')}" for name in names)
