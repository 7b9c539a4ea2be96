"""What the tensors of every kind of operation have in common: shared buffers and the order of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckwatch.config.document import KeyPath
from ckwatch.config.mistakes import Mistakes, listed, meant


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
                    message = f"`same_as` names no input: `{other}`; {meant(other, known)}known: {listed(known)}"
                    mistakes.at_value(place, "unknown-tensor", message)
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
