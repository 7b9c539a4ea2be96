"""Units for tests, without files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ckwatch.model.kernels import Instance, Kernel, Operation, Tensor, Unit
from ckwatch.model.text import Span, span
from ckwatch.workspace.operations.gemm import gemm_operation

KERNEL_FILE = "/ws/k.kernel.toml"


def tensor(name: str, dtype: str = "f16", **changes: Any) -> Tensor:
    """A row-major M×K tensor."""
    fields: dict[str, Any] = {"layout": "row", "sizes": ("M", "K"), "strides": ("LDA", "1"), "buffer": name}
    return Tensor(name, dtype, **(fields | changes))


def gemm(**changes: Any) -> Operation:
    """f16 GEMM without bias and scales; `inputs` and `outputs` may be given by keyword."""
    tensors = {
        "X": tensor("X"),
        "W": tensor("W", layout="col", sizes=("K", "N"), strides=("1", "LDB")),
        "inv_scale_x": None,
        "inv_scale_w": None,
        "Bias": None,
        "Y": tensor("Y", sizes=("M", "N"), strides=("LDC", "1")),
    }
    operation = gemm_operation(tensors, "f32", {"activation": "none", "alpha": 1.0, "beta": 1.0})
    return replace(operation, **changes)


def place(line: int = 0) -> Span:
    """A place in the kernel file."""
    return span(KERNEL_FILE, line, 0, line, 1)


def unit(template: str, /, operation: Operation | None = None, arch: str = "gfx942", **parameters: Any) -> Unit:
    """One instance of one kernel; the parameters' places are lines 10, 11, …"""
    spans = {name: place(10 + index) for index, name in enumerate(parameters)}
    instance = Instance("first", parameters, place(9), spans)
    kernel = Kernel("k", KERNEL_FILE, template, place(1), operation or gemm(), {}, (), (instance,), (arch,))
    return Unit(kernel, instance, arch)
