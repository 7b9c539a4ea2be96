"""Reproducible numbers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest


@pytest.fixture
def draws() -> Callable[[object], random.Random]:
    """A generator for a seed, whatever stands for it."""
    return lambda seed: random.Random(str(seed))  # noqa: S311  # reproducible by intention
