"""A kernel of HIP, compiled by the real hipcc, compared with a reference in Python on the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]

TEMPLATE = """
{{ header("hip") }}
{{ globals("hip") }}
namespace {
__global__ void scale_rows(const float* x, const int32_t* index, float* y, int32_t columns, float factor) {
    const int32_t row = blockIdx.x;
    for (int32_t column = threadIdx.x; column < columns; column += {{ BlockSize }}) {
        y[row * columns + column] = factor * x[row * columns + column] + index[row];
    }
}
}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, Index], outputs=[Y], names_str="X, Index, Y") }} {
    if (workspace_size != nullptr) {
        *workspace_size = 0;
        return 0;
    }
    scale_rows<<<M, {{ BlockSize }}, 0, stream>>>({{ arg_name(X) }}, {{ arg_name(Index) }}, {{ arg_name(Y) }}, N, factor);
    return static_cast<int>(hipGetLastError());
}
"""

KERNEL_FILE = """
template = "scale.hip.j2"
archs = ["gfx942"]

[operation]
kind = "custom"
sizes = ["M", "N"]
runtime = { factor = "float" }
reference = "reference.py:scaled"
input = [
    { name = "X", dtype = "f32", sizes = ["M", "N"] },
    { name = "Index", dtype = "i32", sizes = ["M"] },
]
output = [{ name = "Y", dtype = "f32", sizes = ["M", "N"] }]

[[shape]]
M = 3
N = 100
factor = 0.1

[[instance]]
name = "one"
BlockSize = 64
"""

REFERENCE = """import numpy as np
def scaled(X, Index, factor):
    return {result}
"""
RIGHT = "factor * X + Index[:, None]"


def verified(root: Path, result: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    """The exit status and the result for the unit."""
    (root / "reference.py").write_text(REFERENCE.format(result=result))
    status = main(["verify", "-C", str(root), "--no-daemon", "--trust", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [line for line in lines if line["event"] == "unit"]
    return status, dict(found)


def test_right_wrong_and_mistaken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/scale.hip.j2").write_text(TEMPLATE)
    (tmp_path / "ckwatch.toml").touch()
    (tmp_path / "k.kernel.toml").write_text(KERNEL_FILE)
    status, found = verified(tmp_path, RIGHT, capsys)
    assert (status, found["outcome"]) == (0, "verified"), found
    status, found = verified(tmp_path, "factor * X + 2 * Index[:, None]", capsys)
    assert (status, found["outcome"]) == (1, "failed")
    assert "elements of Y are wrong (Y[" in str(found["summary"])
    status, found = verified(tmp_path, "X + np.zeros(X.shape[1] + 2)", capsys)
    assert (status, found["outcome"]) == (1, "not verified")
    assert "reference.py:3: ValueError: operands could not be broadcast together" in str(found["summary"])
