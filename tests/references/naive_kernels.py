"""Kernels of operations other than a GEMM as plain loops on the host, which need nothing but a C++ compiler."""

from __future__ import annotations

from pathlib import Path

from ckwatch.model.kernels import Unit, units_of
from helpers.workspaces import workspace

TEMPLATES = Path(__file__).parent.parent / "templates" / "naive"

BATCHED_GEMM = """\
template = "batched_gemm.cpp.j2"

[operation]
kind = "batched_gemm"
batch_strides = true
a = { dtype = "f32" }
b = { dtype = "f32", layout = "col" }
c = { dtype = "f32" }
bias = { dtype = "f32" }

[[instance]]
name = "loops"
dtype_of_sum = "float"

[[shape]]
B = 3
M = 20
N = 17
K = 33
"""

CONVOLUTION = """\
template = "convolution.cpp.j2"

[operation]
kind = "grouped_convolution"
a = { dtype = "f32" }
b = { dtype = "f32" }
c = { dtype = "f32" }
bias = { dtype = "f32" }

[[instance]]
name = "loops"

[[shape]]
GroupCount = 2
NBatch = 2
NOutChannels = 8
NInChannels = 6
FilterSize_0 = 3
FilterSize_1 = 2
InputSize_0 = 9
InputSize_1 = 11
ConvolutionStrides_1 = 2
Dilations_0 = 2
LeftPads_0 = 2
RightPads_0 = 1
RightPads_1 = 1
"""

GROUPED_GEMM = """\
template = "grouped_gemm.cpp.j2"

[operation]
kind = "grouped_gemm"
a = { dtype = "f32" }
b = { dtype = "f32", layout = "col" }
c = { dtype = "f32" }
scale_a = { per = "row" }
scale_b = { per = "row" }
bias = { dtype = "f32" }
alpha = 0.5
beta = 2.0
activation = "silu"

[[instance]]
name = "loops"

[[shape]]
G = 5
M = 40
N = 17
K = 33
"""


def naive_files(**kernels: str) -> dict[str, str]:
    """The files of a workspace with these kernel files, by their names."""
    files = {f"{name}.kernel.toml": text for name, text in kernels.items()}
    return files | {f"templates/{path.name}": path.read_text() for path in TEMPLATES.iterdir()}


def naive_unit(root: Path, text: str) -> Unit:
    """The unit of one kernel file, in a workspace at `root`."""
    found = workspace(root, naive_files(naive=text))
    assert found.diagnostics == ()
    return units_of(found.kernels[0], ("host",))[0]
