"""A model of the cost over a space, from the points that were evaluated: a Gaussian process.

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006: a Matérn 5/2 kernel (4.17) with a length scale
for each feature (5.4), fitted by the gradient of the marginal likelihood (5.9). Expected improvement after Jones,
Schonlau and Welch, Efficient Global Optimization, 1998.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ckwatch.tuning.space import Axis, Point

Floats = NDArray[np.float64]

NOISE = 1e-3
"""Of the variance: what no feature explains, at least."""

PRIOR_SCALE, PRIOR_SPREAD = 1.0, 1.5
"""The logarithm of a squared inverse length scale is about normal with this mean and deviation."""

FIT_STEPS = 12

CODES = 8
"""So many numbers at most, one of which is 0, may stand for names, as those of methods: no size is 0."""

CODED_APART = 0.25
"""How far apart such numbers are beside their order, which counts until costs speak against it."""


class Features:
    """Points as vectors: an ordered value by its rank in [0, 1], one without order by a unit vector.

    An ordered integer also has how often 2 divides it, where that does not follow from the rank: the hardware's sizes
    are powers of two. Numbers that may be codes have unit vectors, too.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._tables = [_columns(axis) for axis in axes]
        self._axis_of_column = [at for at, table in enumerate(self._tables) for _ in range(table.shape[1])]

    @property
    def count(self) -> int:
        """The length of a vector."""
        return len(self._axis_of_column)

    def of(self, coordinates: Sequence[Point]) -> Floats:
        """A row for each of the `coordinates` of points, whose −1 is an absent value."""
        indices = np.array(coordinates, dtype=np.intp).reshape(len(coordinates), len(self._tables))
        parts = [table[indices[:, at]] for at, table in enumerate(self._tables)]
        return np.concatenate([np.zeros((len(coordinates), 0)), *parts], axis=1)


def _columns(axis: Axis) -> Floats:
    """A row of features for each value, and one (the last) for a value that is none of them."""
    count = len(axis.values)
    if axis.ranks is None:
        return np.vstack([np.eye(count), np.zeros(count)]) / math.sqrt(2)
    ranks = np.array(axis.ranks, dtype=np.float64) / max(count - 1, 1)
    columns = [ranks]
    twos = np.array([_twos(value) for value in axis.values], dtype=np.float64)
    if np.ptp(twos) and np.any(np.diff(twos[np.argsort(ranks)]) < 0):
        columns.append(twos / np.ptp(twos))
    if 2 < count <= CODES and 0 in axis.values:
        columns.extend(CODED_APART * np.eye(count))
    table = np.stack(columns, axis=1)
    return np.vstack([table, table.mean(axis=0)])


def _twos(value: object) -> int:
    """How often 2 divides an integer; 0 for any other value."""
    return (value & -value).bit_length() - 1 if isinstance(value, int) and value else 0


class GaussianProcess:
    """Mean and deviation of a function between the points where it is known."""

    def __init__(self, features: int) -> None:
        self._log_scales = np.full(features, PRIOR_SCALE)
        self._log_noise = math.log(1e-2)
        self._x: Floats = np.zeros((0, features))
        self._inverse: Floats = np.zeros((0, 0))
        self._weights: Floats = np.zeros(0)
        self._mean = 0.0
        self._variance = 1.0

    def learn(self, x: Floats, y: Floats, steps: int = FIT_STEPS) -> None:
        """Fit the length scales by `steps` of gradient ascent (Rprop) from where the last fit ended."""
        if not np.ptp(y):
            return
        squares = [np.square(column[:, None] - column[None, :]) for column in x.T]
        target = y - y.mean()
        target = target / target.std()
        parameters = np.append(self._log_scales, self._log_noise)
        best, best_value = parameters.copy(), -math.inf
        step = np.full(len(parameters), 0.4)
        last = np.zeros(len(parameters))
        for _ in range(steps):
            value, gradient = self._likelihood(squares, target, parameters)
            if value > best_value:
                best, best_value = parameters.copy(), value
            agreement = gradient * last
            step = np.clip(np.where(agreement > 0, step * 1.3, np.where(agreement < 0, step * 0.5, step)), 0.02, 1.5)
            last = np.where(agreement < 0, 0.0, gradient)
            parameters = parameters + step * np.sign(last)
            parameters[:-1] = np.clip(parameters[:-1], -6.0, 6.0)
            parameters[-1] = np.clip(parameters[-1], math.log(NOISE), 0.0)
        self._log_scales, self._log_noise = best[:-1], float(best[-1])

    def condition(self, x: Floats, y: Floats) -> None:
        """Take `y` as known at the rows of `x`."""
        self._x = x
        self._mean = float(y.mean())
        kernel = _matern(self._distances(x, x)) + math.exp(self._log_noise) * np.eye(len(y))
        lower = np.linalg.cholesky(kernel)
        inverse_lower = np.linalg.inv(lower)
        self._inverse = inverse_lower
        self._weights = inverse_lower.T @ (inverse_lower @ (y - self._mean))
        self._variance = max(float((y - self._mean) @ self._weights) / len(y), 1e-12)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at the rows of `x`."""
        kernel = _matern(self._distances(x, self._x))
        explained = np.square(kernel @ self._inverse.T).sum(axis=1)
        return self._mean + kernel @ self._weights, np.sqrt(self._variance * np.maximum(1 - explained, 1e-9))

    def _distances(self, one: Floats, other: Floats) -> Floats:
        scale = np.exp(self._log_scales / 2)
        here, there = one * scale, other * scale
        squares = np.square(here).sum(axis=1)[:, None] + np.square(there).sum(axis=1)[None, :] - 2 * here @ there.T
        distances: Floats = np.sqrt(np.maximum(squares, 0.0))
        return distances

    def _likelihood(self, squares: Sequence[Floats], y: Floats, parameters: Floats) -> tuple[float, Floats]:
        """The logarithm of the marginal likelihood with its prior, and its gradient; the variance is the best one."""
        scales, noise = np.exp(parameters[:-1]), math.exp(parameters[-1])
        total = np.zeros((len(y), len(y)))
        for scale, square in zip(scales, squares, strict=True):
            total += scale * square
        distance = np.sqrt(total)
        lower = np.linalg.cholesky(_matern(distance) + noise * np.eye(len(y)))
        inverse_lower = np.linalg.inv(lower)
        inverse = inverse_lower.T @ inverse_lower
        weights = inverse @ y
        variance = float(y @ weights) / len(y)
        value = -0.5 * len(y) * math.log(variance) - float(np.log(np.diag(lower)).sum())
        sensitivity = 0.5 * (np.outer(weights, weights) / variance - inverse)
        by_square = sensitivity * (-5 / 6) * (1 + math.sqrt(5) * distance) * np.exp(-math.sqrt(5) * distance)
        gradient = np.array(
            [scale * float((by_square * square).sum()) for scale, square in zip(scales, squares, strict=True)]
            + [noise * float(np.trace(sensitivity))]
        )
        centre = np.append(np.full(len(scales), PRIOR_SCALE), math.log(1e-2))
        value -= float(np.square((parameters - centre) / PRIOR_SPREAD).sum()) / 2
        gradient -= (parameters - centre) / PRIOR_SPREAD**2
        return value, gradient


def _matern(distance: Floats) -> Floats:
    scaled = math.sqrt(5) * distance
    kernel: Floats = (1 + scaled + scaled * scaled / 3) * np.exp(-scaled)
    return kernel


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How much lower than `best` a value is expected to be, where higher ones count as no improvement."""
    gain = best - mean
    score = gain / deviation
    return gain * _normal_below(score) + deviation * np.exp(-0.5 * score * score) / math.sqrt(2 * math.pi)


def _normal_below(score: Floats) -> Floats:
    """Φ by Abramowitz and Stegun, 26.2.17: within 7.5e-8."""
    t = 1 / (1 + 0.2316419 * np.abs(score))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    above = np.exp(-0.5 * score * score) / math.sqrt(2 * math.pi) * tail
    return np.where(score >= 0, 1 - above, above)
