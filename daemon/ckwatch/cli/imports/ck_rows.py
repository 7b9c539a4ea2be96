"""Device operations on tensors of any rank (element-wise, softmax, normalization, reduction) → a custom operation.

Their interfaces take lengths, strides and dimensions as arrays. Lengths become sizes; strides that the program writes
out become expressions of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from ckwatch.cli.imports.ck_gemms import OperationText, constructed_with, variable
from ckwatch.cli.imports.ck_headers import InterfaceArgument
from ckwatch.cli.imports.ck_operations import ProgramOperation, dtype_of, types_of
from ckwatch.cli.imports.cpp_program import CppProgram
from ckwatch.cli.imports.element_functions import ElementFunctions, UntranslatableError
from ckwatch.cli.imports.hip_workspace import OpenQuestion
from ckwatch.cli.imports.source_text import elements
from ckwatch.headers.masked_text import closing
from ckwatch.workspace.toml import toml_string

_REDUCTIONS: Mapping[str, str] = {
    "ADD": "In.sum(axis={axes})", "AVG": "In.mean(axis={axes})", "NORM1": "np.abs(In).sum(axis={axes})",
    "NORM2": "np.sqrt((In * In).sum(axis={axes}))", "MAX": "In.max(axis={axes})", "MIN": "In.min(axis={axes})",
    "MUL": "In.prod(axis={axes})", "AMAX": "np.abs(In).max(axis={axes})",
}  # fmt: skip
_EXAMPLES = (16, 128, 64, 8, 4)
Tensor = tuple[str, str, Sequence[str], Sequence[str], bool]
"""Name, dtype, sizes, strides (none for packed ones) of a tensor; True for an output."""


def rows_text(
    program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
) -> OperationText | None:
    """The text for an operation of one of these interfaces; None for another."""
    known: Mapping[str, Callable[[_Rows], None]] = {
        "DeviceElementwise": _Rows.elementwise,
        "DeviceSoftmax": _Rows.softmax,
        "DeviceNormalizationFwd": _Rows.normalization,
        "DeviceReduce": _Rows.reduction,
    }
    kind = known.get(operation.interface.name)
    if kind is None:
        return None
    made = _Rows(program, operation, element_operation)
    kind(made)
    return made.text()


class _Rows:
    def __init__(
        self, program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
    ) -> None:
        self._program = program
        self._operation = operation
        self._passed = _passed(program, operation.interface.arguments)
        self._functions = ElementFunctions(self._source(element_operation), {})
        self._values: dict[str, list[float]] = {}
        self._functions.values = self._values
        self._sizes: dict[str, int] = {}
        self._runtime: dict[str, float] = {}
        self._tensors: list[Tensor] = []
        self._call: dict[str, str] = {}
        self._open: list[OpenQuestion] = []
        self._reference: str | None = None

    def _source(self, element_operation: Callable[[str], str | None]) -> Callable[[str], str | None]:
        def source(name: str) -> str | None:
            short = name.rpartition("::")[2]
            own = [one.text for one in self._program.definitions.get(short, ()) if one.kind == "struct"]
            return own[0] if len(own) == 1 else element_operation(short)

        return source

    def elementwise(self) -> None:
        """Outputs of inputs, element by element."""
        lengths = self._lengths("lengths", self._rank("NumDim"))
        names: dict[bool, list[str]] = {False: [], True: []}
        for output, types, strides, buffers in (
            (False, "InDataTypeTuple", "inStridesArray", "in_dev_buffers"),
            (True, "OutDataTypeTuple", "outStridesArray", "out_dev_buffers"),
        ):
            kinds = types_of(self._program, self._operation.argument(types))
            lies = self._stride_lists(strides, lengths, len(kinds))
            for at, (kind, found) in enumerate(zip(kinds, lies, strict=True)):
                name = ("Out" if output else "In") + (str(at) if len(kinds) > 1 else "")
                self._tensors.append((name, dtype_of(self._operation, kind), lengths, found, output))
                names[output].append(name)
            pointers = ", ".join(f"{{{{ arg_name({name}) }}}}" for name in names[output])
            rank = len(lengths)
            self._call[buffers] = f"std::array<{'' if output else 'const '}void*, {len(kinds)}>{{ {pointers} }}"
            inner = ", ".join(f"std::array<ck::index_t, {rank}>{{{', '.join(one or packed(lengths))}}}" for one in lies)
            self._call[strides] = f"std::array<std::array<ck::index_t, {rank}>, {len(kinds)}>{{ {inner} }}"
        self._call["lengths"] = f"std::array<ck::index_t, {len(lengths)}>{{{', '.join(lengths)}}}"
        kind = self._element_op("elementwise_op", "ElementwiseOperation")
        if len(names[True]) == 1:
            self._refer(names[False], lambda: [f"return {self._applied(kind, names[False])}"])
        else:
            self._ask_for_reference("several outputs")

    def softmax(self) -> None:
        """Rows whose elements sum to 1."""
        lengths = self._lengths("inLengths", self._rank("Rank"))
        axes = self._axes("reduceDims", len(lengths))
        for name, types, output in (("In", "InDataType", False), ("Out", "OutDataType", True)):
            self._add_tensor(name, types, lengths, output)
        self._numbers(("alpha", 1.0), ("beta", 0.0))
        self._vectors(inLengths=lengths, inStrides=packed(lengths), reduceDims=[str(one) for one in axes])
        self._call |= {"in_dev": "{{ arg_name(In) }}", "out_dev": "{{ arg_name(Out) }}"}
        inner = self._element_op("in_elementwise_op", "InElementwiseOp")
        outer = self._element_op("acc_elementwise_op", "AccElementwiseOp")
        self._refer(
            ["In", "alpha"],
            lambda: [
                f"values = {self._applied(inner, ['In'])}",
                f"values = np.exp(values - values.max(axis={axes}, keepdims=True))",
                f"values = values / values.sum(axis={axes}, keepdims=True)",
                f"return alpha * {self._applied(outer, ['values'])}",
            ],
        )
        self._refused = ["beta != 0"]

    def normalization(self) -> None:
        """Rows minus their mean, divided by their standard deviation."""
        lengths = self._lengths("lengths", self._rank("Rank"))
        axes = self._axes("reduceDims", len(lengths))
        kept = [one for at, one in enumerate(lengths) if at not in axes]
        self._add_tensor("X", "XDataType", lengths, output=False)
        broadcast = {}
        for name in ("Gamma", "Beta"):
            found = self._strides(self._passed.get(f"{name.lower()}Strides", ""), lengths)
            used = [at for at, one in enumerate(found) if one != "0"] or list(axes)
            self._add_tensor(name, f"{name}DataType", [lengths[at] for at in used], output=False)
            inner = iter(packed([lengths[at] for at in used]))
            self._vectors(
                **{f"{name.lower()}Strides": [next(inner) if at in used else "0" for at in range(len(lengths))]}
            )
            missing = tuple(at for at in range(len(lengths)) if at not in used)
            broadcast[name] = f"np.expand_dims({name}, {missing})"
        self._add_tensor("Y", "YDataType", lengths, output=True)
        saved = self._passed.get("p_savedMean", "nullptr") != "nullptr"
        if saved:
            self._add_tensor("Mean", "SaveMeanInvStdDataType", kept, output=True)
            self._add_tensor("InvStd", "SaveMeanInvStdDataType", kept, output=True)
        self._numbers(("epsilon", 1e-4))
        self._vectors(
            lengths=lengths, xStrides=packed(lengths), yStrides=packed(lengths), saveMeanStrides=packed(kept),
            saveInvStdStrides=packed(kept), reduceDims=[str(one) for one in axes],
        )  # fmt: skip
        pointers = {"p_x": "X", "p_gamma": "Gamma", "p_beta": "Beta", "p_y": "Y", "p_savedMean": "Mean"}
        self._call |= {key: f"{{{{ arg_name({name}) }}}}" for key, name in pointers.items()}
        self._call["p_savedInvVar"] = "{{ arg_name(InvStd) }}"
        if not saved:
            self._call |= {"p_savedMean": "nullptr", "p_savedInvVar": "nullptr"}
        kind = self._element_op("y_elementwise_op", "YElementwiseOperation")
        self._refer(
            ["X", "Gamma", "Beta", "epsilon"],
            lambda: [
                f"mean = X.mean(axis={axes}, keepdims=True)",
                f"inverse = 1 / np.sqrt(X.var(axis={axes}, keepdims=True) + epsilon)",
                f"normalized = (X - mean) * inverse * {broadcast['Gamma']} + {broadcast['Beta']}",
                f"y = {self._applied(kind, ['normalized'])}",
                f"return y, mean.squeeze({axes}), inverse.squeeze({axes})" if saved else "return y",
            ],
        )

    def reduction(self) -> None:
        """A sum, or another reduction, over some axes."""
        rank = self._rank("Rank", "inLengths")
        lengths = self._lengths("inLengths", rank)
        axes = self._axes("reduceDims", rank)
        kept = [one for at, one in enumerate(lengths) if at not in axes]
        self._add_tensor("In", "InDataType", lengths, output=False)
        self._add_tensor("Out", "OutDataType", kept or ["1"], output=True)
        self._numbers(("alpha", 1.0), ("beta", 0.0))
        self._refused = ["beta != 0"]
        self._hooks = {"Rank": str(rank), "NumReduceDim": str(len(axes))}
        for name, values in (
            ("inLengths", lengths), ("inStrides", packed(lengths)), ("outLengths", kept or ["1"]),
            ("outStrides", packed(kept) or ["1"]), ("reduceDims", [str(one) for one in axes]),
        ):  # fmt: skip
            kind = "int" if name == "reduceDims" else "ck::index_t"
            self._call[name] = f"std::array<{kind}, {len(values)}>{{{', '.join(values)}}}"
        self._call |= {"in_dev": "{{ arg_name(In) }}", "out_dev": "{{ arg_name(Out) }}"}
        self._call |= {"in_index_dev": "nullptr", "out_index_dev": "nullptr"}
        inner = self._element_op("in_elementwise_op", "InElementwiseOperation")
        outer = self._element_op("acc_elementwise_op", "AccElementwiseOperation")
        operators = [re.search(r"\breduce_unary_operator\s*<[^<>]*>", one) for one in (inner, outer)]
        count = " * ".join(lengths[axis] for axis in axes)
        for at, (name, found) in enumerate(zip(("in_elementwise_op", "acc_elementwise_op"), operators, strict=True)):
            if found is not None:
                self._call[name] = f"std::get<{at}>(ck::{found[0]}::GetElementwiseOperator({count}))"
        whole = re.search(r"<\s*(\w+)\s*,\s*true\s*,\s*true\s*>", operators[0][0] if operators[0] is not None else "")
        kind = "" if whole is None else self._program.resolved(whole[1]).rpartition("::")[2]
        if (
            kind not in _REDUCTIONS
            or operators[1] is None
            or operators[0] is None
            or operators[0][0] != operators[1][0]
        ):
            self._ask_for_reference(f"before the reduction is {inner}, after it {outer}")
            return
        value = f"alpha * {_REDUCTIONS[kind].format(axes=axes)}"
        if any(one.value == "AtomicAdd" for one in self._operation.arguments):
            self._in_out = ["Out"]
            self._refer(["In", "Out", "alpha"], lambda: [f"return Out + {value}"])
        else:
            self._refer(["In", "alpha"], lambda: [f"return {value}"])

    def text(self) -> OperationText:
        """The text, once the operation is described."""
        lines = ['kind = "custom"', f"sizes = [{', '.join(map(toml_string, self._sizes))}]"]
        if self._runtime:
            named = ", ".join(f'{name} = "double"' for name in self._runtime)
            lines.append(f"runtime = {{ {named} }}")
        if self._reference is not None:
            lines.append('reference = "@REFERENCE@:outputs"')
        elif self._open:
            lines.append(f'reference = "?"  # ckwatch: {self._open[0].text}')
        for name, dtype, sizes, strides, output in sorted(self._tensors, key=lambda one: one[4]):
            lines += ["", f"[[operation.{'output' if output else 'input'}]]", f"name = {toml_string(name)}"]
            lines += ["in_out = true  # the kernel adds to it"] if name in self._in_out else []
            lines += [f"dtype = {toml_string(dtype)}", f"sizes = [{', '.join(map(toml_string, sizes))}]"]
            if strides:
                lines.append(f"strides = [{', '.join(map(toml_string, strides))}]")
        inputs = [one[0] for one in self._tensors if not one[4]]
        outputs = [one[0] for one in self._tensors if one[4]]
        call = [f"/* {one.name} */ {self._call[one.name]}" for one in self._operation.interface.arguments]
        shape: dict[str, float] = {**self._sizes, **self._runtime}
        return OperationText(
            lines,
            inputs,
            outputs,
            self._hooks_by_parameter(),
            call,
            shape,
            self._refused,
            open=self._open,
            reference=self._reference,
        )

    _refused: Sequence[str] = ()
    _in_out: Sequence[str] = ()
    _hooks: Mapping[str, str] = MappingProxyType({})

    def _hooks_by_parameter(self) -> dict[str, str]:
        return {self._operation.interface.template.get(name, name): hook for name, hook in self._hooks.items()}

    def _rank(self, name: str, lengths: str = "") -> int:
        """The rank that a template argument says; of the list of lengths where that depends on the caller."""
        given = self._operation.interface.template.get(name, "")
        for one in self._operation.arguments:
            if one.parameter.name == given and isinstance(one.value, int):
                return one.value
        return self._program.integer(given) or len(self._member_list(lengths)) or 1

    def _lengths(self, argument: str, rank: int) -> list[str]:
        """The names of the sizes of a tensor, and their values in the program."""
        texts = self._list(self._passed.get(argument, ""))
        if len(texts) != rank:
            texts = self._member_list(argument) if len(self._member_list(argument)) == rank else []
        names = []
        for at in range(rank):
            text = texts[at] if texts else ""
            name = text if text.isidentifier() else f"L{at}"
            value = self._program.number(text) if text.isidentifier() else self._number(text)
            self._sizes[name] = value or _EXAMPLES[at % len(_EXAMPLES)]
            names.append(name)
        return names

    def _member_list(self, name: str) -> list[str]:
        found = re.search(rf"\b{name}\s*=?\s*\{{([\d\s,']+)\}}", self._program.code)
        return elements(found[1]) if found is not None else []

    def _list(self, text: str) -> list[str]:
        """The elements of a list in braces, or of the variable that has one."""
        text = text.strip()
        if re.fullmatch(r"\w+", text):
            code = self._program.code
            found = re.search(rf"\b{text}\s*=?\s*\{{", code) or re.search(rf"\bcopy\((\w+),\s*{text}\.begin", code)
            if found is None:
                return []
            if found.re.groups:
                return self._list(found[1])
            text = code[found.end() - 1 : closing(code, found.end() - 1) + 1]
        if (found := re.match(r"[\w:<>, ]*\{", text)) is not None and text.endswith("}"):
            return elements(text[found.end() : -1])
        return []

    def _number(self, text: str) -> int | None:
        """The value of an expression of variables and of elements of lists."""
        plain = re.sub(r"\bstatic_cast\s*<[^<>]*>", "", text)
        plain = re.sub(r"\b(\w+)\[(\d+)\]", lambda one: self._element(one[1], int(one[2])), plain)
        plain = re.sub(r"\b[A-Za-z_]\w*\b", lambda one: str(self._program.number(one[0]) or one[0]), plain)
        return self._program.integer(plain)

    def _element(self, name: str, at: int) -> str:
        found = self._list(name)
        return found[at] if at < len(found) else name

    def _axes(self, argument: str, rank: int) -> tuple[int, ...]:
        texts = self._list(self._passed.get(argument, "")) or self._member_list(argument)
        numbers = [self._number(one) for one in texts]
        known = tuple(one for one in numbers if one is not None and 0 <= one < rank)
        return known if known and len(known) == len(numbers) else (rank - 1,)

    def _stride_lists(self, argument: str, lengths: Sequence[str], count: int) -> list[list[str]]:
        texts = self._list(self._passed.get(argument, ""))
        return [self._strides(texts[at] if at < len(texts) else "", lengths) for at in range(count)]

    def _strides(self, text: str, lengths: Sequence[str]) -> list[str]:
        """Strides as expressions of the lengths; none for packed ones, and for those that are not written out."""
        numbers = [self._number(one) for one in self._list(text)]
        known = [one for one in numbers if one is not None]
        if len(known) != len(lengths) or len(known) != len(numbers):
            return []
        order = sorted((at for at in range(len(known)) if known[at]), key=lambda at: (known[at], -at))
        found = ["0"] * len(known)
        inner: list[str] = []
        for at in order:
            if known[at] != prod(self._sizes[one] for one in inner):
                return []
            found[at] = " * ".join(sorted(inner, key=lengths.index)) or "1"
            inner.append(lengths[at])
        return [] if found == packed(lengths) else found

    def _add_tensor(self, name: str, types: str, sizes: Sequence[str], output: bool) -> None:
        kind = "".join(types_of(self._program, self._operation.argument(types)))
        self._tensors.append((name, dtype_of(self._operation, kind), sizes, (), output))

    def _numbers(self, *named: tuple[str, float]) -> None:
        for name, usual in named:
            text = self._passed.get(name, "")
            value = variable(self._program, text)
            self._runtime[name] = usual if value is None else value
            self._call[name] = name

    def _vectors(self, **lists: Sequence[str]) -> None:
        for name, values in lists.items():
            kind = next(one.type for one in self._operation.interface.arguments if one.name == name)
            inner = re.sub(r"\bindex_t\b", "ck::index_t", kind.replace("ck::", ""))
            self._call[name] = f"{inner}{{{', '.join(values)}}}"

    def _element_op(self, argument: str, template: str) -> str:
        given = self._operation.argument(template)
        text = given.text if given is not None else "ck::tensor_operation::element_wise::PassThrough"
        resolved = self._program.resolved(text)
        values = constructed_with(self._program, text)
        self._values[resolved.rpartition("::")[2]] = values
        self._call[argument] = f"{text}{{ {', '.join(f'{one!r}f' for one in values)} }}" if values else f"{text}{{}}"
        return resolved

    def _applied(self, kind: str, values: Sequence[str]) -> str:
        if kind.rpartition("::")[2] == "PassThrough":
            return values[0]
        return f"{self._functions.add(kind, len(values))}({', '.join(values)})"

    def _refer(self, arguments: Sequence[str], lines: Callable[[], Sequence[str]]) -> None:
        try:
            body = "".join(f"    {one}\n" for one in lines())
        except UntranslatableError as error:
            self._ask_for_reference(f"not translated: {error}")
            return
        defined = "".join(f"{one}\n\n" for one in self._functions.texts.values())
        self._reference = (
            f'"""The outputs of {self._operation.name} of {self._program.path.name}."""\n\n'
            f"import numpy as np\n\n\n{defined}def outputs({', '.join(arguments)}):\n{body}"
        )

    def _ask_for_reference(self, why: str) -> None:
        text = f'say a Python function that computes the outputs, as "reference.py:outputs"; {why}'
        self._open.append(OpenQuestion("reference", text))


def packed(lengths: Sequence[str]) -> list[str]:
    """The strides of a tensor without gaps."""
    return [" * ".join(lengths[at + 1 :]) or "1" for at in range(len(lengths))]


def _passed(program: CppProgram, arguments: Sequence[InterfaceArgument]) -> dict[str, str]:
    """The program's own arguments of `MakeArgumentPointer`, by the names of the interface; none without such a call."""
    for found in re.finditer(r"\b(?P<object>\w*)\s*(?:\.|->)\s*MakeArgument(?:Pointer)?\s*\(", program.code):
        end = closing(program.code, found.end() - 1)
        texts = elements(program.code[found.end() : end])
        if len(texts) == len(arguments) and not found["object"].startswith("ref"):
            return {one.name: text for one, text in zip(arguments, texts, strict=True)}
    return {}
