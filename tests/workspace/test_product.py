"""The walk through a product: when conditions are asked, and when it ends."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from cases.tuning_spaces import condition, derivation
from ckwatch.workspace.parameters import Condition
from ckwatch.workspace.product import ConditionFailedError, Product, TooManyCombinationsError


def test_a_condition_is_asked_once_for_the_values_that_it_mentions() -> None:
    asked: list[Mapping[str, object]] = []

    def is_even(values: Mapping[str, object]) -> bool:
        asked.append(dict(values))
        return values["a"] in (0, 2)

    product = Product([("b", range(3)), ("a", range(3))], conditions=[Condition("even", frozenset("a"), (), is_even)])
    assert list(product.walk()) == [(b, a) for b in range(3) for a in (0, 2)]
    assert asked == [{"a": 0}, {"a": 1}, {"a": 2}]


def test_what_a_condition_rules_out_early_is_not_multiplied() -> None:
    product = Product([(name, range(10)) for name in "abcdef"], conditions=[condition("a > 100", "a")])
    assert list(product.walk(steps_allowed=10)) == []
    free = Product([(name, range(10)) for name in "abcdef"])
    with pytest.raises(TooManyCombinationsError):
        list(free.walk(steps_allowed=10))


def test_conditions_may_mention_what_is_derived() -> None:
    axes = [("a", (1, 2, 3)), ("b", (1, 2, 3))]
    derived = [derivation("sum", "a + b", "a", "b"), derivation("twice", "sum * 2", "sum")]
    product = Product(axes, {"limit": 8}, [condition("twice == limit", "twice", "limit")], derived)
    assert product.depends_on == ((0, 1),)
    assert [product.values(point) for point in product.walk()] == [
        {"limit": 8, "a": a, "b": 4 - a, "sum": 4, "twice": 8} for a in (1, 2, 3)
    ]
    ruled_out = {point for point in itertools.product(range(3), range(3)) if product.ruled_out(point)}
    assert len(ruled_out) == 6


def test_a_failing_condition_is_raised_or_rules_out() -> None:
    axes, conditions = [("a", (0, 1, 2))], [condition("2 % a == 0", "a")]
    with pytest.raises(ConditionFailedError, match="fails for"):
        list(Product(axes, conditions=conditions).walk())
    assert list(Product(axes, conditions=conditions, failing_is_false=True).walk()) == [(1,), (2,)]


def test_the_order_of_values_can_be_chosen() -> None:
    product = Product([("a", (1, 2)), ("b", (1, 2))])
    assert list(product.walk(lambda depth: (1,) if depth == 0 else (1, 0))) == [(1, 1), (1, 0)]
