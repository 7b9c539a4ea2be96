"""Promises of every strategy, and results of the local search."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cases.tuning_spaces import POWERS, condition, cost_of, product_space, tiles
from ckwatch.tuning.space import ListedSpace, Point, ProductSpace, Space, joined
from ckwatch.tuning.strategies import STRATEGIES, Search, Strategy
from helpers.each_row import each_row


def cost(parameters: Mapping[str, Any]) -> float:
    """The best is M = 16, N = 4 with v3; M = 128 does not run."""
    if parameters["M"] == 128:
        return math.inf
    far = abs(math.log2(parameters["M"] / 16)) + abs(math.log2(parameters["N"] / 4))
    return 10.0 * (1 + far) * (1.0 if parameters["pipeline"] == "v3" else 1.5)


def run(
    strategy: Strategy, search: Search, of: Callable[[Point], float], *, slots: int = 1, limit: int = 10_000
) -> list[Point]:
    """The points in the order in which they were yielded; `slots` are outstanding, and the latest comes back first."""
    given: list[Point] = []
    outstanding: list[Point] = []
    points = strategy(search)
    while len(given) < limit:
        point = next(points, ...)
        if point is ...:
            break
        if point is None:
            assert outstanding
        else:
            assert point not in given
            given.append(point)
            outstanding.append(point)
        if point is None or len(outstanding) >= slots:
            done = outstanding.pop()
            search.known[done] = of(done)
    for done in outstanding:
        search.known[done] = of(done)
    return given


@pytest.mark.parametrize("slots", [1, 5, 1000])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_point_is_yielded_once(name: str, slots: int) -> None:
    space = tiles()
    given = run(STRATEGIES[name], Search(space, random.Random(1)), cost_of(space, cost), slots=slots)
    assert sorted(given) == sorted(space)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_goes_on_repeats_nothing(name: str) -> None:
    space = tiles()
    of = cost_of(space, cost)
    first = run(STRATEGIES[name], Search(space, random.Random(1)), of, limit=20)
    resumed = Search(space, random.Random(1), known={point: of(point) for point in first})
    rest = run(STRATEGIES[name], resumed, of)
    assert not {*first} & {*rest}
    assert sorted(first + rest) == sorted(space)


@pytest.mark.parametrize("name", STRATEGIES)
def test_equal_seeds_give_equal_points(name: str) -> None:
    space = tiles()
    of = cost_of(space, cost)
    runs = [run(STRATEGIES[name], Search(space, random.Random(seed)), of, slots=3, limit=30) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert (runs[0] == runs[2]) == (name == "all")


@pytest.mark.parametrize("name", STRATEGIES)
def test_seeds_come_first_unless_they_are_refused(name: str) -> None:
    space = tiles()
    seeds = [(4, 2, 1), (0, 7, 0), (4, 2, 1), (3, 3, 0)]
    given = run(STRATEGIES[name], Search(space, random.Random(1), seeds=seeds), cost_of(space, cost), limit=10)
    assert given[:2] == [(4, 2, 1), (3, 3, 0)]
    assert (0, 7, 0) not in given


@each_row("name", STRATEGIES)
@each_row(
    "space",
    [
        product_space({}, {"a": 1}),
        product_space({"a": (1, 2)}, conditions=[condition("a > 2", "a")]),
        product_space({"a": ("x", "y", "z")}),
        joined([ListedSpace([{"a": 1}, {"b": 2}]), product_space({"a": (1, 2, 3)})]),
    ],
)
def test_small_spaces_are_exhausted(name: str, space: Space) -> None:
    assert sorted(run(STRATEGIES[name], Search(space, random.Random(1)), lambda _: 5.0)) == sorted(space)


@pytest.mark.parametrize("outcome", [math.inf, 7.0, 0.0])
def test_a_space_where_all_is_alike_is_exhausted(outcome: float) -> None:
    space = tiles()
    assert len(run(STRATEGIES["local"], Search(space, random.Random(1)), lambda _: outcome)) == len(list(space))


def large() -> ProductSpace:
    """2 million points, a third of them allowed."""
    axes: dict[str, Any] = dict.fromkeys("abcdef", POWERS)
    axes["pipeline"] = ("v1", "v2", "v3", "v4", "v5")
    axes["wide"] = (False, True)
    return product_space(axes, conditions=[condition("a * b >= 16", "a", "b"), condition("c <= d", "c", "d")])


def valley(parameters: Mapping[str, Any]) -> float:
    wanted = {"a": 32, "b": 8, "c": 4, "d": 16, "e": 2, "f": 64}
    far = sum(abs(math.log2(parameters[name] / best)) for name, best in wanted.items())
    fails = parameters["e"] * parameters["f"] > 1024
    return math.inf if fails else 20 * 1.2**far * (1 if parameters["pipeline"] == "v4" else 1.6)


def evaluations_until(near: float, strategy: str, seed: int, limit: int, **more: Any) -> int:
    space = large()
    search = Search(space, random.Random(seed), **more)
    of = cost_of(space, valley)
    for point in STRATEGIES[strategy](search):
        assert point is not None
        search.known[point] = of(point)
        if search.known[point] <= near or len(search.known) == limit:
            break
    return len(search.known)


def test_the_local_search_finds_the_bottom_of_a_valley_among_millions() -> None:
    found = [evaluations_until(20 * 1.2, "local", seed, 200) for seed in range(3)]
    assert max(found) < 200
    assert [evaluations_until(20 * 1.2, "random", seed, 200) for seed in range(3)] == [200] * 3


def test_predictions_lead_the_local_search() -> None:
    of = cost_of(large(), valley)

    def predicted(point: Point) -> float | None:
        value = of(point)
        return None if math.isinf(value) else value**0.5 * (1.5 if point[0] % 2 else 1.0)

    with_them = [evaluations_until(20 * 1.2, "local", seed, 200, predicted=predicted) for seed in range(3)]
    without = [evaluations_until(20 * 1.2, "local", seed, 200) for seed in range(3)]
    assert sum(with_them) < sum(without)


def test_all_takes_the_predicted_order_in_small_spaces() -> None:
    space = tiles()
    of = cost_of(space, cost)
    given = run(STRATEGIES["all"], Search(space, random.Random(1), predicted=of), of)
    assert [of(point) for point in given] == sorted(of(point) for point in given)
