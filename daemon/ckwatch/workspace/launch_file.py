"""Reads a description of a kernel's launches, `args.toml`: a kernel file for a code object that is there already.

`[operation]` and `[[shape]]` are those of kernel files. In place of a template and its instances stand the kernel, its
grid and block, and its arguments in their order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Severity, Source
from ckwatch.model.errors import DiagnosedError
from ckwatch.model.kernels import Instance, Kernel
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import names_in
from ckwatch.workspace import operations
from ckwatch.workspace.files import read_text
from ckwatch.workspace.kernel_file import read_described, with_checked_reference
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.open_places import report_open_places
from ckwatch.workspace.operations import tables
from ckwatch.workspace.operations.tables import one_of
from ckwatch.workspace.parameters import ParameterReader, PlacedValue
from ckwatch.workspace.problems import Problems, describe_value, did_you_mean, join_names, validator_error
from ckwatch.workspace.settings import Section
from ckwatch.workspace.toml_document import KeyPath, TomlDocument
from ckwatch.workspace.trust import is_shared
from ckwatch.workspace.writers import Writers

NULL, WORKSPACE = "null", "workspace"
"""Arguments that are a null pointer, and the address of memory of the kernel's own."""

POINTER_TYPE = "pointer"
_LETTERS = {
    "P": POINTER_TYPE, "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t", "i": "int32_t", "I": "uint32_t",
    "q": "int64_t", "Q": "uint64_t", "e": "_Float16", "f": "float", "d": "double", "?": "bool",
}  # fmt: skip
"""C types by the letters that Python's `struct` has for them."""
TYPE_BYTES = {name: 8 if letter == "P" else struct.calcsize(f"<{letter}") for letter, name in _LETTERS.items()}
_FORMAT_PART = re.compile(r"\s*(\d{0,4})([A-Za-z?])\s*")

_EXTENTS = "along x, y and z: integers or expressions of the sizes with `+ - * / % ( )`"
Extents = Annotated[list[tables.Size], Field(min_length=1, max_length=3)]


def _field_value(value: Any) -> str:
    """The text of a field's value: numbers and booleans may be written as such."""
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str | int | float):
        raise validator_error("wrong_type", f"a value is a number or a string, not {describe_value(value)}")
    return str(value)


FieldValue = Annotated[str, BeforeValidator(_field_value)]


class FieldTable(Section):
    """A field of a structure."""

    offset: int = Field(ge=0, description="bytes from the beginning of the structure")
    type: Annotated[str, one_of("type", TYPE_BYTES)] = Field(description="its C type, or `pointer`")
    value: FieldValue = Field(description="as an argument; of a floating-point type a number, too")


class StructureTable(Section):
    """An argument that is a structure by value."""

    format: str | None = Field(None, description="types of the fields, as Python's struct has them: `PPiif`")
    values: list[FieldValue] | None = Field(None, description="the fields of `format`, in its order")
    fields: list[FieldTable] | None = Field(None, description="the fields, each with its offset")


@dataclass(frozen=True, slots=True)
class StructureField:
    """A field of a structure by value: its C type or `pointer`, and what it is; `place` is its place in the file."""

    offset: int
    type: str
    value: str
    place: KeyPath


@dataclass(frozen=True, slots=True)
class Structure:
    """An argument that is a structure by value. `size_bytes` is that of a format, None where fields have offsets."""

    fields: tuple[StructureField, ...]
    size_bytes: int | None


class _Words(Section):
    arguments: list[tables.Size]


class LaunchTable(Section):
    """The keys at the top of `args.toml`; its tables are read one by one."""

    kernel: str | None = Field(None, description="the kernel's name or symbol; needed where the file has several")
    grid: Extents = Field(description=f"workgroups {_EXTENTS}")
    block: Extents | None = Field(None, description=f"threads {_EXTENTS}; by default Triton's warps")
    dynamic_lds: tables.Size | None = Field(
        None, description="bytes of dynamic LDS; by default what Triton's JSON says"
    )
    workspace: tables.Size | None = Field(None, description="bytes of memory that the argument `workspace` points to")
    arguments: list[Any] | None = Field(
        None,
        description="tensors, sizes, runtime arguments, `null`, `workspace`, or tables with the fields of a structure;"
        " by default by the names that the kernel has",
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
    arguments: tuple[str | Structure, ...] | None = None

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
    given = None if table is None or table.arguments is None else _arguments(problems, table.arguments)
    report_open_places(problems)
    if kernel is None or table is None or any(one.severity is Severity.ERROR for one in problems.found):
        raise DiagnosedError(tuple(problems.found))
    return LaunchDescription(table, kernel, problems, given)


def _arguments(problems: Problems, given: Sequence[Any]) -> tuple[str | Structure, ...]:
    words = [NULL if isinstance(one, dict) else one for one in given]
    problems.validated(_Words, {"arguments": words}, ())
    found: list[str | Structure] = []
    for at, one in enumerate(given):
        if isinstance(one, dict):
            table = problems.validated(StructureTable, one, ("arguments", at))
            found.append(Structure((), None) if table is None else _structure(problems, ("arguments", at), table))
        else:
            found.append(str(one))
    return tuple(found)


def _structure(problems: Problems, place: KeyPath, table: StructureTable) -> Structure:
    """The fields of a structure, by their offset; what is wrong with them is reported."""
    if table.fields is not None and table.format is None and table.values is None:
        fields = [
            StructureField(one.offset, one.type, one.value, (*place, "fields", at))
            for at, one in enumerate(table.fields)
        ]
        fields.sort(key=lambda one: one.offset)
        for one, after in pairwise(fields):
            if one.offset + TYPE_BYTES[one.type] > after.offset:
                message = f"the field at {after.offset} begins in the one before, a {one.type} at {one.offset}"
                problems.at_value(after.place, "out-of-range", message)
        return Structure(tuple(fields), None)
    if table.format is None or table.values is None or table.fields is not None:
        problems.at_value(place, "missing-key", "a structure has either `format` and `values`, or `fields`")
        return Structure((), None)
    types, size = _formatted(problems, (*place, "format"), table.format)
    if types and len(types) != len(table.values):
        message = f"{len(table.values)} values for {count(len(types), 'field')} of `format`"
        problems.at_value((*place, "values"), "wrong-length", message)
    placed = enumerate(zip(types, table.values, strict=False))
    return Structure(
        tuple(StructureField(offset, kind, value, (*place, "values", at)) for at, ((offset, kind), value) in placed),
        size,
    )


def _formatted(problems: Problems, place: KeyPath, text: str) -> tuple[list[tuple[int, str]], int]:
    """Offset and type of each field of a format, aligned as in C, and the size of it all."""
    found: list[tuple[int, str]] = []
    at = offset = 0
    widest = 1
    while at < len(text):
        part = _FORMAT_PART.match(text, at)
        if part is None or (part[2] != "x" and part[2] not in _LETTERS):
            known = ", ".join(f"`{letter}` {name}" for letter, name in _LETTERS.items())
            message = f"`{text[at:].strip()[:1]}` is not a type of a field; known: {known}, `x` a byte of padding"
            problems.at_value(place, "unknown-value", message)
            return [], 0
        at, times = part.end(), int(part[1] or 1)
        if part[2] == "x":
            offset += times
            continue
        name = _LETTERS[part[2]]
        size = TYPE_BYTES[name]
        widest = max(widest, size)
        offset = -(-offset // size) * size
        found += [(offset + size * number, name) for number in range(times)]
        offset += size * times
    return found, -(-offset // widest) * widest


def _expressions(table: LaunchTable) -> list[tuple[KeyPath, str]]:
    """The expressions of sizes in the launch itself, with their places."""
    found: list[tuple[KeyPath, str]] = [(("grid", at), text) for at, text in enumerate(table.grid)]
    found += [(("block", at), text) for at, text in enumerate(table.block or ())]
    alone = (("dynamic_lds", table.dynamic_lds), ("workspace", table.workspace))
    return [*found, *(((name,), text) for name, text in alone if text is not None)]


def _check_names(problems: Problems, place: KeyPath, text: str, known: list[str]) -> None:
    """Report names that are no size, runtime argument or integer among `[parameters]`."""
    for name in dict.fromkeys(names_in(text)):
        if name not in known:
            message = f"unknown size `{name}`; {did_you_mean(name, known)}known: {join_names(known) or 'none'}"
            problems.at_value(place, "unknown-size", message)
