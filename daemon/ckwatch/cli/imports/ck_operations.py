"""Device operations of Composable Kernel that a program instantiates, with named template arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ckwatch.cli.imports.ck_headers import CkHeaders, ClassTemplate, Interface
from ckwatch.cli.imports.cpp_program import CppProgram, arguments_of
from ckwatch.cli.imports.hip_types import element_type
from ckwatch.headers.declarations import CkParameter
from ckwatch.headers.masked_text import closing
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.problems import did_you_mean, join_names

_INTEGERS = frozenset(("index_t", "ck::index_t", "int", "int32_t", "unsigned", "size_t", "std::size_t", "long_index_t"))
_DEVICE = "tensor_operation::device"
DTYPES = ("f16", "bf16", "f32", "f64", "f8", "bf8", "i8", "i32", "i64", "u8")
"""Those of which templates know CK's name of the type."""


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """A template argument: as the program writes it, and as a parameter of kernel files where it can be one.

    `scope` stands before a value that is an enumerator.
    """

    parameter: CkParameter
    text: str
    value: int | bool | str | tuple[int, ...] | None = None
    scope: str = ""

    @property
    def name(self) -> str:
        """The name of the parameter, in CK and in kernel files."""
        name = self.parameter.name
        return f"{name}_" if name in RESERVED else name


@dataclass(frozen=True, slots=True)
class ProgramOperation:
    """A device operation: what the program calls it, and where; its class and interface; its arguments."""

    name: str
    place: str
    called: str
    template: ClassTemplate
    interface: Interface
    arguments: tuple[TemplateArgument, ...]

    def argument(self, name: str) -> TemplateArgument | None:
        """The argument for a parameter of the interface, None where it is not one of the program's."""
        own = self.interface.template.get(name, "")
        return next((one for one in self.arguments if one.parameter.name == own), None)

    @property
    def parameters(self) -> tuple[TemplateArgument, ...]:
        """The arguments that are parameters of kernel files."""
        return tuple(one for one in self.arguments if one.value is not None)


@dataclass(frozen=True, slots=True)
class Instantiation:
    """A device operation as the program instantiates it: its names, the type, and the offset of the first name.

    `used` is the name by which a function uses it, if one does.
    """

    names: tuple[str, ...]
    called: str
    offset: int
    used: str | None

    @property
    def name(self) -> str:
        """The name that it is called by."""
        return self.used or self.names[0]


def instantiations(program: CppProgram, headers: CkHeaders) -> list[Instantiation]:
    """The device operations that have names in a program, in its order."""
    found: dict[str, tuple[list[str], int]] = {}
    for name, definitions in program.definitions.items():
        for one in definitions:
            if one.kind not in ("using", "typedef") or not re.search(r"\bDevice\w+", one.value):
                continue
            uses = _uses(program, name, one.end) if one.parameters else [(program.resolved(one.value), one.start)]
            for called, offset in uses:
                short = called.partition("<")[0].rstrip().rpartition("::")[2]
                if not re.match(r"(?:\w+::)*Device\w+\s*<", called):
                    continue
                if f"{_DEVICE}::{short}" in called.partition("<")[0] or headers.class_template(short) is not None:
                    found.setdefault(called, ([], offset))[0].append(name)
    made = []
    for called, (names, offset) in found.items():
        used = next((name for name in names if _used(program, name)), None)
        made.append(Instantiation(tuple(dict.fromkeys(names)), called, offset, used))
    return sorted(made, key=lambda one: one.offset)


def device_operation(program: CppProgram, headers: CkHeaders, one: Instantiation, name: str) -> ProgramOperation | None:
    """The device operation of an instantiation; None where it has no interface. Raises CkwatchError for one that these
    headers do not have as the program instantiates it."""
    short = one.called.partition("<")[0].rstrip().rpartition("::")[2]
    place = program.place(one.offset)
    template = headers.class_template(short, [header.name for header in program.includes])
    if template is None:
        raise CkwatchError(
            f"{place}: Composable Kernel {headers.version} has no {short}", did_you_mean(short, headers.names()) or None
        )
    interface = headers.interface(template)
    return None if interface is None else _operation(program, name, place, one.called, template, interface, headers)


def _used(program: CppProgram, name: str) -> bool:
    """Return True if a function uses a name."""
    inside = [(one.start, one.end) for ones in program.definitions.values() for one in ones if one.kind == "function"]
    uses = [found.start() for found in re.finditer(rf"\b{re.escape(name)}\b", program.code)]
    return any(start <= at < end for at in uses for start, end in inside)


def _uses(program: CppProgram, name: str, after: int) -> list[tuple[str, int]]:
    """The types behind uses of an alias template, and their offsets."""
    found = []
    for use in re.finditer(rf"\b{re.escape(name)}\s*<", program.code[after:]):
        start = after + use.start()
        end = closing(program.code, after + use.end() - 1)
        if end > 0:
            found.append((program.resolved(program.code[start : end + 1]), start))
    return found


def _operation(
    program: CppProgram,
    name: str,
    place: str,
    called: str,
    template: ClassTemplate,
    interface: Interface,
    headers: CkHeaders,
) -> ProgramOperation:
    version = headers.version
    written, texts = arguments_of(called)
    required = [one for one in template.parameters if one.default is None]
    if not len(required) <= len(texts) <= len(template.parameters):
        most = len(template.parameters)
        takes = f"{most if len(required) == most else f'{len(required)} to {most}'} template arguments"
        raise CkwatchError(
            f"{place}: {template.name} of Composable Kernel {version} takes {takes}, not {len(texts)}",
            "the program is written for another version of CK",
        )
    arguments = tuple(
        _argument(program, parameter, text) for parameter, text in zip(template.parameters, texts, strict=False)
    )
    for one in arguments:
        kind = one.scope.removesuffix("::").rpartition("::")[2]
        known = headers.enumerators(kind) if kind else []
        if known and one.value not in known:
            raise CkwatchError(
                f"{place}: {kind} of Composable Kernel {version} has no {one.value}",
                f"{did_you_mean(str(one.value), known)}there are {join_names(known)}",
            )
    return ProgramOperation(name, place, written, template, interface, arguments)


def _argument(program: CppProgram, parameter: CkParameter, text: str) -> TemplateArgument:
    resolved = program.resolved(text)
    if parameter.is_type:
        return TemplateArgument(parameter, text, _sequence(program, resolved))
    if parameter.kind == "bool" and (number := program.integer(text)) is not None:
        return TemplateArgument(parameter, text, bool(number))
    if parameter.kind in _INTEGERS:
        return TemplateArgument(parameter, text, program.integer(text))
    scope, separator, enumerator = resolved.rpartition("::")
    if separator and enumerator.isidentifier():
        return TemplateArgument(parameter, text, enumerator, scope + separator)
    return TemplateArgument(parameter, text, program.integer(text))


def _sequence(program: CppProgram, resolved: str) -> tuple[int, ...] | None:
    name, texts = arguments_of(resolved)
    if name.rpartition("::")[2] != "Sequence":
        return None
    numbers = [program.integer(one) for one in texts]
    known = tuple(one for one in numbers if one is not None)
    return known if len(known) == len(numbers) else None


def types_of(program: CppProgram, argument: TemplateArgument | None) -> list[str]:
    """The types behind a template argument: those of a tuple, or the one that it is."""
    if argument is None:
        return []
    resolved = program.resolved(argument.text)
    name, texts = arguments_of(resolved)
    if name.rpartition("::")[2] in ("Tuple", "tuple"):
        return [program.resolved(one) for one in texts]
    return [resolved]


def dtype_of(operation: ProgramOperation, spelled: str) -> str:
    """The dtype of a C++ type. Raises CkwatchError for one that kernel files have no name for."""
    found = element_type(spelled)
    if found is None or found.lanes != 1 or found.dtype not in DTYPES:
        raise CkwatchError(
            f"{operation.place}: kernel files have no dtype for the elements of {operation.name}: {spelled}"
        )
    return found.dtype


def layout_of(operation: ProgramOperation, spelled: str) -> str:
    """`row` or `col`. Raises CkwatchError for another layout."""
    name = spelled.rpartition("::")[2]
    if name not in ("RowMajor", "ColumnMajor"):
        raise CkwatchError(
            f"{operation.place}: a matrix of {operation.name} has the layout {name}, not row or column major"
        )
    return "row" if name == "RowMajor" else "col"


def first_named(arguments: Sequence[TemplateArgument], pattern: str) -> TemplateArgument | None:
    """The first argument whose parameter's name matches a pattern."""
    return next((one for one in arguments if re.fullmatch(pattern, one.parameter.name)), None)
