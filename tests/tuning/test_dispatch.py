"""The smallest set of instances that is nearly as fast as the best everywhere."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ckwatch.tuning.dispatch import dispatch_set
from helpers.each_row import each_row


def test_an_instance_that_is_near_everywhere_is_enough() -> None:
    times = {"s": {"a": 100.0, "all": 101.0}, "t": {"b": 50.0, "all": 50.5}, "u": {"c": 10.0, "all": 10.2}}
    found = dispatch_set(times)
    assert (found.instances, found.is_smallest) == (("all",), True)
    assert found.slowdown == pytest.approx({"s": 1.01, "t": 1.01, "u": 1.02})
    assert len(dispatch_set(times, tolerance=0.001).instances) == 3


def test_among_smallest_sets_the_faster_one_is_taken() -> None:
    times = {"s": {"a": 1.01, "b": 1.0}, "t": {"a": 1.01, "b": 1.0}}
    assert dispatch_set(times).instances == ("b",)


def test_what_was_not_measured_covers_nothing() -> None:
    found = dispatch_set({"s": {"a": 1.0}, "t": {"b": 1.0}, "u": {}})
    assert set(found.instances) == {"a", "b"}
    assert dict(found.choice) == {"s": "a", "t": "b"}
    assert found.unmeasured == ("u",)


def test_nothing_was_measured() -> None:
    found = dispatch_set({})
    assert (found.instances, found.is_smallest, dict(found.choice)) == ((), True, {})


@pytest.mark.parametrize(("times", "tolerance"), [({"s": {"a": 0.0}}, 0.02), ({"s": {"a": 1.0}}, -0.1)])
def test_senseless_input_is_refused(times: dict[str, dict[str, float]], tolerance: float) -> None:
    with pytest.raises(ValueError, match="must"):
        dispatch_set(times, tolerance)


def random_times(seed: int, shapes: int, instances: int) -> dict[str, dict[str, float]]:
    rng = random.Random(seed)
    return {
        f"s{shape}": {f"i{number}": 10 * (1 + rng.random() * 0.08) for number in range(instances) if rng.random() < 0.8}
        for shape in range(shapes)
    }


@each_row("seed", range(15))
def test_no_smaller_set_will_do(seed: int) -> None:
    times = random_times(seed, 7, 8)
    found = dispatch_set(times)
    best = {shape: min(own.values()) for shape, own in times.items()}

    def is_enough(chosen: tuple[str, ...]) -> bool:
        return all(min(own.get(one, math.inf) for one in chosen) <= best[shape] * 1.02 for shape, own in times.items())

    every = sorted({one for own in times.values() for one in own})
    smallest = next(
        size for size in range(1, 9) if any(is_enough(chosen) for chosen in itertools.combinations(every, size))
    )
    assert found.is_smallest
    assert is_enough(found.instances)
    assert len(found.instances) == smallest
    assert max(found.slowdown.values()) <= 1.02


def test_a_large_input_gives_a_set_that_is_not_called_smallest() -> None:
    times = random_times(1, 60, 40)
    found = dispatch_set(times, nodes_at_most=5)
    assert not found.is_smallest
    assert max(found.slowdown.values()) <= 1.02
