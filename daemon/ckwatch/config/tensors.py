"""What every kind of operation has in common: shared buffers, the order of inputs, the template's own settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ckwatch.config.document import KeyPath
from ckwatch.config.mistakes import Mistakes
from ckwatch.config.parameters import kind_of
from ckwatch.model.kernel import ParameterValue


def buffer_owners(
    mistakes: Mistakes, same_as: Mapping[str, str | None], places: Mapping[str, KeyPath]
) -> dict[str, str]:
    """For each tensor the one that owns its buffer.

    `same_as` maps each tensor to the one it names, `places` to its table. Wrong names are reported there.
    """
    found = {}
    for name in same_as:
        at, seen = name, {name}
        while (other := same_as[at]) is not None:
            place = (*places[name], "same_as")
            if other not in same_as:
                if at == name:
                    known = [candidate for candidate in same_as if candidate != name]
                    mistakes.unknown_name(place, "unknown-tensor", f"`same_as` names no input: `{other}`", other, known)
                break
            if other in seen:
                mistakes.at_value(place, "unknown-tensor", f"`{name}` is the same as itself")
                break
            seen.add(other)
            at = other
        found[name] = at
    return found


def input_order(mistakes: Mistakes, order: Sequence[int] | None, names: Sequence[str]) -> tuple[int, ...] | None:
    """`input_reorder`, which holds each index of `names` once."""
    if order is None:
        return None
    if sorted(order) != list(range(len(names))):
        message = f"`input_reorder` must hold each of 0 to {len(names) - 1} once: the order of {', '.join(names)}"
        mistakes.at_value(("operation", "input_reorder"), "invalid-order", message)
    return tuple(order)


def template_settings(
    mistakes: Mistakes, given: Mapping[str, Any], reserved: Collection[str] = ()
) -> dict[str, ParameterValue]:
    """`[operation.settings]`: what only the template knows of. Keys of `reserved` are those of the operation itself."""
    settings: dict[str, ParameterValue] = {}
    for key, value in given.items():
        path = ("operation", "settings", key)
        kind = kind_of(value)
        if key in reserved:
            mistakes.at_key(path, "reserved-name", f"`{key}` is a setting of the operation itself: write it there")
        elif kind is None:
            mistakes.wrong_type(path, "a number, true or false, a string, or an array of integers", value)
        else:
            settings[key] = tuple(value) if kind == "array" else value
    return settings
