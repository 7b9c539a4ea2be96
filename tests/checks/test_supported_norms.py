"""Rows that CK Tile's norms cannot read, and those next to them that they can."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.normalization_case import unit_of
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue

WIDTH = "Repeat_N · ThreadPerBlock_N · Vector_N = 512"


@pytest.mark.parametrize(
    ("parameters", "shape", "expected"),
    [
        ({}, "M = 1\nN = 512", ""),
        ({}, "M = 1\nN = 4", ""),
        ({}, "M = 1\nN = 510", "N = 510 is not a multiple of Vector_N = 4"),
        ({}, "M = 1\nN = 516", f"N = 516 is above {WIDTH}, and kTwoPass is false"),
        ({"kTwoPass": True}, "M = 1\nN = 516", ""),
        ({"kPadN": False}, "M = 1\nN = 508", f"N = 508 is not a multiple of {WIDTH}, and kPadN is false"),
        ({"kPadN": False, "kTwoPass": True}, "M = 1\nN = 1024", ""),
        ({}, "M = 3\nN = 4\nx_stride = 7", "the rows of X are not aligned for vectors"),
        ({}, "M = 3\nN = 4\nyr_stride = 6", ""),
        ({}, "M = 3\nN = 4\nyr_stride = 5", "the rows of ResidualOut are not aligned for vectors"),
        ({"Vector_N": 1}, "M = 3\nN = 3\nx_stride = 5", ""),
        ({}, f"M = {1 << 22}\nN = 512", "X reaches beyond 2 GiB"),
        ({}, f"M = {(1 << 21) - 8}\nN = 512", ""),
    ],
)
def test_refusals(tmp_path: Path, parameters: dict[str, ParameterValue], shape: str, expected: str) -> None:
    unit = unit_of(tmp_path, "rms", "residual = true\n", shape, **parameters)
    problem = problem_of(unit.kernel.operation, unit.kernel.shapes[0], "gfx942")
    assert unsupported_reason(unit.instance.parameters, problem) == expected
