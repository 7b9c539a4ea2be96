"""Which shapes AITER's instances of Composable Kernel compute: the shapes that CK supports, as AITER calls it.

AITER compiles each instance with several GemmSpec and takes one by the sizes (`csrc/*/gen_instances.py`). splitK of its
tables is the logarithm of kBatch; its batched GEMMs are called with 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckwatch.bench.imports.records import ImportedTiming
from ckwatch.checks.aiter_instances import LISTS, AiterList, with_blocks
from ckwatch.checks.supported_shapes import Parameters, shape_rules
from ckwatch.model.diagnostics import Source
from ckwatch.model.kernel_problem import Buffer, KernelArgument, KernelProblem, gemm_of, problem_of
from ckwatch.model.kernels import Operation, Shape
from ckwatch.model.text import Position, Span
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.shapes import with_defaults
from ckwatch.workspace.toml_document import TomlDocument

_LARGE = "2 GiB"
_CHECKED = ("ck/gemm_universal.hip.j2", "ck/batched_gemm.hip.j2")
"""Kernels of which CK itself refuses matrices above 2 GiB (`CheckValidity` of `gridwise_gemm_xdl_cshuffle_v3_multi_d`);
AITER's tuner measured others beyond that, and found them right."""


def refusal(record: ImportedTiming) -> tuple[str, str] | None:
    """Return why CK computes nothing for a row, None where it computes it or that is not known: `split` or
    `refused-shape`, and the reason."""
    family = LISTS.get(record.kernel)
    if family is None or not record.parameters:
        return None
    slices = 1 if "batched" in record.kernel.split("_") else int(record.runtime.get("kBatch", 1))
    found = _reason(family, record, slices)
    if not found:
        return None
    return ("split" if slices > 1 and not _reason(family, record, 1) else "refused-shape"), found


def row_problem(record: ImportedTiming, m: int, arch: str) -> tuple[Parameters, KernelProblem] | None:
    """Return the parameters of a row's instance, with the GemmSpec that AITER takes, and its product with another M;
    None for what no list with a template has."""
    family = LISTS.get(record.kernel)
    if family is None or not record.parameters:
        return None
    moved = replace(record, sizes={**record.sizes, "M": m})
    slices = 1 if "batched" in record.kernel.split("_") else int(record.runtime.get("kBatch", 1))
    block = [int(str(record.parameters[f"ScaleBlock{axis}"])) for axis in "MNK"] if family.scale_blocks else []
    dtype = record.dtype if record.dtype in family.operations else next(iter(family.operations))
    operation = _operation(family.name, dtype, tuple(block))
    if operation is None:
        return None
    runtime = {name: slices if name == "kBatch" else 1 for name in operation.runtime_arguments}
    place = Span("", Position(0, 0), Position(0, 0))
    shape = Shape("", with_defaults(operation, moved.sizes), runtime, place)
    try:
        problem = problem_of(operation, shape, arch)
    except (KeyError, ValueError):  # a size that the table does not have
        return None
    return {**record.parameters, "GemmSpec": gemm_spec(family, moved, slices)}, problem


def tile_depth(fields: Mapping[str, Any]) -> int:
    """Return KPerBlock of an instance with these fields in AITER's words; 0 where it has none."""
    found = next((fields[name] for name in ("KPerBLOCK", "K_Tile", "KTile") if name in fields), 0)
    return found if isinstance(found, int) and found > 0 else 0


def _reason(family: AiterList, record: ImportedTiming, slices: int) -> str:
    """Return why no operation of a list computes a row."""
    dtypes = [record.dtype] if record.dtype in family.operations else list(family.operations)
    block = [int(str(record.parameters[f"ScaleBlock{axis}"])) for axis in "MNK"] if family.scale_blocks else []
    parameters = {**record.parameters, "GemmSpec": gemm_spec(family, record, slices)}
    reason = ""
    for suffix in dtypes:
        operation = _operation(family.name, suffix, tuple(block))
        rules = shape_rules(parameters)
        if operation is None or rules is None:
            return ""
        problem = _problem(operation, record.sizes, slices)
        refusals = (one.reason for one in rules.refusals(parameters, problem))
        first = next((one for one in refusals if _LARGE not in one or family.template in _CHECKED), "")
        if not first:
            return ""
        reason = reason or first
    return reason


def gemm_spec(family: AiterList, record: ImportedTiming, slices: int) -> str:
    """Return the GemmSpec that AITER takes for a shape."""
    if family.microscaled:
        return "Default"
    parameters: Parameters = record.parameters
    steps = {axis: int(str(parameters[f"{axis}PerBlock"])) for axis in "MNK"}
    if not family.scale_blocks and family.name != "a8w8_bpreshuffle":
        steps["K"] *= slices
    padded = [axis for axis, step in steps.items() if record.sizes[axis] % step]
    if family.scale_blocks:
        return "".join(padded) + "Padding" if padded else "Default"
    return "MNKPadding" if padded else "Default"


def _problem(operation: Operation, sizes: Mapping[str, int], slices: int) -> KernelProblem:
    """Return what the rules about shapes look at, of a problem that is not launched: tables have tens of thousands."""
    tensors = {tensor.name: tensor for tensor in operation.tensors}
    return KernelProblem(
        buffers=tuple(Buffer(name=one.buffer, dtype=one.dtype, elements=1) for one in tensors.values()),
        views=(),
        arguments=(KernelArgument(name="kBatch", c_type="int32_t", value=slices),),
        computed=gemm_of(operation, tensors, with_defaults(operation, sizes), ""),
        flops=None,
        bytes_moved=0,
    )


@functools.cache
def _operation(family: str, suffix: str, block: Sequence[int]) -> Operation | None:
    values = with_blocks(LISTS[family].operations[suffix], block)
    problems = Problems(TomlDocument("", "", Source.KERNEL_FILE))
    kind = KINDS[str(values["kind"])]
    table = problems.validated(kind.table, values, ())
    return None if table is None else kind.read(problems, table)
