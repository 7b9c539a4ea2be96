"""Large problems of operations of which nothing is known: how many of their workgroups are executed.

A few are executed first, by whose instructions the cost of all is known. Where that is much, a sample is executed in
place of all of them: the corners of the grid, those between them, and some out of equal shares (`native/sampling.c`).
"""

from __future__ import annotations

PROBED_WORKGROUPS = 8
"""Executed to learn what a workgroup costs."""

WHOLE_COST = 1 << 22
"""Instructions of a launch that is executed whole, an access to memory as 64, a matrix instruction as 128: of a kernel
that mostly accesses memory a second, with all that is compared then."""

SAMPLED_COST = 1 << 21
"""The same of a sample."""

LEAST_SAMPLED, MOST_SAMPLED = 32, 1 << 14

LEAST_ELEMENTS = 1 << 16
"""Of all tensors of a problem; smaller ones are executed whole at once."""


def sample_size(workgroups: int, cost: int) -> int:
    """Return how many of the `workgroups`, which cost `cost` in all, are executed; 0 for all of them."""
    if cost <= WHOLE_COST:
        return 0
    wanted = min(max(workgroups * SAMPLED_COST // cost, LEAST_SAMPLED), MOST_SAMPLED)
    return wanted if 2 * wanted < workgroups else 0
