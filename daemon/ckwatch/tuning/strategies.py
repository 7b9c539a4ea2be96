"""Strategies: in which order points of a space are evaluated.

A strategy is one generator function. It yields the next point to evaluate, or None for "nothing more until a result
arrives", and ends when the space is exhausted. The driver pulls when it has room for another evaluation and enters what
came out into `Search.known`: several points may be outstanding, and results may arrive late and in any order. No point
is yielded twice, nor one that `known` has from the start. Equal seeds and an equal order of results give equal points.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.space import Point, Space
from ckwatch.tuning.surrogate import Features, Floats, GaussianProcess, expected_improvement

SORTED_AT_MOST = 20_000
"""Points up to which all of them are sorted by their predictions."""

MOVES = 20
"""Adjacent moves that are tried for one that is new."""

LEAST_TIMED = 3
"""Points that must have run before a model is fitted."""

POOL, FRESH = 200, 20
"""Random points among which a proposal is chosen, beside the neighbours of the best points; how many are new."""

PREDICTED = 25
"""Random points of which the one that is predicted to be the fastest is evaluated first."""

CENTRAL = 64
"""Random points of which the one nearest to the middle begins a search without seeds: sizes are listed from too small
to too large."""

CLIMB = 3
"""Steps from the best point of the pool to a better neighbour."""

SUREST = 0.95
"""The highest probability of a failure that is predicted: what fails is not known before it is tried."""

POINTS_AT_MOST = 300
"""Points that the model knows: the fastest and the latest; a proposal takes milliseconds."""

REFIT = 1.15


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings of `local_search`; `python -m benchmarks.search --cross-validate` compares them.

    `first_points` are evaluated before a model is fitted; `near_best` points have their neighbours in the pool;
    `bounds` are taken in turn: the expected improvement (None), and the lower confidence bounds of so many deviations.
    The model is of log(log(cost / best) + `near`): it tells fast points apart rather than slow ones.
    """

    first_points: int = 5
    near_best: int = 3
    bounds: tuple[float | None, ...] = (None, 1.0, 2.0)
    near: float = 0.3


@dataclass(slots=True)
class Search:
    """The knowledge of a strategy.

    `seeds` are points to begin with, the most promising first; `known` holds the cost of each evaluated point in µs,
    `math.inf` for one that failed, and is filled while the strategy runs. `predicted` gives a cost without an
    evaluation, None where it has none.
    """

    space: Space
    rng: random.Random
    seeds: Sequence[Point] = ()
    known: dict[Point, float] = field(default_factory=dict)
    predicted: Callable[[Point], float | None] | None = None
    settings: LocalSettings = LocalSettings()


Strategy = Callable[[Search], Iterator[Point | None]]


def all_points(search: Search) -> Iterator[Point | None]:
    """Every allowed point: seeds first, then in the space's order; in a small space by what is predicted."""
    points: Iterable[Point] = search.space
    if (predicted := search.predicted) is not None and search.space.size <= SORTED_AT_MOST:
        costs = {point: predicted(point) for point in search.space}
        points = sorted(costs, key=lambda point: math.inf if (cost := costs[point]) is None else cost)
    yield from _once(search, points, set(search.known))


def random_points(search: Search) -> Iterator[Point | None]:
    """Allowed points at random, each as likely as another, seeds first."""
    done = set(search.known)
    yield from _once(search, _at_random(search, done), done)


def _once(search: Search, points: Iterable[Point], done: set[Point]) -> Iterator[Point]:
    """The seeds, then the other allowed points, each that is not yet `done`."""
    for point in itertools.chain(search.seeds, points):
        if point not in done and search.space.is_allowed(point):
            done.add(point)
            yield point


def local_search(search: Search) -> Iterator[Point | None]:
    """Neighbours of the best points and random ones, by what a model of the cost expects of them.

    After seeds, or a point in the middle of the space, and a few adjacent moves from the best one, as annealing makes
    them, a Gaussian process is fitted to the costs. Each proposal is the best of a pool, by the expected improvement
    and by lower confidence bounds in turn, from which the search climbs to better neighbours. What failed counts as the
    slowest that ran; outstanding points count as expected.
    """
    proposed = set(search.known)
    drawn = _at_random(search, proposed)
    pool = _Pool(search, proposed)
    yield from _once(search, (), proposed)
    for turn in itertools.count(len(search.known)):
        ranked = sorted((cost, point) for point, cost in search.known.items() if math.isfinite(cost))
        if len(search.known) < search.settings.first_points or len(ranked) < LEAST_TIMED:
            chosen = _promising(search, proposed) or _first_move(search, proposed, [point for _, point in ranked[:1]])
        else:
            chosen = pool.best([point for _, point in ranked[: search.settings.near_best]], turn)
        if chosen is None:
            chosen = next((point for point in drawn if point not in proposed), None)
        if chosen is None:
            return
        proposed.add(chosen)
        yield chosen


def _first_move(search: Search, proposed: set[Point], best: Sequence[Point]) -> Point | None:
    """The middle of the space, then adjacent points of the best one; None where that has none."""
    if not proposed:
        drawn = [one for one in (search.space.random(search.rng) for _ in range(CENTRAL)) if one is not None]
        return min(drawn, key=search.space.off_centre, default=None)
    moves = (one for point in best for one in search.space.adjacent(point, search.rng, MOVES))
    return next((one for one in moves if one not in proposed), None)


class _Pool:
    """Points among which the model chooses: neighbours of the best points, and random ones that are kept."""

    def __init__(self, search: Search, proposed: set[Point]) -> None:
        self._search = search
        self._proposed = proposed
        self._model = _CostModel(search)
        self._near: dict[Point, list[Point]] = {}
        self._kept: list[Point] = []

    def best(self, best_points: Sequence[Point], turn: int) -> Point | None:
        """The point to propose, from which no neighbour is better; None where all points of the pool were."""
        space = self._search.space
        for point in best_points:
            if point not in self._near:
                self._near[point] = space.neighbours(point)
        drawn = (space.random(self._search.rng) for _ in range(FRESH if self._kept else POOL))
        self._kept = [*self._kept, *(one for one in drawn if one is not None)][-POOL:]
        pool = self._open([*(one for point in best_points for one in self._near[point]), *self._kept])
        if not pool:
            return None
        self._model.update([point for point in self._proposed if point not in self._search.known])
        chosen, score = self._model.best(pool, turn)
        for _ in range(CLIMB):
            around = self._open(space.neighbours(chosen))
            better, better_score = self._model.best(around, turn) if around else (chosen, score)
            if better_score <= score:
                break
            chosen, score = better, better_score
        return chosen

    def _open(self, points: Iterable[Point]) -> list[Point]:
        return [point for point in dict.fromkeys(points) if point not in self._proposed]


def _promising(search: Search, proposed: set[Point]) -> Point | None:
    """The one of some random points that is predicted to be the fastest; None where nothing is predicted."""
    if search.predicted is None:
        return None
    found = []
    for _ in range(PREDICTED):
        point = search.space.random(search.rng)
        if point is not None and point not in proposed and (cost := search.predicted(point)) is not None:
            found.append((cost, point))
    return min(found)[1] if found else None


class _CostModel:
    """A Gaussian process over a space; a prediction of the cost is one more feature of a point."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._features = Features(search.space.axes)
        self._process = GaussianProcess(self._features.count + (search.predicted is not None))
        self._failures = GaussianProcess(self._features.count)
        self._fails = False
        self._spread = 0.0
        self._fitted_to = 0
        self._best = 0.0

    def update(self, outstanding: Sequence[Point]) -> None:
        """Take over what is known; the length scales are fitted anew when there is some more than the last time."""
        known = self._search.known
        points = list(known)
        if len(points) > POINTS_AT_MOST:
            half = POINTS_AT_MOST // 2
            points = list(dict.fromkeys([*sorted(points, key=known.__getitem__)[:half], *points[-half:]]))
        failed = np.array([math.isinf(known[point]) for point in points])
        every = self._rows(points)
        logs = np.array([math.log(max(known[point], 1e-9)) for point in points])[~failed]
        y = np.log(logs - logs.min() + self._search.settings.near)
        x = every[~failed]
        self._best, self._spread = float(y.min()), float(np.ptp(y))
        grown = len(points) >= REFIT * self._fitted_to
        self._fails = bool(failed.any())
        if self._fails:
            of_parameters = every[:, : self._features.count]
            if grown:
                self._failures.learn(of_parameters, failed.astype(float))
            self._failures.condition(of_parameters, failed.astype(float))
        if grown:
            self._process.learn(x, y)
            self._fitted_to = len(points)
        self._process.condition(x, y)
        if outstanding:
            more = self._rows(outstanding[-POINTS_AT_MOST:])
            believed, _ = self._process.predict(more)
            self._process.condition(np.vstack([x, more]), np.concatenate([y, believed]))

    def best(self, pool: Sequence[Point], turn: int) -> tuple[Point, float]:
        """The point to evaluate next, and its score."""
        rows = self._rows(pool)
        mean, deviation = self._process.predict(rows)
        bounds = self._search.settings.bounds
        bound = bounds[turn % len(bounds)]
        improvement = expected_improvement(mean, deviation, self._best)
        scores = improvement if bound is None else bound * deviation - mean
        if self._fails:
            failing = np.clip(self._failures.predict(rows[:, : self._features.count])[0], 0.0, SUREST)
            scores = scores * (1 - failing) if bound is None else scores - failing * self._spread
        at = int(np.argmax(scores))
        return pool[at], float(scores[at])

    def _rows(self, points: Sequence[Point]) -> Floats:
        rows = self._features.of([self._search.space.coordinates(point) for point in points])
        if (predicted := self._search.predicted) is None:
            return rows
        costs = [predicted(point) for point in points]
        column = np.array([math.nan if cost is None or cost <= 0 else math.log(cost) for cost in costs])
        fill = float(np.nanmean(column)) if np.isfinite(column).any() else 0.0
        return np.column_stack([rows, np.where(np.isfinite(column), column, fill)])


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
