"""The model of the cost between evaluated points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ckwatch.tuning.space import Axis
from ckwatch.tuning.surrogate import Features, GaussianProcess, expected_improvement


def test_features_are_ranks_unit_vectors_and_powers_of_two() -> None:
    features = Features([Axis.of("a", (16, 48, 32)), Axis.of("b", (1, 2, 4)), Axis.of("p", ("x", "y"))])
    rows = features.of([(0, 0, 0), (2, 2, 1), (-1, -1, -1)])
    half = 1 / math.sqrt(2)
    assert rows[0].tolist() == pytest.approx([0.0, 4.0, 0.0, half, 0.0])
    assert rows[1].tolist() == pytest.approx([0.5, 5.0, 1.0, 0.0, half])
    assert rows[2].tolist() == pytest.approx([0.5, 13 / 3, 0.5, 0.0, 0.0])


def test_numbers_that_may_be_codes_are_names_too() -> None:
    features = Features([Axis.of("method", (0, 2, 1)), Axis.of("staged", (0, 1)), Axis.of("items", (1, 2, 4))])
    rows = features.of([(0, 0, 0), (1, 1, 2)])
    assert rows.tolist() == [[0.0, 0.25, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.25, 0.0, 1.0, 1.0]]


def test_known_points_are_met_and_far_ones_are_uncertain() -> None:
    x = np.linspace(0, 1, 9)[:, None]
    y = np.sin(6 * x[:, 0])
    model = GaussianProcess(1)
    model.learn(x, y)
    model.condition(x, y)
    mean, deviation = model.predict(np.array([[0.5], [0.56], [5.0]]))
    assert mean[:2] == pytest.approx(np.sin([3.0, 3.36]), abs=0.1)
    assert deviation[0] < deviation[1] < deviation[2]


def test_a_feature_without_influence_gets_a_long_scale() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((60, 2))
    model = GaussianProcess(2)
    y = np.sin(5 * x[:, 0])
    model.learn(x, y)
    model.condition(x, y)
    moved = model.predict(np.array([[0.5, 0.1], [0.5, 0.9], [0.9, 0.5]]))[0]
    assert abs(moved[0] - moved[1]) < 0.1 < abs(moved[0] - moved[2])


def test_the_gradient_is_that_of_the_likelihood() -> None:
    rng = np.random.default_rng(2)
    x = rng.random((12, 2))
    y = np.sin(4 * x[:, 0]) + x[:, 1]
    squares = [np.square(column[:, None] - column[None, :]) for column in x.T]
    model = GaussianProcess(2)
    at = np.array([0.5, 1.5, -3.0])
    _, gradient = model._likelihood(squares, y, at)
    for index in range(3):
        step = np.zeros(3)
        step[index] = 1e-5
        above, below = model._likelihood(squares, y, at + step)[0], model._likelihood(squares, y, at - step)[0]
        assert gradient[index] == pytest.approx((above - below) / 2e-5, rel=1e-4)


def test_expected_improvement() -> None:
    found = expected_improvement(np.array([1.0, 0.0, 3.0]), np.array([1.0, 1e-6, 1e-6]), 1.0)
    assert found == pytest.approx([1 / math.sqrt(2 * math.pi), 1.0, 0.0], abs=1e-6)
