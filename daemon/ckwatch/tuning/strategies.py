"""Strategies: in which order points of a space are evaluated.

A strategy is one generator function. It yields the next point to evaluate, or None for "nothing more until a result
arrives", and ends when the space is exhausted. The driver pulls when it has room for another evaluation and enters what
came out into `Search.known`: several points may be outstanding, and results may arrive late and in any order. No point
is yielded twice, nor one that `known` has from the start. Equal seeds and an equal order of results give equal points.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ckwatch.tuning.space import Point, Space


@dataclass(slots=True)
class Search:
    """What a strategy knows.

    `seeds` are points to begin with, the most promising first; `known` holds the cost of each evaluated point in µs,
    `math.inf` for one that failed, and is filled while the strategy runs. `predicted` gives a cost without an
    evaluation, None where it has none.
    """

    space: Space
    rng: random.Random
    seeds: Sequence[Point] = ()
    known: dict[Point, float] = field(default_factory=dict)
    predicted: Callable[[Point], float | None] | None = None


Strategy = Callable[[Search], Iterator[Point | None]]


def all_points(search: Search) -> Iterator[Point | None]:
    """Every allowed point, seeds first."""
    done = set(search.known)
    for point in _chain(search.seeds, search.space):
        if point not in done and search.space.is_allowed(point):
            done.add(point)
            yield point


def random_points(search: Search) -> Iterator[Point | None]:
    """Allowed points at random, each as likely as another, seeds first."""
    done = set(search.known)
    for point in _chain(search.seeds, _at_random(search, done)):
        if point not in done and search.space.is_allowed(point):
            done.add(point)
            yield point


def local_search(search: Search) -> Iterator[Point | None]:
    """Neighbours of the best point, from a random one where none is left."""
    done = set(search.known)
    drawn = _at_random(search, done)
    for point in search.seeds:
        if point not in done and search.space.is_allowed(point):
            done.add(point)
            yield point
    while True:
        best = min(search.known, key=search.known.__getitem__, default=None)
        near: list[Point] = []
        if best is not None and math.isfinite(search.known[best]):
            near = [point for point in search.space.neighbours(best) if point not in done]
        point_or_none = near[0] if near else next(drawn, None)
        if point_or_none is None:
            return
        if point_or_none not in done:
            done.add(point_or_none)
            yield point_or_none


def _chain(first: Sequence[Point], then: Space | Iterator[Point]) -> Iterator[Point]:
    yield from first
    yield from then


def _at_random(search: Search, done: set[Point]) -> Iterator[Point]:
    """Allowed points that are not `done`, at random; in the end all that are left."""
    misses = 0
    while misses < 50:
        point = search.space.random(search.rng)
        if point is None:
            return
        if point in done:
            misses += 1
        else:
            misses = 0
            yield point
    yield from (point for point in search.space.points(search.rng) if search.space.is_allowed(point))


STRATEGIES: Mapping[str, Strategy] = {"local": local_search, "random": random_points, "all": all_points}
"""By name, the default first."""
