"""`[operation]` of a kernel file: what the kernel computes, its tensors, and the arguments of its C function.

Each kind of operation is a module that makes an `OperationKind`; a row in `KINDS` makes it known everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ckwatch.model.kernels import Operation
from ckwatch.model.text import Span
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.operations.attention import ATTENTION
from ckwatch.workspace.operations.batched_gemm import BATCHED_GEMM
from ckwatch.workspace.operations.ck_tile_gemm import CK_TILE_GEMM
from ckwatch.workspace.operations.custom import CUSTOM
from ckwatch.workspace.operations.gemm import GEMM, GemmTable
from ckwatch.workspace.operations.grouped_convolution import GROUPED_CONVOLUTION
from ckwatch.workspace.operations.grouped_gemm import GROUPED_GEMM
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.moe_gemm import MOE_GEMM
from ckwatch.workspace.operations.normalization import NORMALIZATION
from ckwatch.workspace.operations.tables import RUNTIME_TYPES
from ckwatch.workspace.problems import Problems, join_names, nearest
from ckwatch.workspace.references import read_reference
from ckwatch.workspace.toml_document import KeyPath

KINDS: Mapping[str, OperationKind[Any]] = {
    kind.name: kind
    for kind in (
        GEMM,
        BATCHED_GEMM,
        GROUPED_CONVOLUTION,
        CK_TILE_GEMM,
        GROUPED_GEMM,
        ATTENTION,
        MOE_GEMM,
        NORMALIZATION,
        CUSTOM,
    )
}
"""By the name that `kind` has in kernel files."""

TEMPLATE_KINDS: Mapping[str, tuple[str, ...]] = {
    "ck/batched_gemm.hip.j2": ("batched_gemm",),
    "ck/gemm_block_scaled.hip.j2": ("gemm",),
    "ck/gemm_microscaled.hip.j2": ("gemm", "batched_gemm"),
    "ck/gemm_preshuffled.hip.j2": ("gemm", "batched_gemm"),
    "ck/gemm_universal.hip.j2": ("gemm",),
    "ck/grouped_convolution.hip.j2": ("grouped_convolution",),
    "ck/moe_gemm.hip.j2": ("moe_gemm",),
    "ck_tile/fmha_forward.hip.j2": ("attention",),
    "ck_tile/gemm_universal.hip.j2": ("gemm", "ck_tile_gemm"),
    "ck_tile/grouped_gemm.hip.j2": ("grouped_gemm",),
    "ck_tile/layernorm.hip.j2": ("normalization",),
    "ck_tile/rmsnorm.hip.j2": ("normalization",),
    "cpp/gemm_blocked.cpp.j2": ("gemm", "ck_tile_gemm"),
    "cutlass/gemm_universal.cu.j2": ("gemm", "ck_tile_gemm"),
    "hip/gemm_tiled.hip.j2": ("gemm", "ck_tile_gemm"),
}
"""Kinds that the templates shipped with ckwatch compute; the first kind is the usual one."""

OPERATION_KEYS = frozenset(key for kind in KINDS.values() for key in kind.table.model_fields)
"""Keys of `[operation]`, for any kind."""


def read_operation(
    problems: Problems, values: Any, elsewhere: Mapping[str, str], files: NamedFiles
) -> Operation | None:
    """The operation that `[operation]` describes, or None and its problems; `files` reads its reference."""
    base: KeyPath = ("operation",)
    if not isinstance(values, dict):
        problems.wrong_type(base, "a table", values)
        return None
    name = values.get("kind")
    if name is None:
        problems.missing_key(base, "kind", values, GemmTable.model_fields, f"; known: {join_names(KINDS)}")
        return None
    if not isinstance(name, str):
        problems.wrong_type((*base, "kind"), "a string", name)
        return None
    kind = KINDS.get(name)
    if kind is None:
        problems.unknown_name((*base, "kind"), "unknown-kind", f"unknown operation kind `{name}`", name, KINDS)
        return None
    table = problems.validated(kind.table, values, base, elsewhere=elsewhere)
    before = problems.errors_found
    operation = None if table is None else kind.read(problems, table)
    if operation is None or problems.errors_found != before:
        return None
    if table is not None and table.reference is not None:
        operation = replace(operation, reference=read_reference(problems, table.reference, files))
    return operation


def outline_of(values: Mapping[str, Any]) -> Operation | None:
    """Return what is known of an operation whose table has problems."""
    table = values.get("operation")
    name = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(name, str):
        return None
    kind = KINDS.get(name) or KINDS.get(nearest(name, KINDS) or "")
    return kind.outline or _outline_of_custom(table) if kind is not None else None


def _outline_of_custom(table: Mapping[str, Any]) -> Operation | None:
    """The arguments that the table names, whatever else is wrong with it."""
    sizes, runtime = table.get("sizes"), table.get("runtime", {})
    if not isinstance(sizes, list) or not isinstance(runtime, dict):
        return None
    names = tuple(name for name in sizes if isinstance(name, str))
    # of a type that there is not, any number may be meant
    types = {name: one if one in RUNTIME_TYPES else "double" for name, one in runtime.items() if isinstance(one, str)}
    return (
        None
        if len(names) + len(types) < len(sizes) + len(runtime)
        else Operation(
            "custom", (), (), "f32", size_arguments=names, runtime_arguments=tuple(types), runtime_types=types
        )
    )


def operation_spans(problems: Problems, values: Mapping[str, Any]) -> dict[str, Span]:
    """Places of the operation's values by dotted key: `a`, `a.dtype`, `activation`, `input.0.dtype`."""
    spans = {}
    waiting: list[tuple[KeyPath, Any]] = [((key,), value) for key, value in values.items()]
    while waiting:
        path, value = waiting.pop(0)
        spans[".".join(map(str, path))] = problems.document.span_of(("operation", *path))
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), inner) for index, inner in enumerate(value) if isinstance(inner, dict)]
    return spans
