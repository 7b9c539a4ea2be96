"""Device operations that are products of matrices → `[operation]`, tensors and the call of `MakeArgumentPointer`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from ckwatch.cli.imports.ck_headers import InterfaceArgument
from ckwatch.cli.imports.ck_operations import (
    ProgramOperation,
    TemplateArgument,
    dtype_of,
    first_named,
    layout_of,
    types_of,
)
from ckwatch.cli.imports.cpp_program import CppProgram
from ckwatch.cli.imports.element_functions import ElementFunctions, UntranslatableError
from ckwatch.cli.imports.hip_workspace import OpenQuestion
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.toml import toml_string

ADDRESSES = """\
// CK addresses a tensor by signed 32-bit byte offsets, and the padding of its last tiles counts. Where a dword or more
// is read or written at once, buffer instructions may ignore the lowest two bits of the address.
inline bool is_unaddressable(
    const void* base, int64_t lines, int64_t tile, int64_t leading, int64_t bytes, int64_t vector) {
    const int64_t alignment = bytes * vector < 4 ? bytes * vector : 4;
    return (lines + tile - 1) / tile * tile * leading > INT32_MAX / bytes || leading * bytes % alignment != 0 ||
           reinterpret_cast<uintptr_t>(base) % alignment != 0;
}
"""
_EXAMPLE_SIZE = 1024
ACTIVATIONS: Mapping[str, str] = {
    "Relu": "relu", "FastGelu": "gelu_tanh", "Gelu": "gelu", "Silu": "silu", "TanH": "tanh", "Sigmoid": "sigmoid",
}  # fmt: skip
_ELEMENT_WISE = "tensor_operation::element_wise::"
_DEFAULT_ACCUMULATORS = {"i8": "i32", "f64": "f64"}


@dataclass(slots=True)
class OperationText:
    """The parts of the two files that depend on what an operation computes.

    `hooks` are template arguments that the template's hooks give, by the names of parameters. `call` are the arguments
    of `MakeArgumentPointer`, `refused` conditions in C++ under which the operation is not launched. `helpers` are C++
    functions, `before` statements before the call.
    """

    lines: list[str]
    inputs: list[str]
    outputs: list[str]
    hooks: dict[str, str]
    call: list[str]
    shape: Mapping[str, float]
    refused: Sequence[str] = field(default_factory=list)
    parameters: dict[str, object] = field(default_factory=dict)
    open: list[OpenQuestion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reference: str | None = None
    helpers: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A D tensor: a matrix, or one value for each row or column where the program's stride is 0."""

    name: str
    dtype: str
    layout: str
    per: str


def gemm_text(
    program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
) -> OperationText | None:
    """The text for a GEMM or a batched GEMM; None for an operation of another kind.

    `element_operation` gives the C++ of an operation on elements of CK's.
    """
    names = {one.name for one in operation.interface.arguments}
    if re.search("preshuffle|moe", f"{operation.template.name} {operation.interface.name}", re.IGNORECASE):
        return None
    grouped = "gemm_desc" in names and _needs_no_more_than_a_workspace(operation)
    if not {"p_a", "p_b"} <= names or not names & {"p_c", "p_e"} or not (grouped or {"M", "N", "K"} <= names):
        return None
    made = _Gemm(program, operation, element_operation)
    return made.text() if all(map(made.add, operation.interface.arguments)) else None


def _needs_no_more_than_a_workspace(operation: ProgramOperation) -> bool:
    body = operation.template.body
    return "GetDeviceKernelArgSize" not in body or "return GetWorkSpaceSize(p_arg)" in body


class _Gemm:
    def __init__(
        self, program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
    ) -> None:
        self._program = program
        self._element_operation = element_operation
        self._operation = operation
        result = "E" if operation.argument("EDataType") is not None else "C"
        self._types = {"X": "ADataType", "W": "BDataType", "Y": f"{result}DataType"}
        self._layouts = {"X": "ALayout", "W": "BLayout", "Y": f"{result}Layout"}
        self._operands = self._named_operands()
        self._grouped = any(one.name == "gemm_desc" for one in operation.interface.arguments)
        self._batched = self._grouped or any(one.name == "Batch" for one in operation.interface.arguments)
        self._has_k_batch = False
        self._call: list[str] = []
        self._ops: dict[str, str] = {}
        self._parameters: dict[str, object] = {}
        self._open: list[OpenQuestion] = []
        self._values: dict[str, list[float]] = {}
        self._reference: str | None = None

    def _named_operands(self) -> list[_Operand]:
        types = types_of(self._program, self._operation.argument("DsDataType"))
        layouts = types_of(self._program, self._operation.argument("DsLayout"))
        still = self._strides_of_0(len(types))
        found = []
        for at, (kind, layout) in enumerate(zip(types, layouts, strict=False)):
            name = "D" if len(types) == 1 else f"D{at}"
            lies = layout_of(self._operation, layout)
            per = "element"
            if f"Stride{name}" in still or at in still:
                per = "column" if lies == "row" else "row"
            found.append(_Operand(name, dtype_of(self._operation, kind), lies, per))
        return found

    def _strides_of_0(self, count: int) -> set[str | int]:
        """The strides of D tensors that are 0 in the program, by their names or places."""
        code = self._program.code
        found: set[str | int] = set(re.findall(r"\b(Stride\w+)\s*(?:=|\{)\s*0\s*[;,}]", code))
        for passed in re.findall(r"\barray<\s*(?:ck::)?index_t\s*,[^<>]*>\s*\{([\w\s,]+)\}", code):
            names = [one.strip() for one in passed.split(",")]
            if len(names) == count:
                found |= {at for at, name in enumerate(names) if name in (*found, "0", "I0")}
        return found

    def add(self, argument: InterfaceArgument) -> bool:
        """Add what is passed for an argument; False where a GEMM has nothing for it."""
        found = self._argument(argument)
        if found is None:
            return argument.default is not None
        self._call.append(f"/* {argument.name} */ {found}")
        return True

    def _argument(self, one: InterfaceArgument) -> str | None:
        if one.type.startswith("std::vector<"):
            return one.name if one.name in ("p_a", "p_b", "p_ds", "p_e", "gemm_desc") else None
        plain = {
            "p_a": "{{ arg_name(X) }}", "p_b": "{{ arg_name(W) }}",
            "p_c": "{{ arg_name(Y) }}", "p_e": "{{ arg_name(Y) }}",
            "M": "M", "N": "N", "K": "K", "StrideA": "LDA", "StrideB": "LDB", "StrideC": "LDC", "StrideE": "LDC",
            "Batch": "B", "BatchStrideA": "BatchStrideA", "BatchStrideB": "BatchStrideB",
            "BatchStrideC": "BatchStrideC", "BatchStrideE": "BatchStrideC",
        }.get(one.name)  # fmt: skip
        if plain is not None:
            return plain
        if one.name in ("KBatch", "KSplit"):
            self._has_k_batch = True
            return "kBatch"
        if one.name in ("p_ds", "StrideDs", "DsStrides", "BatchStrideDs"):
            return self._of_operands(one.name)
        if "element" in one.name and one.name.endswith("op"):
            given = self._operation.argument(one.type)
            return None if given is None else self._element_op(one, given)
        number = self._program.number(one.name, -1) if one.type.endswith("index_t") and one.default is None else None
        if number is None:
            return None
        self._parameters[one.name] = number
        return f"{{{{ {one.name} }}}}"

    def _of_operands(self, name: str) -> str:
        kind = "const void*" if name == "p_ds" else "ck::index_t"
        values = []
        for one in self._operands:
            if name == "p_ds":
                values.append(f"{{{{ arg_name({one.name}) }}}}")
            elif name == "BatchStrideDs":
                values.append(f"BatchStride_{one.name}" if one.per == "element" else "0")
            else:
                values.append(f"LD_{one.name}" if one.per == "element" else "0")
        return f"std::array<{kind}, {len(values)}>{{ {', '.join(values)} }}"

    def _element_op(self, one: InterfaceArgument, given: TemplateArgument) -> str:
        resolved = self._program.resolved(given.text)
        self._ops[one.name] = resolved
        values = constructed_with(self._program, given.text)
        self._values[resolved.rpartition("::")[2]] = values
        return f"{given.text}{{ {', '.join(f'{value!r}f' for value in values)} }}" if values else f"{given.text}{{}}"

    def text(self) -> OperationText:
        """The text, once every argument was added."""
        tensors = {name: self._tensor(name) for name in self._types}
        kind = "batched_gemm" if self._batched else "gemm"
        lines = [f"kind = {toml_string(kind)}"]
        for key, name in (("a", "X"), ("b", "W"), ("c", "Y")):
            dtype, layout = tensors[name]
            lines.append(f"{key} = {{ dtype = {toml_string(dtype)}, layout = {toml_string(layout)} }}")
        accumulator = self._accumulator()
        if accumulator is not None and accumulator != _DEFAULT_ACCUMULATORS.get(tensors["X"][0], "f32"):
            lines.append(f"accumulator = {toml_string(accumulator)}")
        if self._batched:
            lines.append("batch_strides = true")
        lines += self._epilogue_lines()
        shape = {name: number for name in self._sizes() if (number := self._program.number(name)) is not None}
        if self._batched and "B" not in shape:
            number = (
                self._program.number("group_count")
                or self._program.number("batch_count")
                or self._program.number("BatchCount")
                or self._program.number("Batch")
            )
            shape = {"B": number or 2, **shape}
        refused = [] if self._has_k_batch else ["kBatch != 1"]
        refused += self._unaddressable()
        notes = []
        if missing := [one for one in self._sizes() if one not in shape]:
            shape |= dict.fromkeys(missing, _EXAMPLE_SIZE)
            notes.append(f"the program does not write out {', '.join(missing)}: those of the shape are an example")
        inputs = ["X", "W", *(one.name for one in self._operands)]
        return OperationText(
            lines,
            inputs,
            ["Y"],
            self._hooks(),
            self._call,
            shape,
            refused,
            self._parameters,
            self._open,
            reference=self._reference,
            helpers=ADDRESSES,
            notes=notes,
            before=self._groups() if self._grouped else "",
        )

    def _groups(self) -> str:
        """Statements that make the lists of a grouped operation: a group for each matrix of a batch."""
        operands = [one.name for one in self._operands]
        per = {one.name: one.per == "element" for one in self._operands}
        pointers = ", ".join(
            f"{{{{ arg_name({name}) }}}} + {_group_stride(name) if per[name] else '0'}" for name in operands
        )
        strides = ", ".join(f"LD_{name}" if per[name] else "0" for name in operands)
        return f"""\
    std::vector<const void*> p_a, p_b;
    std::vector<std::array<const void*, {len(operands)}>> p_ds;
    std::vector<void*> p_e;
    std::vector<ck::tensor_operation::device::GemmDesc> gemm_desc;
    for (int32_t group = 0; group < B; ++group) {{
        p_a.push_back({{{{ arg_name(X) }}}} + int64_t{{BatchStrideA}} * group);
        p_b.push_back({{{{ arg_name(W) }}}} + int64_t{{BatchStrideB}} * group);
        p_ds.push_back({{ {pointers} }});
        p_e.push_back({{{{ arg_name(Y) }}}} + int64_t{{BatchStrideC}} * group);
        gemm_desc.push_back({{ M, N, K, LDA, LDB, LDC, {{ {strides} }} }});
    }}
"""

    def _unaddressable(self) -> list[str]:
        """Conditions that CK does not check, on each matrix."""
        matrices = [("X", "M", "K", "LDA"), ("W", "K", "N", "LDB"), ("Y", "M", "N", "LDC")]
        matrices += [(one.name, "M", "N", f"LD_{one.name}") for one in self._operands if one.per == "element"]
        found = []
        for tensor, rows, columns, leading in matrices:
            pattern = {"X": "A", "W": "B"}.get(tensor, "C")
            vector = first_named(self._operation.parameters, rf"{pattern}\w*(?:Src|Transfer|Dst)ScalarPerVector\w*")
            width = f"{{{{ {vector.name} }}}}" if vector is not None and isinstance(vector.value, int) else "1"
            tile = f"{rows if self._layout(tensor) == 'row' else columns}PerBlock"
            names = [one.name for one in self._operation.parameters]
            padded = f"{{{{ {tile} }}}}" if tile in names else "1"
            found.append(unaddressable(tensor, rows + columns, padded, leading, width))
        return found

    def _layout(self, tensor: str) -> str:
        own = next((one.layout for one in self._operands if one.name == tensor), None)
        return own if own is not None else self._tensor(tensor)[1]

    def _sizes(self) -> tuple[str, ...]:
        return ("M", "N", "K")

    def _tensor(self, name: str) -> tuple[str, str]:
        kinds = types_of(self._program, self._operation.argument(self._types[name]))
        layouts = types_of(self._program, self._operation.argument(self._layouts[name]))
        return dtype_of(self._operation, "".join(kinds)), layout_of(self._operation, "".join(layouts))

    def _accumulator(self) -> str | None:
        given = first_named(self._operation.arguments, r"(?:Gemm)?Acc(?:um)?(?:DataType|Type)|FloatAcc")
        return None if given is None else dtype_of(self._operation, self._program.resolved(given.text))

    def _hooks(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for names, hook in ((self._types, "dtype"), (self._layouts, "layout")):
            for tensor, name in names.items():
                if (given := self._operation.argument(name)) is not None:
                    found[given.parameter.name] = f"{{{{ {hook}({tensor}) }}}}"
        for name, hook in (("DsDataType", "dtype"), ("DsLayout", "layout")):
            if (given := self._operation.argument(name)) is not None:
                found[given.parameter.name] = (
                    f"Tuple<{', '.join(self._of_operand(hook, one) for one in self._operands)}>"
                )
        return found

    def _of_operand(self, hook: str, one: _Operand) -> str:
        if hook == "layout" and one.per != "element":
            return "Row" if one.layout == "row" else "Col"
        return f"{{{{ {hook}({one.name}) }}}}"

    def _epilogue_lines(self) -> list[str]:
        ops = {name[0]: kind for name, kind in self._ops.items()}
        result = ops.get("c", ops.get("e", "PassThrough"))
        steps = self._steps(result)
        own = steps is None or not all(passes(ops.get(side, "PassThrough")) for side in "ab")
        lines = []
        if own or self._wraps():
            lines.append(self._reference_line(ops.get("a", ""), ops.get("b", ""), result))
        if not self._operands and not steps:
            return lines
        words = steps if steps is not None else [one.name for one in self._operands]
        does = dict(_does(result, self._operands))
        lines.append(f"epilogue = [{', '.join(map(toml_string, words))}]  # {result.rpartition('::')[2]}")
        for one in self._operands:
            keys = {"does": does.get(one.name, "add"), "per": one.per, "dtype": one.dtype}
            if one.per == "element":
                keys["layout"] = one.layout
            table = ", ".join(f"{key} = {toml_string(value)}" for key, value in keys.items())
            lines.append(f"operands.{one.name} = {{ {table} }}")
        return lines

    def _wraps(self) -> bool:
        """Return True where integers overflow: CK keeps the lowest bits of a sum, and ckwatch's reference the nearest
        value."""
        return self._tensor("Y")[0] == "i8" and self._accumulator() == "i32"

    def _reference_line(self, a: str, b: str, result: str) -> str:
        functions = ElementFunctions(self._source, self._values)
        try:
            self._reference = self._reference_text(functions, a, b, result)
        except UntranslatableError as error:
            text = f'say a Python function that computes Y, as "reference.py:outputs"; not translated: {error}'
            self._open.append(OpenQuestion("reference", text))
            return f'reference = "?"  # ckwatch: {text}'
        return 'reference = "@REFERENCE@:outputs"'

    def _source(self, name: str) -> str | None:
        short = name.rpartition("::")[2]
        own = [one.text for one in self._program.definitions.get(short, ()) if one.kind == "struct"]
        if len(own) == 1 or _ELEMENT_WISE not in name:
            return own[0] if len(own) == 1 else self._element_operation(short)
        return self._element_operation(short)

    def _reference_text(self, functions: ElementFunctions, a: str, b: str, result: str) -> str:
        def applied(kind: str, *values: str) -> str:
            if passes(kind) or not kind:
                return values[0]
            return f"{functions.add(kind, len(values))}({', '.join(values)})"

        operands = [f"{one.name}[..., None]" if one.per == "row" else one.name for one in self._operands]
        product = f"{applied(a, 'X')}.astype(float) @ {applied(b, 'W')}.astype(float)"
        value = applied(result, "product", *operands)
        if self._wraps():
            value = f"({value}.astype(np.int64) + 128) % 256 - 128  # the lowest bits, as CK keeps them"
        names = ", ".join(("X", "W", *(one.name for one in self._operands)))
        defined = "".join(f"{one}\n\n" for one in functions.texts.values())
        return (
            f'"""Y of {self._operation.name} of {self._program.path.name}."""\n\nimport numpy as np\n\n\n{defined}'
            f"def outputs({names}):\n    product = {product}\n    return {value}\n"
        )

    def _steps(self, kind: str) -> list[str] | None:
        """The steps of an epilogue that CK's name of it says; None where it does not."""
        if passes(kind):
            return [] if not self._operands else None
        if _ELEMENT_WISE not in kind:
            return None
        return epilogue_steps(kind.rpartition("::")[2], [one.name for one in self._operands])


def unaddressable(tensor: str, sizes: str, tile: str, leading: str, vector: str) -> str:
    """The condition in C++ under which CK cannot address a matrix; `sizes` are the names of its rows and columns."""
    lines = f'{{{{ "{sizes[0]}" if {tensor}.layout == "row" else "{sizes[1]}" }}}}'
    size = f"sizeof({{{{ dtype({tensor}) }}}})"
    return f"@SCOPE@::is_unaddressable({{{{ ptr({tensor}) }}}}, {lines}, {tile}, {leading}, {size}, {vector})"


def _group_stride(name: str) -> str:
    return f"int64_t{{BatchStride_{name}}} * group"


def passes(kind: str) -> bool:
    """Return True for an operation on elements that changes no more than their type."""
    return kind.rpartition("::")[2] in ("PassThrough", "UnaryConvert")


def epilogue_steps(name: str, operands: list[str]) -> list[str] | None:
    """The steps that a name of CK's says word by word (AddAddFastGelu); None if it says another count of operands."""
    words = re.findall("|".join((*ACTIVATIONS, "Add", "Multiply")), name)
    if "".join(words) != name:
        return None
    left = list(operands)
    steps = []
    for word in words:
        if word in ACTIVATIONS:
            steps.append(ACTIVATIONS[word])
        elif not left:
            return None
        else:
            steps.append(left.pop(0))
    return None if left else steps


def _does(kind: str, operands: list[_Operand]) -> list[tuple[str, str]]:
    words = re.findall("Add|Multiply", kind.rpartition("::")[2])
    return [(one.name, word.lower()) for one, word in zip(operands, words, strict=False)]


def constructed_with(program: CppProgram, name: str) -> list[float]:
    """The numbers with which a program constructs an operation on elements; none where it says none, or others."""
    found = re.search(rf"\b{re.escape(name)}\s*\{{\s*([\w\s.,+-]+)\}}", program.code)
    if found is None:
        return []
    texts = [one.strip() for one in found[1].split(",")]
    values = [variable(program, one) if one.isidentifier() else _float(one) for one in texts]
    known = [one for one in values if one is not None]
    return known if len(known) == len(values) else []


def variable(program: CppProgram, name: str) -> float | None:
    """The number that a program gives a variable, or that is written there."""
    if (value := _float(name)) is not None:
        return value
    if not name.isidentifier():
        return None
    for found in re.finditer(rf"(?<![\w.>:]){name}\s*(?:=(?!=)|\{{)\s*([^;,{{}}]+)[;,}}]", program.code):
        if (value := _float(found[1])) is not None:
            return value
    return None


def _float(text: str) -> float | None:
    found = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fF]?\s*", text)
    return None if found is None else float(found[1])
