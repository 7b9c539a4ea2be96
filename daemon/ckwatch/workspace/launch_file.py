"""Reads a description of a kernel's launches, `args.toml`: a kernel file for a code object that is there already.

`[operation]` and `[[shape]]` are those of kernel files. In place of a template and its instances stand the kernel, its
grid and block, and its arguments in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ckwatch.model.diagnostics import Severity, Source
from ckwatch.model.errors import DiagnosedError
from ckwatch.model.kernels import Instance, Kernel
from ckwatch.model.tensors import names_in
from ckwatch.workspace import operations
from ckwatch.workspace.files import read_text
from ckwatch.workspace.kernel_file import read_described, with_checked_reference
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.open_places import report_open_places
from ckwatch.workspace.operations import tables
from ckwatch.workspace.parameters import ParameterReader, PlacedValue
from ckwatch.workspace.problems import Problems, did_you_mean, join_names
from ckwatch.workspace.settings import Section
from ckwatch.workspace.toml_document import KeyPath, TomlDocument
from ckwatch.workspace.trust import is_shared
from ckwatch.workspace.writers import Writers

NULL = "null"
"""An argument that is a null pointer."""

_EXTENTS = "along x, y and z: integers or expressions of the sizes with `+ - * / % ( )`"
Extents = Annotated[list[tables.Size], Field(min_length=1, max_length=3)]


class LaunchTable(Section):
    """The keys at the top of `args.toml`; its tables are read one by one."""

    kernel: str | None = Field(None, description="the kernel's name or symbol; needed where the file has several")
    grid: Extents = Field(description=f"workgroups {_EXTENTS}")
    block: Extents | None = Field(None, description=f"threads {_EXTENTS}; by default Triton's warps")
    dynamic_lds: tables.Size | None = Field(
        None, description="bytes of dynamic LDS; by default what Triton's JSON says"
    )
    arguments: list[tables.Size] | None = Field(
        None, description="tensors, sizes, runtime arguments or `null`; by default by the names that the kernel has"
    )
    parameters: Any = Field(None, description="what the kernel was compiled with: `BLOCK = 1024`")
    operation: Any = Field(description="what the kernel computes, as in a kernel file")
    shape: Any = Field(None, description="sizes that it is verified on, as in a kernel file")


_TABLES = ("parameters", "operation", "shape")
_ELSEWHERE = {
    name: f"`{name}` is a key of the file: write it above the first table"
    for name in LaunchTable.model_fields
    if name not in _TABLES
}


@dataclass(frozen=True, slots=True)
class LaunchDescription:
    """A description without mistakes of its own. `kernel` has no template, and one instance, whose parameters are
    `[parameters]`; `problems` collect what is wrong with it for a code object."""

    table: LaunchTable
    kernel: Kernel
    problems: Problems

    @property
    def constants(self) -> dict[str, int]:
        """The integers among `[parameters]`."""
        return {name: value for name, value in self.kernel.instances[0].parameters.items() if type(value) is int}

    def require(self) -> None:
        """Raise DiagnosedError if there is an error."""
        if self.problems.errors_found:
            raise DiagnosedError(tuple(self.problems.found))


def read_launch_file(path: Path) -> LaunchDescription:
    """Read the description at `path` (absolute); warnings are left in its problems. Raises DiagnosedError for
    mistakes, each at its place."""
    folder = path.parent
    writers = Writers.of([folder], anyone=is_shared(folder))
    read = read_text(str(path), Source.KERNEL_FILE, writers)
    if read.diagnostics:
        raise DiagnosedError(read.diagnostics)
    document = TomlDocument(str(path), read.text, Source.KERNEL_FILE)
    problems = Problems(document)
    problems.found += document.diagnostics
    problems.errors_found += len(document.diagnostics)
    values: dict[str, Any] = dict(document.values)
    if isinstance(values.get("operation"), dict):
        values["operation"] = {"kind": "custom", **values["operation"]}
    elsewhere = {key: f"`{key}` belongs in [operation]" for key in operations.OPERATION_KEYS}
    table = problems.validated(LaunchTable, values, (), elsewhere=elsewhere)
    operation, shapes, _ = read_described(problems, values, _ELSEWHERE, NamedFiles((str(folder),), writers))
    reader = ParameterReader(problems)
    parameters: dict[str, PlacedValue] = {}
    if "parameters" in values:
        parameters = reader.table(values["parameters"], ("parameters",)) or {}
    if operation is not None:
        operation = with_checked_reference(problems, operation, [*parameters])
    kernel = None
    if operation is not None and table is not None:
        known = [*operation.size_arguments, *operation.runtime_arguments]
        known += [name for name, one in parameters.items() if type(one.value) is int]
        for place, text in _expressions(table):
            _check_names(problems, place, text, known)
        span = document.span_of(("kernel",)) if "kernel" in values else document.beginning
        instance = Instance(
            table.kernel or "",
            {name: one.value for name, one in parameters.items()},
            span,
            {name: one.span for name, one in parameters.items()},
        )
        spans = operations.operation_spans(problems, values["operation"])
        kernel = Kernel(path.name, str(path), "", span, operation, spans, tuple(shapes), (instance,), ())
    report_open_places(problems)
    if kernel is None or table is None or any(one.severity is Severity.ERROR for one in problems.found):
        raise DiagnosedError(tuple(problems.found))
    return LaunchDescription(table, kernel, problems)


def _expressions(table: LaunchTable) -> list[tuple[KeyPath, str]]:
    """The expressions of sizes in the launch itself, with their places."""
    found: list[tuple[KeyPath, str]] = [(("grid", at), text) for at, text in enumerate(table.grid)]
    found += [(("block", at), text) for at, text in enumerate(table.block or ())]
    return [*found, *([(("dynamic_lds",), table.dynamic_lds)] if table.dynamic_lds is not None else [])]


def _check_names(problems: Problems, place: KeyPath, text: str, known: list[str]) -> None:
    """Report names that are no size, runtime argument or integer among `[parameters]`."""
    for name in dict.fromkeys(names_in(text)):
        if name not in known:
            message = f"unknown size `{name}`; {did_you_mean(name, known)}known: {join_names(known) or 'none'}"
            problems.at_value(place, "unknown-size", message)
