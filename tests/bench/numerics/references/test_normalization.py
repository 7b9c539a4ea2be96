"""The reference of norms, against what is worked out one by one, and its form in C++."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cases.normalization_case import EVERYTHING, unit_of
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.model.kernel_problem import problem_of

EXPECTED = REFERENCES["normalization"].expected
ROWS = np.array([0, 2, 4])


def given_of(root: Path, norm: str, more: str = "", **zero: bool) -> Given:
    kernel = unit_of(root, norm, more, "M = 5\nN = 12\nx_stride = 16").kernel
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    inputs = dict(make_inputs(problem, 3))
    for name in zero:
        inputs[name][:] = 0
    return Given(problem, inputs)


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_rows(tmp_path: Path, norm: str, more: bool) -> None:
    given = given_of(tmp_path, norm, EVERYTHING[norm] if more else "")

    def one(role: str, *index: int) -> float:
        return float(given.read(role, *index).item()) if given.has(role) else 0.0

    for at, row in enumerate(ROWS):
        x = [one("x", row, n) + one("bias", n) + one("residual", row, n) for n in range(12)]
        mean = sum(x) / 12
        centered = [value - mean for value in x] if norm == "layer" else x
        inverse = 1 / math.sqrt(sum(value * value for value in centered) / 12 + 1e-5)
        y = [value * inverse * one("gamma", n) + one("beta", n) for n, value in enumerate(centered)]
        if not more:
            assert EXPECTED(given, "y", ROWS)[at] == pytest.approx(y)
            continue
        assert EXPECTED(given, "sum", ROWS)[at] == pytest.approx(x)
        assert EXPECTED(given, "inverse", ROWS)[at] == pytest.approx([inverse])
        assert EXPECTED(given, "mean", ROWS)[at] == pytest.approx([mean])
        assert EXPECTED(given, "unquantized", ROWS)[at] == pytest.approx(y)
        smooth = [value * one("smooth", n) for n, value in enumerate(y)]
        scale = max(map(abs, smooth)) / (127 if norm == "rms" else 240)
        assert EXPECTED(given, "y_scale", ROWS)[at] == pytest.approx([scale])
        assert EXPECTED(given, "y", ROWS)[at] == pytest.approx([value / scale for value in smooth])


def test_a_row_of_zeros_has_no_scale(tmp_path: Path) -> None:
    given = given_of(tmp_path, "rms", 'quantize = { dtype = "i8" }\n', X=True)
    assert not EXPECTED(given, "y_scale", ROWS).any()
    assert np.isnan(EXPECTED(given, "y", ROWS)).all()
