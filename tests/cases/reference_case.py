"""A kernel of kind `custom` with a reference in Python, in a workspace of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ckwatch.model.kernel_problem import CalledReference, KernelProblem, ReferenceOutput, problem_of
from ckwatch.model.kernels import Kernel, units_of
from ckwatch.model.python_references import PythonReference, SourceModule
from ckwatch.workspace.loading import Workspace, load_workspace

KERNEL_FILE = """
template = "t.hip.j2"

[operation]
kind = "custom"
sizes = ["M", "N"]
runtime = {{ scale = "float", flag = "bool" }}
reference = "{reference}"

[[operation.input]]
name = "X"
dtype = "f16"
sizes = ["M", "N"]

[[operation.input]]
name = "Index"
dtype = "i32"
sizes = ["M"]

[[operation.output]]
name = "Y"
dtype = "{dtype}"
sizes = ["M", "N"]
{keys}
{more}
[[shape]]
M = 3
N = 5
scale = 0.1
flag = true

[[instance]]
name = "one"
Tile = 1
"""

RIGHT = "def f(X, scale):\n    return scale * X\n"


def reference_workspace(
    root: Path,
    files: dict[str, str] | None = None,
    reference: str = "reference.py:f",
    keys: str = "",
    more: str = "",
    dtype: str = "f16",
) -> Workspace:
    """Write the workspace and load it; `files` beside the kernel file, `keys` and `dtype` of Y, `more` tables."""
    written = {"ckwatch.toml": "", "templates/t.hip.j2": "{{ Tile }}", "reference.py": RIGHT} | (files or {})
    written["k.kernel.toml"] = KERNEL_FILE.format(reference=reference, keys=keys, more=more, dtype=dtype)
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_workspace(root)


def reference_kernel(root: Path, text: str = RIGHT, keys: str = "", more: str = "", dtype: str = "f16") -> Kernel:
    """The kernel whose `reference.py` is this text."""
    workspace = reference_workspace(root, {"reference.py": text}, keys=keys, more=more, dtype=dtype)
    assert not workspace.errors, workspace.errors
    return workspace.kernels[0]


def reference_problem(kernel: Kernel) -> KernelProblem:
    """The problem of its shape."""
    return problem_of(units_of(kernel, ("gfx942",))[0].operation, kernel.shapes[0], "gfx942")


def called_reference(problem: KernelProblem, path: Path, text: str) -> tuple[KernelProblem, PythonReference]:
    """A problem of two inputs and Y whose result is compared with the function `f` of this text, and the reference."""
    path.write_text(text)
    reference = PythonReference("f", (SourceModule("reference", str(path), text),))
    views = {view.buffer: view for view in problem.views}
    called = CalledReference(
        digest=reference.digest,
        name=reference.name,
        inputs=(("X", views["X"]), ("W", views["W"])),
        outputs=(ReferenceOutput(name="Y", view=views["Y"]),),
        sizes=("M", "N", "K"),
        accumulator="f32",
        fnuz=False,
    )
    return replace(problem, reference=called, computed=None), reference
