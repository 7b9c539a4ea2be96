"""The activations of epilogues, in f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ckwatch.bench.numerics.storage import Doubles

SQRT_HALF = 0.70710678118654752440
SQRT_2_BY_PI = 0.79788456080286535588


def erf(values: Doubles) -> Doubles:
    """The error function; numpy has none."""
    return np.fromiter(map(math.erf, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def _sigmoid(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        result: Doubles = 1 / (1 + np.exp(-x))
    return result


ACTIVATIONS: Mapping[str, Callable[[Doubles], Doubles]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + erf(x * SQRT_HALF)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(SQRT_2_BY_PI * (x + 0.044715 * x * x * x))),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}
