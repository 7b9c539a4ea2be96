"""Search spaces: what is drawn, what is near, and what is left."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from cases.tuning_spaces import POWERS, condition, derivation, product_space, tiles
from ckwatch.model.diagnostics import Source
from ckwatch.tuning.space import (
    Axis,
    JoinedSpace,
    ListedSpace,
    Point,
    ProductSpace,
    Space,
    coverage,
    joined,
    rule_of,
)
from ckwatch.workspace.parameters import ParameterReader
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.sweep import read_sweep
from ckwatch.workspace.toml_document import TomlDocument


def listed() -> ListedSpace:
    return ListedSpace([{"M": 1, "p": "a"}, {"M": 2, "p": "a"}, {"M": 8, "p": "a"}, {"M": 8, "p": "b", "q": True}])


def even_sum(parameters: Mapping[str, object]) -> str:
    return "" if parameters["pipeline"] == "v1" else "pipeline-version: v3 is not for this device"


SPACES: dict[str, Callable[[], Space]] = {
    "product": tiles,
    "listed": listed,
    "joined": lambda: joined([tiles(), listed(), tiles()]),
    "predicate": lambda: tiles(even_sum),
    "single": lambda: product_space({}, {"a": 1}),
    "empty": lambda: product_space({"a": (1, 2)}, conditions=[condition("a > 2", "a")]),
    "no values": lambda: product_space({"a": ()}),
}


@pytest.mark.parametrize("name", SPACES)
def test_what_is_given_is_allowed_and_known_by_its_parameters(name: str) -> None:
    space = SPACES[name]()
    points = list(space)
    assert len(points) == len(set(points)) <= space.size == len(list(space.every_point()))
    assert {point for point in space.every_point() if space.is_allowed(point)} == {*points}
    rng = random.Random(1)
    drawn = [space.random(rng) for _ in range(50)]
    assert all(one in points for one in drawn) or (not points and set(drawn) == {None})
    for point in points:
        parameters = space.parameters(point)
        assert parameters is not None
        assert space.point_of(parameters) == point
        assert point not in space.neighbours(point)
        assert {*space.neighbours(point)} <= {*points}
    assert set(space.points(random.Random(2))) == set(space.points())


def test_the_sizes() -> None:
    allowed = [(m, n) for m in POWERS for n in POWERS if m >= n and m * n <= 256]
    assert len(list(tiles())) == 2 * len(allowed)
    assert tiles().size == 128
    assert tiles().weight() == 2 * len(allowed)


def test_parameters_are_fixed_swept_and_derived() -> None:
    space = tiles()
    assert space.parameters((3, 1, 0)) == {"warp": 64, "M": 8, "N": 2, "pipeline": "v1", "K": 16}
    assert space.parameters((1, 3, 0)) is None
    assert space.point_of({"warp": 64, "M": 8, "N": 2, "pipeline": "v1", "K": 17}) is None
    assert space.point_of({"M": 8}) is None


def test_one_and_true_are_two_values() -> None:
    space = ListedSpace([{"a": 1}, {"a": True}])
    assert space.point_of({"a": True}) == (1,)
    assert space.neighbours((0,)) == [(1,)]


def test_points_are_drawn_about_evenly() -> None:
    space = tiles()
    counts = Counter(space.random(random.Random(seed)) for seed in range(5200))
    expected = 5200 / len(list(space))
    assert set(counts) == set(space)
    assert max(abs(count - expected) for count in counts.values()) < 0.45 * expected


def test_descents_are_about_even_where_a_list_is_too_long() -> None:
    # a = 0 leaves one value for b, any other leaves all: plain descents would draw it once in five
    tied = [condition("a > 0 or b == 3", "a", "b")]
    space = product_space({"a": range(5), "b": range(20)}, conditions=tied, listed_at_most=10)
    rng = random.Random(3)
    points = [space.random(rng) for _ in range(2000)]
    assert set(points) <= set(space)
    assert sum(point == (0, 3) for point in points) < 2000 / 81 * 4
    assert space.weight() == pytest.approx(81, rel=0.2)


def test_a_point_in_a_thousand_millions_is_found() -> None:
    axes = {name: range(32) for name in "abcdef"}
    sums = [condition(f"{one} == {other}", one, other) for one, other in itertools.pairwise("abcdef")]
    space = product_space(axes, conditions=sums)
    point = space.random(random.Random(1))
    assert space.size == 2**30
    assert point is not None
    assert len(set(point)) == 1


def test_a_predicate_that_refuses_nearly_all_does_not_hide_the_rest() -> None:
    space = product_space({"a": range(40), "b": range(40)}, allowed=lambda p: "" if p["a"] == p["b"] == 7 else "no")
    assert space.random(random.Random(1)) == (7, 7)


def test_rules_lead_to_the_little_that_the_predicate_allows() -> None:
    names = "abcdefgh"
    asked: list[object] = []

    def allowed(parameters: Mapping[str, object]) -> str:
        asked.append(parameters)
        return "" if len({parameters[name] for name in names}) == 1 else "rule/equal: they differ"

    rules = [condition(f"{one} == {other}", one, other) for one, other in itertools.pairwise(names)]
    unknown = condition("z == 1", "z")
    space = product_space(dict.fromkeys(names, range(8)), allowed=allowed, rules=[*rules, unknown])
    rng = random.Random(1)
    drawn = [space.random(rng) for _ in range(40)]
    assert None not in drawn
    assert set(drawn) == {(value,) * 8 for value in range(8)}
    assert len(asked) == 8
    assert set(space) == set(drawn)
    assert space.refusal((0, 1) * 4) == "rule/equal: they differ"


def test_adjacent_points_are_one_step_away_on_most_axes() -> None:
    listed = ListedSpace([{"M": m, "N": n, "v": v} for m in POWERS for n in POWERS for v in ("x", "y", "z")])
    for space in (listed, product_space({"M": POWERS, "N": POWERS, "v": ("x", "y", "z")})):
        centre = space.point_of({"M": 8, "N": 8, "v": "y"})
        assert centre is not None
        found = [one for seed in range(40) for one in space.adjacent(centre, random.Random(seed), 3)]
        assert centre not in found
        steps = [
            sum(axis.distance(here, there) > 1 for axis, here, there in zip(space.axes, own, middle, strict=True))
            for own, middle in ((space.coordinates(one), space.coordinates(centre)) for one in found)
        ]
        assert sum(far == 0 for far in steps) > len(found) / 2
        assert space.off_centre(centre) < min(map(space.off_centre, (next(iter(space)), found[0]))) + 1e-9


def test_adjacent_points_of_a_constrained_space_are_allowed() -> None:
    space = tiles()
    for point in space:
        for one in space.adjacent(point, random.Random(3), 5):
            assert space.is_allowed(one)


def test_a_predicate_is_asked_once() -> None:
    asked: list[object] = []

    def predicate(parameters: Mapping[str, object]) -> str:
        asked.append(parameters["M"])
        return ""

    space = tiles(predicate)
    assert [space.refusal((0, 0, 0)), space.refusal((0, 0, 0)), space.refusal((0, 1, 0))] == ["", "", "`M >= N`"]
    assert len(asked) == 1


def test_neighbours_differ_in_one_parameter_and_adjacent_values_come_first() -> None:
    space = tiles()
    near = space.neighbours((4, 2, 0))
    assert all(space.distance((4, 2, 0), one)[0] == 1 for one in near)
    assert set(near[:5]) == {(3, 2, 0), (5, 2, 0), (4, 1, 0), (4, 3, 0), (4, 2, 1)}


def test_where_one_change_is_ruled_out_two_are_made() -> None:
    space = product_space({"a": range(6), "b": range(6)}, conditions=[condition("a == b", "a", "b")])
    assert space.neighbours((2, 2)) == [(1, 1), (3, 3), (0, 0), (4, 4), (5, 5)]


def test_the_nearest_listed_instances_are_neighbours() -> None:
    assert listed().neighbours((0,)) == [(1,), (2,)]
    assert listed().neighbours((3,)) == [(2,), (1,), (0,)][:1]


def test_a_joined_space_takes_an_instance_once_and_leads_from_one_space_to_another() -> None:
    space = JoinedSpace([ListedSpace([{"a": 1}, {"a": 2}]), ListedSpace([{"a": 2}, {"a": 3}])])
    assert list(space) == [(0, 0), (0, 1), (1, 1)]
    assert space.refusal((1, 0)).startswith("repeated: ")
    assert set(space.neighbours((0, 0))) == {(0, 1), (1, 1)}
    assert [axis.parameter for axis in space.axes] == ["a"]


def test_a_condition_that_fails_rules_out() -> None:
    space = product_space(
        {"a": (0, 1, 2)},
        conditions=[condition("4 % a == 0", "a")],
        derived=[derivation("b", "6 // (a - 1)", "a")],
    )
    assert list(space) == [(2,)]
    assert space.refusal((0,)).startswith("`4 % a == 0` fails: ") or space.refusal((0,)) == ""
    assert space.refusal((1,)).startswith("`6 // (a - 1)` fails: ")


def test_a_sweep_of_a_kernel_file() -> None:
    text = '[[sweep]]\nname = "s"\nwhere = "A >= B"\nderived = { D = "A * C" }\n'
    text += "[sweep.parameters]\nA = [1, 2]\nB = [1, 2]\nC = 5\n"
    document = TomlDocument("/k.kernel.toml", text, Source.KERNEL_FILE)
    sweep = read_sweep(
        ParameterReader(Problems(document)), document.values["sweep"][0], ("sweep", 0), {}, {}, all_named=True
    )
    assert sweep is not None
    found = [space.parameters(point) for space in [ProductSpace.of_sweep(sweep)] for point in space]
    assert found == [{"A": a, "B": b, "C": 5, "D": 5 * a} for a, b in ((1, 1), (2, 1), (2, 2))]


@pytest.mark.parametrize(
    ("values", "ranks"),
    [((4, 1, 2), (2, 0, 1)), ((1.5, 1), (1, 0)), (("a", "b"), None), ((True, False), None), ((1, "a"), None)],
)
def test_numbers_have_an_order(values: tuple[int | str, ...], ranks: tuple[int, ...] | None) -> None:
    assert Axis.of("a", values).ranks == ranks


def test_the_coverage_of_a_small_space_is_exact() -> None:
    space = tiles(even_sum)
    found = coverage(space, random.Random(1))
    points = list(space.every_point())
    refused = Counter(rule_of(space.refusal(point)) for point in points)
    assert (found.size, found.looked_at, found.is_exact) == (128, 128, True)
    assert found.allowed == len(list(space))
    assert {one.rule: round(one.share * 128) for one in found.refused} == {
        rule: count for rule, count in refused.items() if rule
    }
    assert [(one.parameter, one.value, one.rule) for one in found.gone] == [
        ("N", 32, "`M >= N`"),
        ("N", 64, "`M >= N`"),
        ("N", 128, "`M >= N`"),
        ("pipeline", "v3", "`M >= N`"),
    ]
    assert next(one for one in found.refused if one.rule == "pipeline-version").example == even_sum({"pipeline": "v3"})


def test_the_coverage_of_a_large_space_says_that_it_is_a_sample() -> None:
    axes = dict.fromkeys("abcdefgh", POWERS)
    space = product_space(axes, conditions=[condition("a * b * c <= 64", *"abc"), condition("d >= e", *"de")])
    found = coverage(space, random.Random(1), sample=500)
    assert (found.looked_at, found.is_exact) == (500, False)
    assert found.allowed_share == pytest.approx(84 / 512 * 36 / 64, abs=0.05)
    assert [(one.parameter, one.value, one.is_certain) for one in found.gone] == [(name, 128, True) for name in "abc"]


def test_a_value_that_a_sample_did_not_meet_is_looked_for() -> None:
    axes = {name: range(200) for name in "abc"}
    found = coverage(product_space(axes), random.Random(1), sample=50)
    assert (found.allowed_share, found.gone) == (1.0, ())


def test_nothing_is_left_of_an_empty_space() -> None:
    found = coverage(product_space({"a": ()}), random.Random(1))
    assert (found.size, found.allowed_share, found.is_exact) == (0, 0.0, True)


def test_neighbours_of_a_point_of_a_large_list() -> None:
    space = ListedSpace([{"a": a, "b": b} for a in range(30) for b in range(30) if a != b])
    start: Point = (0,)
    assert all(space.distance(start, one)[0] == 1 for one in space.neighbours(start))
