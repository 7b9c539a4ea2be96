"""Search spaces: products of parameter values with conditions, listed instances, and several of these joined.

A space may have many millions of points and is never expanded. Points are drawn, compared and walked by the indices of
their values. What a condition or the `allowed` predicate refuses is met nowhere but in `refusal` and in the coverage.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.parameters import Condition, Derivation, identity
from ckwatch.workspace.product import ConditionFailedError, Product, TooManyCombinationsError
from ckwatch.workspace.product import Point as Point
from ckwatch.workspace.sweep import SweepPlan

Parameters = Mapping[str, ParameterValue]
Allowed = Callable[[Parameters], str]
"""The reason why the parameters are refused, empty where they are not. What stands before `: ` names the rule."""

LISTED_AT_MOST = 50_000
"""Parameters that conditions tie together are listed up to this many steps, and drawn from the list."""

DRAWS = 4
"""Random descents among which one is chosen by its weight, where a list would be too long."""

DRAW_STEPS = 2000
"""Choices of a value until a descent that goes back gives up."""

TRIES = 500
"""Draws that `allowed` may refuse before a small space is walked."""

LONG_TRIES = 20_000
"""The same for the first point of a large one, which is not walked."""

RARE = 20
"""If one in so many draws is allowed, points are made from others."""

MET_AT_MOST = 2000
"""Points that others are made from."""

JUMP = 0.2
"""How likely an adjacent move takes any value of an axis."""

WALK_STEPS = 20_000
"""Choices of a value until a value is called undecided in the coverage."""

EXACT_UP_TO = 20_000
"""Points up to which the coverage looks at all of them."""


def is_ordered(values: Iterable[ParameterValue]) -> bool:
    """Return True if values have an order: numbers other than truth values."""
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter and its values. `ranks` are the values' places in their order, None for values without one.

    `places` are the values' indices, by type and value.
    """

    parameter: str
    values: tuple[ParameterValue, ...]
    ranks: tuple[int, ...] | None
    places: Mapping[object, int]

    @classmethod
    def of(cls, parameter: str, values: Iterable[ParameterValue]) -> Axis:
        """The axis of distinct `values`."""
        own = tuple(values)
        ranks = {value: rank for rank, value in enumerate(sorted(own))} if is_ordered(own) else None
        places = {_key(value): index for index, value in enumerate(own)}
        return cls(parameter, own, None if ranks is None else tuple(ranks[value] for value in own), places)

    def index(self, parameters: Parameters) -> int:
        """The index of the value in `parameters`, −1 where they have another or none."""
        return self.places.get(_key(parameters[self.parameter]), -1) if self.parameter in parameters else -1

    def distance(self, one: int, other: int) -> float:
        """How far two values are from each other: 0, or at least 1."""
        if one == other or one < 0 or other < 0 or self.ranks is None:
            return float(one != other)
        return float(abs(self.ranks[one] - self.ranks[other]))

    def step(self, at: int, rng: random.Random) -> int:
        """The index of a value at most one step away; now and then, and of values without order, any."""
        if self.ranks is None or rng.random() < JUMP:
            return rng.randrange(len(self.values))
        rank = self.ranks[at] + rng.randint(-1, 1)
        return self.ranks.index(min(max(rank, 0), len(self.values) - 1))


class Space(ABC):
    """Points, and the parameters that they stand for."""

    axes: tuple[Axis, ...]
    """The parameters that differ between points."""

    def __init__(self, allowed: Allowed | None = None) -> None:
        self._allowed = allowed
        self._refusals: dict[Point, str] = {}
        self._drawn = 0
        self._met: list[Point] = []

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of points before anything is refused."""

    @abstractmethod
    def parameters(self, point: Point) -> dict[str, ParameterValue] | None:
        """Return the parameters of `point`, or None if a condition rules it out."""

    @abstractmethod
    def point_of(self, parameters: Parameters) -> Point | None:
        """The point that stands for `parameters`, refused or not; None where there is none."""

    @abstractmethod
    def coordinates(self, point: Point) -> Point:
        """The index of the point's value on each of `axes`, −1 where it has another."""

    @abstractmethod
    def weight(self) -> float:
        """About how many points the conditions allow."""

    @abstractmethod
    def points(self, rng: random.Random | None = None) -> Iterator[Point]:
        """The points that the conditions allow, lazily; with `rng` in an order that it chooses."""

    @abstractmethod
    def every_point(self) -> Iterator[Point]:
        """All points, also those that are refused."""

    @abstractmethod
    def any_point(self, rng: random.Random) -> Point | None:
        """One of all points, each as likely as another; None for a space that has none."""

    @abstractmethod
    def _draw(self, rng: random.Random) -> Point | None:
        """A point that the conditions allow, each about as likely as another; None where none was found."""

    @abstractmethod
    def _nearby(self, point: Point) -> Iterator[Sequence[Point]]:
        """Points near `point` in rings, the next ring for where all of the last are refused."""

    @abstractmethod
    def _ruled_out(self, point: Point) -> str:
        """The condition that rules `point` out, empty where none does."""

    @abstractmethod
    def points_with(self, parameter: str, value: ParameterValue, rng: random.Random) -> Iterator[Point]:
        """The points that the conditions allow with `value` for `parameter`, in an order that `rng` chooses.

        Raises TooManyCombinationsError where it takes too long.
        """

    def refusal(self, point: Point) -> str:
        """Why `point` is refused, by a condition or else by the predicate; empty where it is allowed."""
        known = self._refusals.get(point)
        if known is None:
            known = self._ruled_out(point)
            if not known and self._allowed is not None:
                parameters = self.parameters(point)
                known = self._allowed(parameters) if parameters is not None else ""
            self._refusals[point] = known
        return known

    def is_allowed(self, point: Point) -> bool:
        """Return True if nothing refuses `point`."""
        return not self.refusal(point)

    def __iter__(self) -> Iterator[Point]:
        """The allowed points, lazily."""
        return (point for point in self.points() if self.is_allowed(point))

    def meet(self, point: Point) -> None:
        """Let `point`, if it is allowed, be one that others are made from."""
        if self.is_allowed(point):
            self._note(point)

    def _note(self, point: Point) -> Point:
        if len(self._met) < MET_AT_MOST:
            self._met.append(point)
        return point

    def _varied(self, point: Point, rng: random.Random) -> Point:
        """A point like `point`."""
        return self.any_point(rng) or point

    def adjacent(self, point: Point, rng: random.Random, count: int) -> list[Point]:
        """Up to `count` distinct allowed points at most one step from `point` on most axes, as annealing moves."""
        found = (one for one in self._steps_from(point, rng) if one != point and self.is_allowed(one))
        return list(dict.fromkeys(itertools.islice(found, count)))

    @abstractmethod
    def _steps_from(self, point: Point, rng: random.Random) -> Iterator[Point]:
        """Points at most one step from `point` on most axes, at random and not endlessly."""

    def random(self, rng: random.Random) -> Point | None:
        """An allowed point; None where there is none, or none was found in a large space.

        Each is about as likely as another as long as the predicate refuses few. Where it refuses nearly all, points are
        also made from those that were met, by other values on some axes.
        """
        rare = self._drawn > TRIES and len(self._met) * RARE < self._drawn
        if rare and self._met:
            for _ in range(TRIES):
                point = self._varied(rng.choice(self._met), rng)
                if self.is_allowed(point):
                    return self._note(point)
        for _ in range(TRIES if self._met or self.size <= EXACT_UP_TO else LONG_TRIES):
            drawn = self._draw(rng)
            self._drawn += 1
            if drawn is not None and self.is_allowed(drawn):
                return self._note(drawn)
        if self.size > EXACT_UP_TO:
            return None
        return next((point for point in self.points(rng) if self.is_allowed(point)), None)

    def neighbours(self, point: Point) -> list[Point]:
        """The allowed points that differ from `point` in one parameter, else in as few as there are; nearest first."""
        for ring in self._nearby(point):
            if found := [one for one in ring if self.is_allowed(one)]:
                return found
        return []

    def off_centre(self, point: Point) -> float:
        """How far a point is from the middle of the axes whose values have an order: at most half of their number."""
        return sum(
            abs(axis.ranks[at] / (len(axis.values) - 1) - 0.5)
            for axis, at in zip(self.axes, self.coordinates(point), strict=True)
            if axis.ranks is not None and at >= 0 and len(axis.values) > 1
        )

    def distance(self, one: Point, other: Point) -> tuple[int, float]:
        """In how many parameters two points differ, and by how many steps in all."""
        steps = [
            axis.distance(here, there)
            for axis, here, there in zip(self.axes, self.coordinates(one), self.coordinates(other), strict=True)
        ]
        return sum(step > 0 for step in steps), sum(steps)


class ProductSpace(Space):
    """A product of axes with conditions and derived parameters. A point is the index of its value on each axis.

    `rules` refuse what `allowed` does, but know the few parameters that each depends on: points are walked and drawn by
    them, and a reason is still that of `allowed`.
    """

    def __init__(
        self,
        product: Product,
        allowed: Allowed | None = None,
        *,
        rules: Sequence[Condition] = (),
        listed_at_most: int = LISTED_AT_MOST,
    ) -> None:
        super().__init__(allowed)
        self._product = product
        self._walked = Product(
            product.axes,
            product.fixed,
            [*product.conditions, *(rule for rule in rules if rule.names <= product.names)],
            product.derived,
            failing_is_false=True,
        )
        self._listed_at_most = listed_at_most
        self.axes = tuple(Axis.of(name, values) for name, values in product.axes)
        self._groups: list[_Group] | None = None

    @classmethod
    def of_sweep(
        cls, sweep: SweepPlan, allowed: Allowed | None = None, rules: Sequence[Condition] = ()
    ) -> ProductSpace:
        """The space of a `[[sweep]]`."""
        return cls(sweep.product(failing_is_false=True), allowed, rules=rules)

    @property
    def size(self) -> int:
        return self._product.size

    def parameters(self, point: Point) -> dict[str, ParameterValue] | None:
        return None if self._ruled_out(point) else self._product.values(point)

    def point_of(self, parameters: Parameters) -> Point | None:
        try:
            point = tuple(axis.places[_key(parameters[axis.parameter])] for axis in self.axes)
            whole = self._product.values(point)
        except (KeyError, ConditionFailedError):
            return None
        return point if identity(whole) == identity(parameters) else None

    def coordinates(self, point: Point) -> Point:
        return point

    def every_point(self) -> Iterator[Point]:
        return itertools.product(*(range(len(axis.values)) for axis in self.axes))

    def any_point(self, rng: random.Random) -> Point | None:
        return tuple(rng.randrange(len(axis.values)) for axis in self.axes) if self.size else None

    def points(self, rng: random.Random | None = None) -> Iterator[Point]:
        return self._walked.walk(None if rng is None else self._shuffled(rng))

    def points_with(self, parameter: str, value: ParameterValue, rng: random.Random) -> Iterator[Point]:
        shuffled = self._shuffled(rng)
        at = next(index for index, axis in enumerate(self.axes) if axis.parameter == parameter)
        taken = self.axes[at].places[_key(value)]
        return self._walked.walk(lambda depth: (taken,) if depth == at else shuffled(depth), WALK_STEPS)

    def weight(self) -> float:
        return math.prod(group.weight for group in self._independent())

    def _varied(self, point: Point, rng: random.Random) -> Point:
        changed = list(point)
        for at in rng.sample(range(len(self.axes)), min(rng.randint(1, 4), len(self.axes))):
            changed[at] = rng.randrange(len(self.axes[at].values))
        return tuple(changed)

    def _steps_from(self, point: Point, rng: random.Random) -> Iterator[Point]:
        for _ in range(TRIES):
            yield tuple(axis.step(at, rng) for axis, at in zip(self.axes, point, strict=True))

    def _shuffled(self, rng: random.Random) -> Callable[[int], Iterable[int]]:
        return lambda depth: rng.sample(range(len(self.axes[depth].values)), len(self.axes[depth].values))

    def _ruled_out(self, point: Point) -> str:
        try:
            condition = self._product.ruled_out(point)
            if condition is not None:
                return f"`{condition.text}`"
            self._product.derived_values(point)
        except ConditionFailedError as failure:
            return f"`{failure.cause.text}` fails: {failure}"
        return ""

    def _draw(self, rng: random.Random) -> Point | None:
        chosen = [0] * len(self.axes)
        for group in self._independent():
            part = group.draw(rng)
            if part is None:
                return None
            for axis, index in zip(group.axes, part, strict=True):
                chosen[axis] = index
        return tuple(chosen)

    def _nearby(self, point: Point) -> Iterator[Sequence[Point]]:
        moves = sorted(
            (axis.distance(point[at], index), at, index)
            for at, axis in enumerate(self.axes)
            for index in range(len(axis.values))
            if index != point[at]
        )
        yield [(*point[:at], index, *point[at + 1 :]) for _, at, index in moves]
        pairs = sorted(
            (far + further, at, index, there, other)
            for far, at, index in moves
            for further, there, other in moves
            if at < there
        )
        yield [
            (*point[:at], index, *point[at + 1 : there], other, *point[there + 1 :])
            for _, at, index, there, other in pairs
        ]

    def _independent(self) -> list[_Group]:
        """Groups of axes that no condition ties to another group."""
        if self._groups is None:
            tied = list(range(len(self.axes)))
            for axes in self._walked.depends_on:
                for axis in axes[1:]:
                    tied = [tied[axes[0]] if group == tied[axis] else group for group in tied]
            members: dict[int, list[int]] = defaultdict(list)
            for axis, number in enumerate(tied):
                members[number].append(axis)
            self._groups = [_Group(self._walked, axes, self._listed_at_most) for axes in members.values()]
        return self._groups


class _Group:
    """Axes that conditions tie together: their allowed combinations as a list, or drawn by random descents.

    A descent takes a value among those that the conditions allow so far; the product of how many there were is its
    weight (Knuth, Estimating the efficiency of backtrack programs, 1975). One of several, taken by weight, is about
    as likely as any other. Where all of them end at values that exclude each other, one that goes back is taken.
    """

    def __init__(self, product: Product, axes: Sequence[int], listed_at_most: int) -> None:
        self.axes = tuple(axes)
        own = [(condition, product.depends_on[number]) for number, condition in enumerate(product.conditions)]
        self._product = Product(
            [product.axes[axis] for axis in axes],
            product.fixed,
            [condition for condition, on in own if not on or on[0] in axes],
            _derivable(product, axes),
            failing_is_false=True,
        )
        self._listed: list[Point] | None = None
        try:
            self._listed = list(self._product.walk(steps_allowed=listed_at_most))
            self.weight = float(len(self._listed))
        except TooManyCombinationsError:
            rng = random.Random(0)  # noqa: S311  # an estimate
            self.weight = sum(weight for _, weight in (self._descend(rng) for _ in range(64))) / 64

    def draw(self, rng: random.Random) -> Point | None:
        """A combination; None where none was found."""
        if self._listed is not None:
            return rng.choice(self._listed) if self._listed else None
        found = [(point, weight) for point, weight in (self._descend(rng) for _ in range(DRAWS)) if point is not None]
        if not found:
            sizes = [range(len(values)) for _, values in self._product.axes]
            shuffled = self._product.walk(lambda depth: rng.sample(sizes[depth], len(sizes[depth])), DRAW_STEPS)
            with suppress(TooManyCombinationsError):
                return next(shuffled, None)
            return None
        return rng.choices([point for point, _ in found], [weight for _, weight in found])[0]

    def _descend(self, rng: random.Random) -> tuple[Point | None, float]:
        chosen: list[int] = []
        weight = 1.0
        for _ in self._product.axes:
            open_indices = self._product.open_values(chosen)
            if not open_indices:
                return None, 0.0
            weight *= len(open_indices)
            chosen.append(rng.choice(open_indices))
        return tuple(chosen), weight


class ListedSpace(Space):
    """Parameter sets that are listed. A point is the number of its set."""

    def __init__(self, listed: Sequence[Parameters], allowed: Allowed | None = None) -> None:
        super().__init__(allowed)
        self._listed = [dict(parameters) for parameters in listed]
        self.axes = _axes_of(self._listed)
        self._coordinates = [tuple(axis.index(parameters) for axis in self.axes) for parameters in self._listed]
        self._table = np.array(self._coordinates, dtype=np.int32).reshape(len(self._listed), len(self.axes))
        self._ranks = self._table.copy()
        for at, axis in enumerate(self.axes):
            if axis.ranks is not None:
                self._ranks[:, at] = np.array([*axis.ranks, -1])[self._table[:, at]]
        self._point_of = {identity(parameters): (number,) for number, parameters in enumerate(self._listed)}

    @property
    def size(self) -> int:
        return len(self._listed)

    def parameters(self, point: Point) -> dict[str, ParameterValue] | None:
        return dict(self._listed[point[0]])

    def point_of(self, parameters: Parameters) -> Point | None:
        return self._point_of.get(identity(parameters))

    def coordinates(self, point: Point) -> Point:
        return self._coordinates[point[0]]

    def every_point(self) -> Iterator[Point]:
        return ((number,) for number in range(len(self._listed)))

    def any_point(self, rng: random.Random) -> Point | None:
        return (rng.randrange(len(self._listed)),) if self._listed else None

    def points(self, rng: random.Random | None = None) -> Iterator[Point]:
        if rng is None:
            return self.every_point()
        return ((number,) for number in rng.sample(range(len(self._listed)), len(self._listed)))

    def points_with(self, parameter: str, value: ParameterValue, rng: random.Random) -> Iterator[Point]:
        key = _key(value)
        return (
            point
            for point in self.points(rng)
            if parameter in self._listed[point[0]] and _key(self._listed[point[0]][parameter]) == key
        )

    def weight(self) -> float:
        return float(len(self._listed))

    def _ruled_out(self, point: Point) -> str:  # noqa: ARG002  # a list has no conditions
        return ""

    def _draw(self, rng: random.Random) -> Point | None:
        return self.any_point(rng)

    def _steps_from(self, point: Point, rng: random.Random) -> Iterator[Point]:
        free = [axis.ranks is None or rng.random() < JUMP for axis in self.axes]
        steps = np.abs(self._ranks - self._ranks[point[0]])
        near = np.flatnonzero((steps <= np.where(free, len(self._listed), 1)).all(axis=1))
        return ((int(number),) for number in rng.sample(list(near), len(near)))

    def _nearby(self, point: Point) -> Iterator[Sequence[Point]]:
        differing = (self._table != self._table[point[0]]).sum(axis=1)
        for count in np.unique(differing):
            ring = [(int(number),) for number in np.flatnonzero(differing == count) if number != point[0]]
            yield sorted(ring, key=lambda other: (self.distance(point, other), other))


class JoinedSpace(Space):
    """Several spaces as one. A point is the number of its space and the point there.

    Parameters that two of them share stand for the same instance twice; the later one is refused.
    """

    def __init__(self, spaces: Sequence[Space]) -> None:
        super().__init__()
        self.spaces = tuple(spaces)
        samples = [own for space in self.spaces if (own := _some_parameters(space)) is not None]
        swept = {axis.parameter: dict[object, ParameterValue]() for space in self.spaces for axis in space.axes}
        for space in self.spaces:
            for axis in space.axes:
                swept[axis.parameter].update((_key(value), value) for value in axis.values)
        for parameters in samples:
            for name, value in parameters.items():
                others = [own.get(name) for own in samples]
                if name in swept or any(_key(other) != _key(value) for other in others):
                    swept.setdefault(name, {})[_key(value)] = value
        self.axes = tuple(Axis.of(name, values.values()) for name, values in swept.items())

    @property
    def size(self) -> int:
        return sum(space.size for space in self.spaces)

    def parameters(self, point: Point) -> dict[str, ParameterValue] | None:
        return self.spaces[point[0]].parameters(point[1:])

    def point_of(self, parameters: Parameters) -> Point | None:
        for number, space in enumerate(self.spaces):
            if (point := space.point_of(parameters)) is not None:
                return (number, *point)
        return None

    def coordinates(self, point: Point) -> Point:
        parameters = self.spaces[point[0]].parameters(point[1:]) or {}
        return tuple(axis.index(parameters) for axis in self.axes)

    def every_point(self) -> Iterator[Point]:
        return ((number, *point) for number, space in enumerate(self.spaces) for point in space.every_point())

    def any_point(self, rng: random.Random) -> Point | None:
        sizes = [space.size for space in self.spaces]
        if not sum(sizes):
            return None
        number = rng.choices(range(len(sizes)), sizes)[0]
        point = self.spaces[number].any_point(rng)
        return None if point is None else (number, *point)

    def points(self, rng: random.Random | None = None) -> Iterator[Point]:
        numbers = range(len(self.spaces))
        for number in numbers if rng is None else rng.sample(numbers, len(self.spaces)):
            yield from ((number, *point) for point in self.spaces[number].points(rng))

    def points_with(self, parameter: str, value: ParameterValue, rng: random.Random) -> Iterator[Point]:
        for number, space in enumerate(self.spaces):
            if any(axis.parameter == parameter and value in axis.values for axis in space.axes):
                yield from ((number, *point) for point in space.points_with(parameter, value, rng))
            elif (own := _some_parameters(space)) and parameter in own and _key(own[parameter]) == _key(value):
                yield from ((number, *point) for point in space.points(rng))

    def weight(self) -> float:
        return sum(space.weight() for space in self.spaces)

    def _ruled_out(self, point: Point) -> str:
        if reason := self.spaces[point[0]].refusal(point[1:]):
            return reason
        parameters = self.spaces[point[0]].parameters(point[1:])
        first = self.point_of(parameters) if parameters is not None else None
        return "repeated: another space has the same parameters" if first not in (None, point) else ""

    def _draw(self, rng: random.Random) -> Point | None:
        weights = [space.weight() for space in self.spaces]
        if not sum(weights):
            return None
        number = rng.choices(range(len(weights)), weights)[0]
        point = self.spaces[number].random(rng)
        return None if point is None else (number, *point)

    def _steps_from(self, point: Point, rng: random.Random) -> Iterator[Point]:
        return ((point[0], *one) for one in self.spaces[point[0]]._steps_from(point[1:], rng))

    def _nearby(self, point: Point) -> Iterator[Sequence[Point]]:
        number = point[0]
        near = [(number, *one) for one in self.spaces[number].neighbours(point[1:])]
        yield near + [
            other
            for there, space in enumerate(self.spaces)
            if there != number and isinstance(space, ListedSpace)
            for other in ((there, *one) for one in space.points())
            if self.distance(point, other)[0] <= 1
        ]
        yield [
            (there, *one)
            for there, space in enumerate(self.spaces)
            if there != number
            for one in itertools.islice(space, 1)
        ]


def _key(value: object) -> object:
    return type(value), value


def _axes_of(listed: Sequence[Parameters]) -> tuple[Axis, ...]:
    """The parameters that differ between parameter sets; one that some lack differs."""
    values: dict[str, dict[object, ParameterValue]] = defaultdict(dict)
    carriers: Counter[str] = Counter()
    for parameters in listed:
        for name, value in parameters.items():
            values[name][_key(value)] = value
            carriers[name] += 1
    return tuple(
        Axis.of(name, own.values()) for name, own in values.items() if len(own) > 1 or carriers[name] < len(listed)
    )


def _some_parameters(space: Space) -> dict[str, ParameterValue] | None:
    point = next(space.points(), None)
    return None if point is None else space.parameters(point)


def _derivable(product: Product, axes: Sequence[int]) -> list[Derivation]:
    """The derived parameters that depend on none but `axes`."""
    known = {*product.fixed, *(product.axes[axis][0] for axis in axes)} - {one.parameter for one in product.derived}
    known -= {name for number, (name, _) in enumerate(product.axes) if number not in axes}
    found = []
    for one in product.derived:
        if one.names <= known:
            known.add(one.parameter)
            found.append(one)
    return found


def joined(spaces: Sequence[Space]) -> Space:
    """The spaces as one: the only one itself."""
    return spaces[0] if len(spaces) == 1 else JoinedSpace(spaces)


@dataclass(frozen=True, slots=True)
class RefusedShare:
    """A rule or condition, the share of all points that it refuses (each point by the first that does), an example."""

    rule: str
    share: float
    example: str


@dataclass(frozen=True, slots=True)
class GoneValue:
    """A value that no allowed point has, and the rule that refused it most. `is_certain`: all points were tried."""

    parameter: str
    value: ParameterValue
    rule: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class SpaceCoverage:
    """The remainder of a space of `size` points. `looked_at` points were tried: all of them, or a random sample."""

    size: int
    looked_at: int
    allowed: int
    refused: tuple[RefusedShare, ...]
    gone: tuple[GoneValue, ...]

    @property
    def is_exact(self) -> bool:
        """True if every point was tried."""
        return self.looked_at == self.size

    @property
    def allowed_share(self) -> float:
        """The part of the points looked at that is allowed; 0 for a space without points."""
        return self.allowed / self.looked_at if self.looked_at else 0.0


def rule_of(reason: str) -> str:
    """The rule that a reason names: what stands before `: `, or all of it."""
    return reason.partition(": ")[0]


def coverage(space: Space, rng: random.Random, sample: int = 2000) -> SpaceCoverage:
    """Which part of `space` is refused and why, and the values that are gone; exact up to `EXACT_UP_TO` points."""
    if space.size <= EXACT_UP_TO:
        points = list(space.every_point())
    else:
        points = [point for point in (space.any_point(rng) for _ in range(sample)) if point is not None]
    refused: Counter[str] = Counter()
    examples: dict[str, str] = {}
    by_value: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    seen: set[tuple[int, int]] = set()
    allowed = 0
    for point in points:
        reason = space.refusal(point)
        values = list(enumerate(space.coordinates(point)))
        if not reason:
            allowed += 1
            seen.update(values)
            continue
        rule = rule_of(reason)
        refused[rule] += 1
        examples.setdefault(rule, reason)
        for one in values:
            by_value[one][rule] += 1
    exact = len(points) == space.size
    gone = []
    for at, axis in enumerate(space.axes):
        for index, value in enumerate(axis.values):
            if (at, index) in seen:
                continue
            certain = True
            if not exact:
                found, certain = _is_met(space, axis.parameter, value, rng)
                if found:
                    continue
            counted = by_value[at, index].most_common(1)
            gone.append(GoneValue(axis.parameter, value, counted[0][0] if counted else "", certain))
    shares = tuple(RefusedShare(rule, count / len(points), examples[rule]) for rule, count in refused.most_common())
    return SpaceCoverage(space.size, len(points), allowed, shares, tuple(gone))


def _is_met(space: Space, parameter: str, value: ParameterValue, rng: random.Random) -> tuple[bool, bool]:
    """Return two values: an allowed point with the value was found, and that is certain."""
    try:
        for looked_at, point in enumerate(space.points_with(parameter, value, rng)):
            if space.is_allowed(point):
                return True, True
            if looked_at == TRIES:
                return False, False
    except TooManyCombinationsError:
        return False, False
    return False, True
