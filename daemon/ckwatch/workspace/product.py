"""The product of parameter values with conditions and derived parameters, which is never built.

It is walked parameter by parameter, and each condition is evaluated as soon as the values that it mentions are known:
what it rules out is never multiplied further. Answers are kept for each combination of the values that they depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.parameters import Condition, ConditionError, Derivation, SweepExpression

Point = tuple[int, ...]
"""A combination: the index of the value on each axis."""

ANSWERS_KEPT = 1_000_000


class ConditionFailedError(Exception):
    """A condition that cannot be answered, or a parameter that cannot be worked out."""

    def __init__(self, cause: SweepExpression, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class TooManyCombinationsError(Exception):
    """More steps than allowed."""


class Product:
    """Axes (parameters with the values that they take), `fixed` parameters, conditions, and derived parameters, each
    after those that it mentions. `failing_is_false`: in a walk, a condition that fails does not hold.
    """

    def __init__(
        self,
        axes: Sequence[tuple[str, Sequence[ParameterValue]]],
        fixed: Mapping[str, ParameterValue] | None = None,
        conditions: Sequence[Condition] = (),
        derived: Sequence[Derivation] = (),
        *,
        failing_is_false: bool = False,
    ) -> None:
        self._failing_is_false = failing_is_false
        self.axes = tuple((name, tuple(values)) for name, values in axes)
        self.fixed = dict(fixed or {})
        self.conditions = tuple(conditions)
        self.derived = tuple(derived)
        self._axis_of = {name: index for index, (name, _) in enumerate(self.axes)}
        self._derived = {one.parameter: one for one in self.derived}
        self._answers: dict[tuple[int, Point], bool] = {}
        self._open: dict[tuple[int, Point], tuple[int, ...]] = {}
        self._results: dict[tuple[str, Point], ParameterValue] = {}
        mentioned: dict[str, frozenset[int]] = {name: frozenset({index}) for name, index in self._axis_of.items()}
        for one in self.derived:
            mentioned[one.parameter] = frozenset().union(*(mentioned.get(name, frozenset()) for name in one.names))
        self._behind = {name: tuple(sorted(axes)) for name, axes in mentioned.items()}
        self.depends_on = tuple(
            tuple(sorted(frozenset().union(*(mentioned.get(name, frozenset()) for name in condition.names))))
            for condition in self.conditions
        )
        """The axes that each condition depends on, by derived parameters, too."""
        self._asked: list[list[int]] = [[] for _ in range(len(self.axes) + 1)]
        for number, axes_behind in enumerate(self.depends_on):
            self._asked[max(axes_behind, default=-1) + 1].append(number)
        self._worked_out: list[list[Derivation]] = [[] for _ in range(len(self.axes) + 1)]
        for one in self.derived:
            self._worked_out[max(self._behind[one.parameter], default=-1) + 1].append(one)
        self._open_depends_on: list[Point] = []
        """For each axis those before it that decide which of its values are open."""
        for axis in range(len(self.axes)):
            behind = [self.depends_on[number] for number in self._asked[axis + 1]]
            behind += [self._behind[one.parameter] for one in self._worked_out[axis + 1]]
            self._open_depends_on.append(tuple(sorted(frozenset().union(*behind) - {axis})))

    @property
    def size(self) -> int:
        """The number of combinations before any condition."""
        return math.prod(len(values) for _, values in self.axes)

    @property
    def names(self) -> frozenset[str]:
        """The parameters of every combination."""
        return frozenset((*self.fixed, *self._behind))

    def values(self, point: Point) -> dict[str, ParameterValue]:
        """All parameters at `point`: fixed, swept and derived. Raises ConditionFailedError."""
        found = dict(self.fixed)
        found.update((name, values[index]) for (name, values), index in zip(self.axes, point, strict=True))
        found.update(self.derived_values(point))
        return found

    def derived_values(self, point: Sequence[int]) -> dict[str, ParameterValue]:
        """Return the derived values at `point`. Raises ConditionFailedError."""
        return {one.parameter: self._value(one.parameter, point) for one in self.derived}

    def ruled_out(self, point: Point) -> Condition | None:
        """The first condition that does not hold at `point`. Raises ConditionFailedError."""
        return next(
            (self.conditions[number] for asked in self._asked for number in asked if not self._holds(number, point)),
            None,
        )

    def open_values(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """The indices on the next axis after the `chosen` ones that the conditions allow which can be asked by then.
        Raises ConditionFailedError unless `failing_is_false`."""
        depth = len(chosen)
        key = (depth, tuple([chosen[axis] for axis in self._open_depends_on[depth]]))
        found = self._open.get(key)
        if found is None:
            if len(self._open) >= ANSWERS_KEPT:
                self._open.clear()
            found = tuple(index for index in range(len(self.axes[depth][1])) if self._allows((*chosen, index)))
            self._open[key] = found
        return found

    def _allows(self, chosen: Sequence[int]) -> bool:
        """Return True if the conditions hold that depend on the last of the `chosen` values, and on no value that is
        not chosen yet.

        What can be derived by now is.
        """
        try:
            for one in self._worked_out[len(chosen)]:
                self._value(one.parameter, chosen)
            return all(self._holds(number, chosen) for number in self._asked[len(chosen)])
        except ConditionFailedError:
            if self._failing_is_false:
                return False
            raise

    def walk(
        self, order: Callable[[int], Iterable[int]] | None = None, steps_allowed: int | None = None
    ) -> Iterator[Point]:
        """The combinations that meet every condition, depth first, the last axis fastest.

        `order` gives the indices to take on an axis, all of them in order by default. Raises
        TooManyCombinationsError after `steps_allowed` choices of a value, and ConditionFailedError unless
        `failing_is_false`.
        """
        if not self._allows(()):
            return
        if not self.axes:
            yield ()
            return
        if order is None:
            sizes = [range(len(values)) for _, values in self.axes]
            order = sizes.__getitem__
        steps_left = math.inf if steps_allowed is None else steps_allowed
        chosen: list[int] = []
        open_axes = [(iter(order(0)), self.open_values(()))]
        while open_axes:
            indices, allowed = open_axes[-1]
            index = next(indices, None)
            if index is None:
                open_axes.pop()
                if chosen:
                    chosen.pop()
                continue
            steps_left -= 1
            if steps_left < 0:
                raise TooManyCombinationsError
            if index not in allowed:
                continue
            if len(open_axes) == len(self.axes):
                yield (*chosen, index)
            else:
                chosen.append(index)
                open_axes.append((iter(order(len(chosen))), self.open_values(chosen)))

    def _value(self, name: str, chosen: Sequence[int]) -> ParameterValue:
        if (axis := self._axis_of.get(name)) is not None:
            return self.axes[axis][1][chosen[axis]]
        if (one := self._derived.get(name)) is None:
            return self.fixed[name]
        key = (name, tuple([chosen[axis] for axis in self._behind[name]]))
        if key not in self._results:
            if len(self._results) >= ANSWERS_KEPT:
                self._results.clear()
            try:
                self._results[key] = one.value({other: self._value(other, chosen) for other in one.names})
            except ConditionError as error:
                raise ConditionFailedError(one, str(error)) from None
        return self._results[key]

    def _holds(self, number: int, chosen: Sequence[int]) -> bool:
        key = (number, tuple([chosen[axis] for axis in self.depends_on[number]]))
        answer = self._answers.get(key)
        if answer is None:
            condition = self.conditions[number]
            if len(self._answers) >= ANSWERS_KEPT:
                self._answers.clear()
            try:
                answer = condition.holds({name: self._value(name, chosen) for name in condition.names})
            except ConditionError as error:
                raise ConditionFailedError(condition, str(error)) from None
            self._answers[key] = answer
        return answer
