"""`[operation]` of a kernel file: what the kernel computes, its tensors, and the arguments of its C function.

Each kind of operation is a module that makes an `OperationKind`; a row in `KINDS` makes it known everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckwatch.model.kernels import Operation
from ckwatch.model.text import Span
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
from ckwatch.workspace.problems import Problems, join_names
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

OPERATION_KEYS = frozenset(key for kind in KINDS.values() for key in kind.table.model_fields)
"""What belongs in `[operation]`, for some kind."""


def read_operation(problems: Problems, values: Any, elsewhere: Mapping[str, str]) -> Operation | None:
    """The operation that `[operation]` describes, or None and its problems."""
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
    return operation if problems.errors_found == before else None


def outline_of(values: Mapping[str, Any]) -> Operation | None:
    """What is known of an operation whose table has problems."""
    table = values.get("operation")
    name = table.get("kind") if isinstance(table, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    return None if kind is None else kind.outline


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
