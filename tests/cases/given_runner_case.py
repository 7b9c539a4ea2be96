"""A unit with a reference in Python whose kernel is plain loops: an index input, gaps, an in-out output, integers of 64 bits."""

from __future__ import annotations

from pathlib import Path

from ckwatch.bench.job import RUNNER_DATA_LIMIT_BYTES, RunnerDataJob
from ckwatch.bench.progress import Progress
from ckwatch.bench.runner_data import runner_data
from ckwatch.bench.worker_protocol import RunnerDataWritten
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Unit, units_of
from helpers.workspaces import workspace

KERNEL_FILE = """
template = "rows.cpp.j2"

[operation]
kind = "custom"
sizes = ["M", "N", "LDY"]
runtime = { scale = "float", flag = "bool" }
reference = "reference.py:rows"

[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["M", "N"]

[[operation.input]]
name = "Index"
dtype = "u32"
sizes = ["M"]
index = "rows of X"

[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["M", "N"]
strides = ["LDY", "1"]

[[operation.output]]
name = "Sum"
dtype = "f32"
sizes = ["M"]
in_out = true

[[operation.output]]
name = "Count"
dtype = "u64"
sizes = ["1"]

[[instance]]
name = "loops"

[[shape]]
name = "small"
M = 3
N = 5
LDY = 7
scale = 0.1
flag = true

[[shape]]
name = "far more"
M = 40
N = 50
LDY = 50
scale = 3.0
flag = false
"""

TEMPLATE = """\
{{ header("cpp") }}
{{ globals("cpp") }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, Index], outputs=[Y, Sum, Count]) }} {
    (void)workspace, (void)stream;
    if (workspace_size != nullptr) return *workspace_size = 0, 0;
    Count[0] = flag ? 18446744073709551613u : M;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            const float value = scale * X[Index[m] * N + n];
            Y[m * LDY + n] = value;
            Sum[m] += value;
        }
    return 0;
}
"""

REFERENCE = """
def rows(X, Index, Sum, scale, flag, M):
    Y = scale * X[Index]
    return Y, Sum + Y.sum(axis=1), [2**64 - 3 if flag else M]
"""


def given_unit(root: Path, reference: str = REFERENCE) -> Unit:
    """The unit, in a workspace at `root`."""
    files = {"k.kernel.toml": KERNEL_FILE, "templates/rows.cpp.j2": TEMPLATE, "reference.py": reference}
    found = workspace(root, files)
    assert found.diagnostics == ()
    return units_of(found.kernels[0], ("host",))[0]


def write_data(unit: Unit, symbol: str, folder: Path, limit_bytes: int = RUNNER_DATA_LIMIT_BYTES) -> RunnerDataWritten:
    """Write the inputs and right outputs of its shapes to `folder`. Raises BenchmarkError."""
    operation = unit.kernel.operation
    assert operation.reference is not None
    job = RunnerDataJob(
        folder=str(folder),
        symbol=symbol,
        problems=tuple((shape.name, problem_of(operation, shape, unit.arch)) for shape in unit.kernel.shapes),
        reference=operation.reference,
        limit_bytes=limit_bytes,
    )
    return runner_data(job, [], Progress(lambda _said: None))
