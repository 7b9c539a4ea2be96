"""Device operations of which ckwatch knows no kind → a custom operation with marked lines for what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable

from ckwatch.cli.imports.ck_gemms import OperationText, constructed_with, variable
from ckwatch.cli.imports.ck_headers import InterfaceArgument
from ckwatch.cli.imports.ck_operations import DTYPES, ProgramOperation, types_of
from ckwatch.cli.imports.cpp_program import CppProgram
from ckwatch.cli.imports.hip_types import element_type
from ckwatch.cli.imports.hip_workspace import OpenQuestion
from ckwatch.workspace.toml import toml_key, toml_string

_EXAMPLE = 256


def open_text(
    program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
) -> OperationText | None:
    """The text for an operation of any kind; None where its interface takes what no C function can pass on."""
    del element_operation
    made = _Open(program, operation)
    for one in operation.interface.arguments:
        if not made.add(one):
            return None
    return made.text()


class _Open:
    def __init__(self, program: CppProgram, operation: ProgramOperation) -> None:
        self._program = program
        self._operation = operation
        self._sizes: dict[str, int] = {}
        self._runtime: dict[str, float] = {}
        self._tensors: dict[str, tuple[str, bool]] = {}
        self._values: dict[str, str] = {}
        self._call: list[str] = []
        self._open: list[OpenQuestion] = []

    def add(self, one: InterfaceArgument) -> bool:
        """Add what is passed for an argument; False where nothing can be."""
        passed = self._passed(one)
        if passed is None:
            return one.default is not None
        self._call.append(f"/* {one.name} */ {passed}")
        return True

    def _passed(self, one: InterfaceArgument) -> str | None:
        kind = one.type.replace("ck::", "").strip()
        if kind in ("void*", "const void*", "void *", "const void *"):
            return self._tensor(one.name, output="const" not in kind)
        if kind in ("index_t", "int", "int32_t", "long_index_t"):
            self._sizes[one.name] = self._program.number(one.name) or _EXAMPLE
            return one.name
        if kind in ("double", "float"):
            self._runtime[one.name] = variable(self._program, one.name) or 1.0
            return one.name
        array = re.fullmatch(r"(?:std::)?array<\s*(const\s+)?void\s*\*\s*,\s*\w+\s*>", kind)
        if array is not None:
            return self._tensors_of(one, output=array[1] is None)
        if (given := self._operation.argument(kind)) is not None and given.parameter.is_type:
            values = ", ".join(f"{value!r}f" for value in constructed_with(self._program, given.text))
            return f"{given.text}{{ {values} }}" if values else f"{given.text}{{}}"
        if re.match(r"(?:std::)?(?:array|vector)<", kind) and "*" not in kind and "Desc" not in kind:
            text = f"say {one.name}, C++ of type {one.type} in terms of the sizes, as in the program"
            self._values[one.name] = text
            self._open.append(OpenQuestion(one.name, text))
            return f"{{{{ {one.name} }}}}"
        return None

    def _tensors_of(self, one: InterfaceArgument, *, output: bool) -> str | None:
        side = re.sub(r"^p_|_(?:grid|dev)$", "", one.name)
        types = next(
            (types_of(self._program, given) for name in self._operation.interface.template
             if name.lower() in (f"{side.lower()}datatype", f"{side.lower()}datatypetuple")
             and (given := self._operation.argument(name)) is not None), None,
        )  # fmt: skip
        if types is None:
            return None
        names = [self._tensor(f"{side.rstrip('s')}{at}", output=output, kind=kind) for at, kind in enumerate(types)]
        return f"std::array<{'' if output else 'const '}void*, {len(names)}>{{ {', '.join(names)} }}"

    def _tensor(self, argument: str, *, output: bool, kind: str = "") -> str:
        name = re.sub(r"^p_|_(?:grid|dev)$", "", argument)
        name = name[:1].upper() + name[1:]
        if not kind:
            wanted = f"{name.lower()}datatype"
            given = [
                self._operation.argument(one) for one in self._operation.interface.template if one.lower() == wanted
            ]
            kind = "".join(types_of(self._program, given[0])) if given and given[0] is not None else ""
        found = element_type(kind) if kind else None
        self._tensors[name] = (found.dtype if found is not None and found.dtype in DTYPES else "?", output)
        return f"{{{{ arg_name({name}) }}}}"

    def text(self) -> OperationText:
        """The text, once every argument was added."""
        lines = ['kind = "custom"', f"sizes = [{', '.join(map(toml_string, self._sizes))}]"]
        if not self._sizes:
            lines[1] = self._asked("sizes", ["?"], "the sizes of the operation, names with commas between them")
        if self._runtime:
            named = ", ".join(f'{name} = "double"' for name in self._runtime)
            lines.append(f"runtime = {{ {named} }}")
        known = ", ".join(self._sizes) or "those above"
        for name, (dtype, output) in sorted(self._tensors.items(), key=lambda one: one[1][1]):
            lines += ["", f"[[operation.{'output' if output else 'input'}]]", f"name = {toml_string(name)}"]
            if dtype == "?":
                lines.append(self._asked("dtype", "?", f"the dtype of {name}: {', '.join(DTYPES)}", name))
            else:
                lines.append(f"dtype = {toml_string(dtype)}")
            lines.append(self._asked("sizes", ["?"], f"the sizes of {name}, outermost first; known: {known}", name))
        lines += [
            "",
            "[defaults]",
            *(f'{toml_key(name)} = "?"  # ckwatch: {text}' for name, text in self._values.items()),
        ]
        inputs = [name for name, (_, output) in self._tensors.items() if not output]
        outputs = [name for name, (_, output) in self._tensors.items() if output]
        return OperationText(
            lines if self._values else lines[:-2], inputs, outputs, {}, self._call, {**self._sizes, **self._runtime},
            open=self._open,
            notes=["results are compared with nothing until [operation] has a `reference`"],
        )  # fmt: skip

    def _asked(self, key: str, value: object, what: str, tensor: str = "") -> str:
        self._open.append(OpenQuestion(f"{tensor}.{key}" if tensor else key, f"say {what}"))
        shown = '["?"]' if isinstance(value, list) else '"?"'
        return f"{key} = {shown}  # ckwatch: say {what}"
