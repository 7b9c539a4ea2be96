"""The reference of grouped GEMMs, against sums worked out one by one, and where its groups end."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from helpers.workspaces import INSTANCE, OPERATION, TOP, workspace

REFERENCE = REFERENCES["grouped_gemm"]
GROUPED = OPERATION.replace('"gemm"', '"grouped_gemm"').replace('dtype = "f16"', 'dtype = "f32"')
EPILOGUE = """scale_a = { per = "row" }
scale_b = { per = "row" }
bias = { dtype = "f32" }
alpha = 0.5
beta = 2.0
activation = "relu"
"""


def problem(root: Path, more: str = "", groups: int = 3, rows: int = 11) -> KernelProblem:
    shape = f"\n[[shape]]\nG = {groups}\nM = {rows}\nN = 4\nK = 5\nLDA = 9\n"
    kernel = workspace(root, {"k.kernel.toml": TOP + GROUPED + more + INSTANCE + shape}).kernels[0]
    return problem_of(kernel.operation, kernel.shapes[0], "gfx942")


@pytest.mark.parametrize("more", ["", EPILOGUE, 'scale_a = {}\nscale_b = {}\nactivation = "tanh"\n'])
@pytest.mark.parametrize("ends", [(4, 4, 11), (0, 3, 9), (0, 0, 0)])
def test_each_group_has_its_own_matrix(tmp_path: Path, more: str, ends: tuple[int, ...]) -> None:
    found = problem(tmp_path, more)
    inputs = dict(make_inputs(found, 3))
    inputs["Offsets"][:] = ends
    given = Given(found, inputs)
    rows = np.array([0, 3, 4, 8, 9, 10])

    def one(role: str, *index: int) -> float:
        return float(given.read(role, *index).item())

    expected = REFERENCE.expected(given, "y", rows)
    for at, row in enumerate(rows):
        group = next((group for group, end in enumerate(ends) if row < end), None)
        if group is None:
            assert np.isnan(expected[at]).all()
            continue
        for n in range(4):
            value = sum(one("x", row, k) * one("w", group, k, n) for k in range(5))
            if more == EPILOGUE:
                value *= one("scale_x", row) * one("scale_w", group, n) * 0.5
                value = max(0.0, value + 2 * one("bias", group, n))
            elif more:
                value = math.tanh(value * one("scale_x", 0) * one("scale_w", 0))
            assert expected[at, n] == pytest.approx(value)
    assert REFERENCE.left_out is not None
    assert list(REFERENCE.left_out(given, "y")) == [row >= ends[-1] for row in range(11)]


@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (1, 11), (9, 5), (64, 1000), (130, 517)])
def test_groups_are_uneven_and_have_all_rows(tmp_path: Path, groups: int, rows: int) -> None:
    given = Given(problem(tmp_path, groups=groups, rows=rows), {})
    assert REFERENCE.contents is not None
    for seed in range(5):
        ends = REFERENCE.contents(given, seed)["offsets"]
        sizes = np.diff(ends, prepend=0)
        assert ends.shape == (groups,)
        assert ends[-1] == rows
        assert sizes.min() >= 0
        if groups >= 64:
            assert sizes.min() == 0
            assert sizes.max() > 1.5 * rows / groups


def test_inputs_have_the_ends_of_groups(tmp_path: Path) -> None:
    found = problem(tmp_path, groups=7, rows=100)
    assert REFERENCE.contents is not None
    assert list(make_inputs(found, 5)["Offsets"]) == list(REFERENCE.contents(Given(found, {}), 5)["offsets"])
