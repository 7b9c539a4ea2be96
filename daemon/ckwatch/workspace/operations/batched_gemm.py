"""`[operation]` of kind `batched_gemm`: as `gemm`, for each of B matrices.

Names, order and sizes of the arguments are those of PyTorch Inductor's ROCm backend, which has no strides between
matrices: they lie behind one another. With `batch_strides` four arguments follow that tell them. Then they may also lie
line by line within each other, as in a tensor of M × B × K, and be one and the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from ckwatch.model.kernels import Operation, Tensor
from ckwatch.workspace.operations import gemm
from ckwatch.workspace.operations.epilogue import batch_stride, further_matrices
from ckwatch.workspace.operations.gemm import LEADING, SCALES, MatrixProductTable, ScaleTable
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.problems import Problems

ABOUT = "as `gemm`, for each of B matrices"

SIZES = ("B", *gemm.SIZES)
STRIDES = {"X": "BatchStrideA", "W": "BatchStrideB", "Y": "BatchStrideC", "Bias": "BatchStrideD"}

SHAPE_DOCS = {
    "B": "matrices in X, W and Y",
    **gemm.SHAPE_DOCS,
    **{STRIDES[of]: f"elements from one matrix of {of} to the next; by default without gaps" for of in STRIDES},
    batch_stride("*"): "elements from one such matrix of the epilogue to the next; by default without gaps",
}


class BatchedScaleTable(ScaleTable):
    """`scale_a` or `scale_b`."""

    batched: bool = Field(
        False, description='whether each matrix has its own, one behind the other; with `per = "row"`'
    )


class BatchedGemmTable(MatrixProductTable):
    """`[operation]` of kind `batched_gemm`."""

    kind: Literal["batched_gemm"] = Field(description=f"`batched_gemm`: {ABOUT}")
    scale_a: BatchedScaleTable | None = Field(None, description=SCALES)
    scale_b: BatchedScaleTable | None = Field(None, description=SCALES)
    batch_strides: bool = Field(
        False, description="whether the C function takes the strides between matrices; without them there are no gaps"
    )


def read_batched_gemm(problems: Problems, table: BatchedGemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    given = gemm.product_tensors(problems, table)
    settings = gemm.product_settings(problems, table) | {"batch_strides": table.batch_strides}
    if given is None:
        return None
    strides = dict(STRIDES) if table.batch_strides else {}
    if table.batch_strides:
        strides |= {name: batch_stride(name) for name in further_matrices(given, STRIDES)}
    scales = _batched_scales(problems, table)
    tensors = {
        name: _scales_of(tensor) if name in scales else _batch_of(tensor, strides) for name, tensor in given.items()
    }
    sizes = (*SIZES, *strides.values())
    accumulator = gemm.accumulator_of(table, tensors)
    steps = gemm.product_steps(table)
    return gemm.product_operation("batched_gemm", tensors, accumulator, settings, sizes, steps, strides)


def _batched_scales(problems: Problems, table: BatchedGemmTable) -> tuple[str, ...]:
    """The scales that each matrix has its own of."""
    given = {"scale_a": table.scale_a, "scale_b": table.scale_b}
    names = [name for name, scale in given.items() if scale is not None and scale.batched]
    for name in names:
        if getattr(given[name], "per", "row") != "row":
            message = f'`batched` of {name} needs per = "row"'
            problems.at_key(("operation", name, "batched"), "inconsistent-scale", message)
    return tuple({"scale_a": "inv_scale_x", "scale_b": "inv_scale_w"}[name] for name in names)


def _scales_of(tensor: Tensor | None) -> Tensor | None:
    """B vectors of scales, one behind the other."""
    if tensor is None or len(tensor.sizes) > 1:
        return tensor
    return replace(tensor, sizes=("B", *tensor.sizes), strides=(*tensor.sizes, *tensor.strides))


def _batch_of(tensor: Tensor | None, strides: Mapping[str, str]) -> Tensor | None:
    """B of a matrix, one behind the other where there is no stride; a vector and a scale serve them all."""
    if tensor is None or len(tensor.sizes) < 2:
        return tensor
    lines = 0 if tensor.layout == "row" else 1
    stride = strides.get(tensor.name, f"{tensor.sizes[lines]} * {tensor.strides[lines]}")
    return replace(tensor, sizes=("B", *tensor.sizes), strides=(stride, *tensor.strides))


def _sizes_for(operation: Operation, m: int, n: int, k: int) -> dict[str, int]:
    return {"B": 3, **gemm.product_sizes(operation, m, n, k)}


def _special_sizes(operation: Operation, m: int, n: int, k: int) -> dict[str, dict[str, int]]:
    sizes = _sizes_for(operation, m, n, 9 * k)  # more rounds along K than a pipeline prefetches
    found = {"one matrix": {**sizes, "B": 1}, "many matrices": {**sizes, "B": 17}}
    strides = {tensor.name: tensor for tensor in operation.tensors if tensor.strides[0].startswith("BatchStride")}
    for name, tensor in strides.items():
        line = sizes[tensor.sizes[-1 if tensor.layout == "row" else -2]]
        leading = next(stride for stride in tensor.strides[1:] if stride != "1")
        within = {leading: sizes["B"] * line, tensor.strides[0]: line}
        found[f"matrices of {name} within each other"] = {**sizes, **within}
        if name != "Y":
            found[f"one {name} for all matrices"] = {**sizes, tensor.strides[0]: 0}
    return found


BATCHED_GEMM = OperationKind(
    about=ABOUT,
    table=BatchedGemmTable,
    read=read_batched_gemm,
    shape_docs=SHAPE_DOCS,
    tensors=(*gemm.INPUTS, "Y"),
    sizes=(*SIZES, *STRIDES.values()),
    runtime=gemm.RUNTIME,
    defaults=dict.fromkeys((*LEADING, *STRIDES.values()), "0"),
    may_be_zero=frozenset({"LDD"}),
    free_strides=frozenset((*STRIDES.values(), batch_stride("*"))),
    sizes_for=_sizes_for,
    special_sizes=_special_sizes,
)
