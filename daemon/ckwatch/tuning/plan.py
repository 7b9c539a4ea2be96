"""The plan of a run: its knowledge and its next evaluation. Pure; `ckwatch.tuning.runner` carries it out.

A strategy proposes points for each shape; shapes take turns. A point that was the best of one shape is offered to the
others. Results of earlier runs wait in `ShapeSearch.recalled` until the strategy proposes their points again; when it
goes beyond them, the rest is taken over, too.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.results import (
    TIMED,
    EvaluatedPoint,
    EvaluationStatus,
    KnownResult,
    RunBest,
    ShapeResult,
    TuningRun,
)
from ckwatch.tuning.space import Point
from ckwatch.tuning.strategies import STRATEGIES, Search
from ckwatch.tuning.tuned_kernel import TunedKernel, problem_text

PATIENCE = 40
"""A shape's search ends after so many evaluations that have brought nothing."""

GAIN = 0.005
"""A part by which a time must be shorter to count as better."""

CLEARLY_WORSE = 1.05
"""An instance is given up when it is certainly slower than the upper end of the best one's interval by this factor:
those that may be within some percent of the best are measured, since a dispatcher chooses among them."""

FINAL_SHAPES = 24
"""With up to so many shapes, the best instances of each are timed on the others, for the smallest set."""

COUNTED = (*TIMED, EvaluationStatus.WRONG, EvaluationStatus.CRASHED, EvaluationStatus.HUNG)
"""Results that took a measurement."""


@dataclass(frozen=True, slots=True)
class TuningStep:
    """Something that has happened: `point` has a new result, which is the `best` on its shape so far, or not.

    `known`: it was measured by an earlier run. `measured`: how many results were measured so far, known ones too.
    """

    point: EvaluatedPoint
    result: ShapeResult
    best: bool
    known: bool
    measured: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """How to tune. `measurements` and `budget_s` end the run with the best so far; `patience`: evaluations of a shape
    that bring nothing, after which its search ends. `racing`: give up what is clearly worse. `jobs`: compiles at a
    time."""

    strategy: str = "local"
    seed: int = 0
    budget_s: float | None = None
    measurements: int | None = None
    patience: int | None = PATIENCE
    racing: bool = True
    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise CkwatchError(f"there is no strategy '{self.strategy}'", f"there are {', '.join(STRATEGIES)}")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A point to evaluate on a shape. `known`: its result in an earlier run, if it has one."""

    shape: str
    point: Point
    known: KnownResult | None = None


WAIT: Literal["wait"] = "wait"
Next = Evaluation | tuple[Evaluation, ...] | Literal["wait"]
"""An evaluation to begin, known results to take over before anything else, or nothing until a result arrives."""


@dataclass(slots=True)
class ShapeSearch:
    """The search for one shape. `offered` are points that were good on other shapes."""

    name: str
    problem: str
    """Sizes and runtime arguments, as the journal has them."""
    search: Search
    proposals: Iterator[Point | None] | None = None
    """None when the search is over."""
    offered: deque[Point] = field(default_factory=deque)
    asked: set[Point] = field(default_factory=set)
    results: dict[Point, ShapeResult] = field(default_factory=dict)
    best: tuple[float, Point] | None = None
    recalled: dict[Point, KnownResult] = field(default_factory=dict)
    idle: int = 0
    """Evaluations since the last gain."""

    def propose(self, patience: int | None) -> Point | None:
        """The next point for this shape; None where there is none, or none until a result arrives."""
        if self.proposals is not None and patience is not None and self.idle >= patience and not self.offered:
            self.proposals = None
        if self.proposals is None:
            return None
        while True:
            point = self.offered.popleft() if self.offered else next(self.proposals, None)
            if point is None or point not in self.asked:
                break
        if point is not None:
            self.asked.add(point)
        return point

    def take_over_rest(self) -> tuple[Evaluation, ...]:
        """Earlier results of points that were not proposed."""
        rest, self.recalled = self.recalled, {}
        return tuple(Evaluation(self.name, point, known) for point, known in rest.items())


class EvaluatedPoints:
    """The points of a run in order; of `earlier` ones, from before an interruption, those with results keep their
    places."""

    def __init__(self, tuned: TunedKernel, earlier: Sequence[EvaluatedPoint]) -> None:
        self.points: dict[Point, EvaluatedPoint] = {}
        self.earlier = {point: one for one in earlier if (point := tuned.point_of(one.parameters)) is not None}
        self._tuned = tuned
        self._unwritten: dict[int, EvaluatedPoint] = {}
        self._kept = {one.order for one in earlier}
        self._last = max(self._kept, default=0)

    def add(self, point: Point, result: ShapeResult, device: str, seconds: float) -> EvaluatedPoint:
        """Add a result to its point."""
        evaluated = self.points.get(point) or self._evaluated(point, result, device, seconds)
        evaluated = replace(evaluated, results=(*evaluated.results, result), device=device or evaluated.device)
        self.points[point] = self._unwritten[evaluated.order] = evaluated
        return evaluated

    def _evaluated(self, point: Point, result: ShapeResult, device: str, seconds: float) -> EvaluatedPoint:
        earlier = self.earlier.get(point)
        if earlier is not None and result in earlier.results:
            return replace(earlier, results=())
        if earlier is None:
            self._last += 1
        return EvaluatedPoint(
            order=self._last if earlier is None else earlier.order,
            seconds=seconds,
            instance=self._tuned.name_of(point),
            parameters=self._tuned.space.parameters(point) or {},
            results=(),
            device=device,
        )

    def unwritten(self) -> list[EvaluatedPoint]:
        """Return the points that changed since the last call."""
        found, self._unwritten = list(self._unwritten.values()), {}
        return found

    def outdated(self) -> list[int]:
        """The orders of earlier points that have no results any more."""
        return sorted(self._kept.difference(point.order for point in self.points.values()))


class Plan:
    """The searches of a run. `ended` says why it has ended, empty while it goes on; `measured` counts results that took
    a measurement, those of earlier runs too; `jobs` compilers run at a time."""

    def __init__(
        self,
        tuned: TunedKernel,
        options: TuningOptions,
        seeds: Mapping[str, Sequence[Point]],
        *,
        devices: int,
        processors: int,
    ) -> None:
        self.evaluated = EvaluatedPoints(tuned, ())
        self.measured = 0
        self.ended = ""
        self._tuned = tuned
        self._options = options
        self.jobs = options.jobs or tuned.jobs or processors
        self._room = self.jobs + (0 if tuned.on_processor else 2 * devices)
        self._running = 0
        self._searches = {shape.name: self._search(shape, seeds.get(shape.name, ())) for shape in tuned.shapes}

    def _search(self, shape: Shape, seeds: Sequence[Point]) -> ShapeSearch:
        search = Search(
            space=self._tuned.space,
            rng=random.Random(f"{self._options.seed} {shape.name}"),  # noqa: S311  # a search
            seeds=tuple(seeds),
            predicted=lambda point: self._tuned.predicted_us(point, shape.name),
        )
        return ShapeSearch(shape.name, problem_text(shape), search, STRATEGIES[self._options.strategy](search))

    def problem(self, shape: str) -> str:
        """A shape's sizes and runtime arguments, as the journal has them."""
        return self._searches[shape].problem

    def recall(self, known: Sequence[KnownResult], earlier: Sequence[EvaluatedPoint]) -> dict[Point, KnownResult]:
        """Recall what earlier runs have found, and this one before an interruption; return what was recalled."""
        self.evaluated = EvaluatedPoints(self._tuned, earlier)
        found = {}
        for one in known:
            if (point := self._tuned.point_of(one.parameters)) is not None:
                found[point] = one
                for search in self._searches.values():
                    if one.problem in ("", search.problem):
                        search.recalled[point] = one
        return found

    def steps(self) -> Iterator[Next]:
        """Steps of the run, from begin to end. A step may take a strategy milliseconds."""
        yield from self._search_all()
        yield from self.take_over_rest()
        if not self.ended:
            patient = any(search.proposals is None for search in self._searches.values())
            self.ended = "nothing better was found for long" if patient else "the whole space was tried"
        yield from self._final_heats()

    def _search_all(self) -> Iterator[Next]:
        turns = deque(self._searches.values())
        while True:
            if self._is_full():
                yield WAIT
                continue
            if self._is_spent:
                return
            point = None
            for _ in self._searches:
                search = turns[0]
                turns.rotate(-1)
                if (point := search.propose(self._options.patience)) is not None:
                    break
            if point is not None:
                if search.recalled and point not in search.recalled:
                    yield search.take_over_rest()
                yield self._begun(search, point)
            elif self._running:
                yield WAIT
            else:
                return

    def take_over_rest(self) -> Iterator[tuple[Evaluation, ...]]:
        """Earlier results that no search has proposed."""
        for search in self._searches.values():
            if search.recalled:
                yield search.take_over_rest()

    def _final_heats(self) -> Iterator[Next]:
        """The best instances of each shape on the others, so that a dispatcher can do with few of them."""
        searches = self._searches.values() if len(self._searches) <= FINAL_SHAPES else ()
        winners = dict.fromkeys(search.best[1] for search in searches if search.best is not None)
        for search in searches:
            for point in winners:
                while self._is_full():
                    yield WAIT
                if point not in search.results and not self._is_spent:
                    search.asked.add(point)
                    yield self._begun(search, point)
        while self._running:
            yield WAIT

    def _begun(self, search: ShapeSearch, point: Point) -> Evaluation:
        self._running += 1
        return Evaluation(search.name, point, search.recalled.pop(point, None))

    def _is_full(self) -> bool:
        """Return True if something must end before anything begins."""
        limit = self._options.measurements
        spent = limit is not None and self.measured + self._running >= limit
        return self._running > 0 and (self._running >= self._room or spent)

    @property
    def _is_spent(self) -> bool:
        limit = self._options.measurements
        if limit is None or self.measured < limit:
            return False
        self.ended = self.ended or "all measurements of the budget are done"
        return True

    def refusal(self, evaluation: Evaluation) -> ShapeResult | None:
        """The result of an instance that does not support the shape, if that is known."""
        reason = self._tuned.unsupported(evaluation.point, evaluation.shape)
        return ShapeResult(shape=evaluation.shape, status=EvaluationStatus.REFUSED, reason=reason) if reason else None

    def is_settled(self, evaluation: Evaluation) -> bool:
        """Return True if the point has a result on the shape."""
        return evaluation.point in self._searches[evaluation.shape].results

    def limit_us(self, shape: str) -> float | None:
        """The time above which an instance is clearly worse than the best on a shape."""
        search = self._searches[shape]
        if search.best is None or not self._options.racing:
            return None
        return CLEARLY_WORSE * (search.results[search.best[1]].high_us or search.best[0])

    def finish(self) -> None:
        """An evaluation that was begun has ended."""
        self._running -= 1

    def settle(
        self, point: Point, result: ShapeResult, seconds: float, *, device: str = "", known: bool = False
    ) -> list[TuningStep]:
        """Take a result: of all shapes that have none if it names none, as of an instance that cannot be built."""
        if result.shape:
            own = [self._searches[result.shape]]
        else:
            own = [search for search in self._searches.values() if point not in search.results]
        return [
            self._settle(search, point, replace(result, shape=search.name), seconds, device, known) for search in own
        ]

    def _settle(
        self, search: ShapeSearch, point: Point, result: ShapeResult, seconds: float, device: str, known: bool
    ) -> TuningStep:
        cost = result.median_us if result.status in TIMED and result.median_us is not None else math.inf
        search.results[point] = result
        search.asked.add(point)
        search.search.known[point] = cost
        self.measured += result.status in COUNTED
        best_us = math.inf if search.best is None else search.best[0]
        better = result.status is EvaluationStatus.MEASURED and cost < best_us
        search.idle = 0 if better and cost < best_us * (1 - GAIN) else search.idle + 1
        if better:
            search.best = (cost, point)
            for other in self._searches.values():
                if other is not search:
                    other.offered.append(point)
        evaluated = self.evaluated.add(point, result, device, seconds)
        return TuningStep(evaluated, result, better, known, self.measured, seconds)

    def progress(self, begun: TuningRun, ended: str) -> TuningRun:
        """How far the run is, which was so when it was `begun`."""
        best = {
            search.name: RunBest(self.evaluated.points[search.best[1]].instance, search.best[0])
            for search in self._searches.values()
            if search.best is not None
        }
        measured, points = self.measured, set(self.evaluated.points)
        if not ended:  # what was found before an interruption comes back bit by bit
            measured = max(measured, begun.measured)
            points |= self.evaluated.earlier.keys()
            for shape, before in begun.best.items():
                best[shape] = min(before, best.get(shape, before), key=lambda one: one.median_us)
        return replace(begun, ended=ended, measured=measured, points=len(points), best=best)
