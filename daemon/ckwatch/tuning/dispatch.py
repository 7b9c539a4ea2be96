"""The smallest set of instances with which every shape runs nearly as fast as with its best."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ckwatch.model.lazy_dataclass import dataclass

NODES_AT_MOST = 200_000
"""Nodes of the search for a smallest set; some seconds at most."""


@dataclass(frozen=True, slots=True)
class DispatchSet:
    """`choice` gives for each shape the fastest instance of the set, `slowdown` its time over that of the best.

    `is_smallest`: that no smaller set will do is proven. `unmeasured` are shapes on which nothing was measured.
    """

    instances: tuple[str, ...]
    choice: Mapping[str, str]
    slowdown: Mapping[str, float]
    tolerance: float
    is_smallest: bool
    unmeasured: tuple[str, ...] = ()


def dispatch_set(
    times: Mapping[str, Mapping[str, float]], tolerance: float = 0.02, nodes_at_most: int = NODES_AT_MOST
) -> DispatchSet:
    """A smallest set within `tolerance` of the best on all shapes: branch and bound, or the greedy cover after so many
    nodes. Of instances that are enough for the same shapes the fastest one is taken.

    `times`: shape → instance → time in any unit; what was not measured is missing. Raises ValueError for a negative
    tolerance and for times that are not positive.
    """
    if tolerance < 0:
        raise ValueError(f"the tolerance is {tolerance}, and must not be negative")
    if any(not time > 0 for own in times.values() for time in own.values()):
        raise ValueError("times must be positive")
    shapes = [shape for shape, own in times.items() if any(map(math.isfinite, own.values()))]
    best = {shape: min(times[shape].values()) for shape in shapes}
    covers: dict[str, int] = {}
    excess: dict[str, float] = {}
    for bit, shape in enumerate(shapes):
        for instance, time in times[shape].items():
            if time <= best[shape] * (1 + tolerance):
                covers[instance] = covers.get(instance, 0) | 1 << bit
                excess[instance] = excess.get(instance, 0.0) + time / best[shape]
    everything = (1 << len(shapes)) - 1
    chosen, proven = _smallest_cover(_undominated(covers, excess), everything, nodes_at_most)
    choice = {shape: min(chosen, key=lambda one: (times[shape].get(one, math.inf), one)) for shape in shapes}
    return DispatchSet(
        instances=tuple(sorted(chosen, key=lambda one: (-sum(one == own for own in choice.values()), one))),
        choice=choice,
        slowdown={shape: times[shape][choice[shape]] / best[shape] for shape in shapes},
        tolerance=tolerance,
        is_smallest=proven,
        unmeasured=tuple(shape for shape in times if shape not in best),
    )


def _undominated(covers: Mapping[str, int], excess: Mapping[str, float]) -> dict[str, int]:
    """Without instances that cover nothing beyond what another one does, those that cover most first."""
    kept: dict[str, int] = {}
    for instance, mask in sorted(covers.items(), key=lambda one: (-one[1].bit_count(), excess[one[0]], one[0])):
        if not any(mask & other == mask for other in kept.values()):
            kept[instance] = mask
    return kept


def _smallest_cover(covers: Mapping[str, int], everything: int, nodes_at_most: int) -> tuple[list[str], bool]:
    """A cover, and whether it is proven to be a smallest one.

    A branch takes the shape that the fewest instances cover. A node is left when the cover found so far is no larger
    than its own choices and as many more as there are uncovered shapes of which no instance covers two.
    """
    best = _greedy(covers, everything)
    by_shape = [[one for one in covers.items() if one[1] >> bit & 1] for bit in range(everything.bit_length())]
    shapes = sorted(range(len(by_shape)), key=lambda bit: len(by_shape[bit]))
    reach = [0] * len(by_shape)
    for bit, own in enumerate(by_shape):
        for _, mask in own:
            reach[bit] |= mask
    stack: list[tuple[tuple[str, ...], int]] = [((), everything)]
    nodes = 0
    while stack:
        chosen, left = stack.pop()
        if not left:
            if len(chosen) < len(best):
                best = list(chosen)
            continue
        nodes += 1
        if nodes > nodes_at_most:
            return best, False
        needed, apart = 0, left
        for bit in shapes:
            if apart >> bit & 1:
                needed += 1
                apart &= ~reach[bit]
        if len(chosen) + needed >= len(best):
            continue
        rarest = next(bit for bit in shapes if left >> bit & 1)
        options = sorted(by_shape[rarest], key=lambda one: (one[1] & left).bit_count())
        stack += [((*chosen, instance), left & ~mask) for instance, mask in options]
    return best, True


def _greedy(covers: Mapping[str, int], everything: int) -> list[str]:
    chosen: list[str] = []
    left = everything
    while left:
        instance = max(covers, key=lambda one: (covers[one] & left).bit_count())
        chosen.append(instance)
        left &= ~covers[instance]
    return chosen
