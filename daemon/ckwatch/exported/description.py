"""A unit as the literal tables and sentences of its exported module.

An exported module must pass exactly the C function's arguments, so they are read from the rendered text, where the
compiler read them, and compared with what the operation says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import is_fnuz, pointer_arguments
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import DEVICE_KINDS, Language
from ckwatch.model.tensors import DTYPES, LAYOUTS, contiguous_strides, names_in, parse_size
from ckwatch.workspace.operations.tables import RUNTIME_TYPES
from ckwatch.workspace.shapes import RUNTIME_DEFAULTS

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>[\w\s]*?\w(?:\s*\*)?)\s*\b(?P<name>\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """`pointers` are the names of tensors, `scalars` names and C types, both in the order of the C function."""

    pointers: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]


def signature_of(text: str, symbol: str, operation: Operation) -> KernelSignature:
    """The arguments of `symbol` in the rendered `text`. Raises CkwatchError where it is not declared there, or its
    arguments are not those of the operation."""
    declared = _declared(text, symbol)
    pointers = pointer_arguments(operation)
    expected = [(DTYPES[tensor.dtype].abi_type, name) for name, tensor in pointers]
    actual = [(c_type.removeprefix("const ").removesuffix("*"), name) for c_type, name in declared[: len(expected)]]
    if [c_type for c_type, _ in actual] != [c_type for c_type, _ in expected] or any(
        not c_type.endswith("*") for c_type, _ in declared[: len(expected)]
    ):
        raise _mismatch(
            symbol, declared, f"begin with pointers to {', '.join(f'{name} ({c})' for c, name in expected)}"
        )
    names, order = [name for _, name in actual], [name for _, name in expected]
    if names != order and sorted(names) == sorted(order):
        raise _mismatch(symbol, declared, f"begin in the order {', '.join(order)}")
    scalars = declared[len(expected) : -3]
    if [c_type for c_type, _ in declared[-3:]][:2] != ["size_t*", "uint8_t*"] or len(declared) < len(expected) + 3:
        raise _mismatch(symbol, declared, "end with size_t* workspace_size, uint8_t* workspace and a stream")
    types = {
        **dict.fromkeys(operation.size_arguments, "int32_t"),
        **dict.fromkeys(operation.runtime_arguments, "int32_t"),
    }
    types.update(operation.runtime_types)
    for c_type, name in scalars:
        if types.get(name) != c_type or c_type not in RUNTIME_TYPES:
            known = ", ".join(f"{known_type} {known_name}" for known_name, known_type in types.items())
            raise _mismatch(symbol, declared, f"have no scalars but {known or 'none'}, and there is {c_type} {name}")
    missing = set(operation.runtime_arguments) - {name for _, name in scalars}
    if missing:
        raise _mismatch(symbol, declared, f"have the runtime arguments {', '.join(sorted(missing))}")
    return KernelSignature(tuple(name for name, _ in pointers), tuple((name, c_type) for c_type, name in scalars))


def _declared(text: str, symbol: str) -> list[tuple[str, str]]:
    """C type and name of each argument, white space made one."""
    plain = _COMMENT.sub(" ", text)
    found = re.search(rf"\bint\s+{re.escape(symbol)}\s*\(([^()]*)\)", plain)
    if found is None:
        raise CkwatchError(
            f"the rendered text does not declare `int {symbol}(…)`", "templates declare it with def_kernel(…)"
        )
    arguments = []
    for written in found[1].split(","):
        argument = _ARGUMENT.fullmatch(written.strip())
        if argument is None:
            raise CkwatchError(f"the argument `{written.strip()}` of {symbol} is not understood")
        arguments.append((re.sub(r"\s*\*", "*", " ".join(argument["type"].split())), argument["name"]))
    return arguments


def _mismatch(symbol: str, declared: list[tuple[str, str]], expected: str) -> CkwatchError:
    shown = ", ".join(f"{c_type} {name}" for c_type, name in declared)
    return CkwatchError(
        f"{symbol} is not called as the operation says: by [operation] its arguments {expected}",
        f"the template declares {symbol}({shown}); an exported module would pass something else",
    )


NAMES: Mapping[str, tuple[str, ...]] = {
    "f16": ("float16",), "bf16": ("bfloat16", "uint16"), "f32": ("float32",), "f64": ("float64",),
    "f8": ("float8_e4m3fn", "uint8"), "bf8": ("float8_e5m2", "uint8"), "bool": ("bool",),
    **{name: (one.abi_type.removesuffix("_t"),) for name, one in DTYPES.items() if one.limits and name != "bool"},
    "e8m0": ("float8_e8m0fnu", "uint8"), "f4": ("float4_e2m1fn_x2", "uint8"),
}  # fmt: skip
"""Names of element types in torch, numpy and ml_dtypes. Types that numpy alone does not have may also come as their
bits."""

ACTIVATION_NAMES = {"gelu_tanh": "gelu (tanh form)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedUnit:
    """The exported unit, which is built. `parameters` are the instance's, `key` the artifact's, `name` the module's."""

    unit: str
    kernel: str
    arch: str
    language: Language
    operation: Operation
    signature: KernelSignature
    symbol: str
    key: str
    parameters: Mapping[str, ParameterValue]
    name: str

    @property
    def kind(self) -> str:
        """`hip`, `cuda` or `cpu`."""
        return DEVICE_KINDS[self.language]

    @property
    def library(self) -> str:
        """The shared object's file name. Not `NAME.so`: Python would take that for an extension module."""
        return f"{self.name}.kernel.so"

    @property
    def inputs(self) -> list[tuple[str, Tensor]]:
        """The inputs that there are, in the operation's order."""
        return [(name, tensor) for name, tensor in self.operation.inputs if tensor is not None]

    @property
    def sizes(self) -> list[str]:
        """The size arguments that say something: those that the function takes, and those of its tensors."""
        tensors = [tensor for _, tensor in (*self.inputs, *self.operation.outputs)]
        named = {name for tensor in tensors for text in (*tensor.sizes, *tensor.strides) for name in names_in(text)}
        taken = {name for name, _ in self.signature.scalars}
        return [name for name in self.operation.size_arguments if name in named | taken]

    @property
    def runtime(self) -> list[tuple[str, str]]:
        """Name and C type of each runtime argument."""
        return [(name, c_type) for name, c_type in self.signature.scalars if name in self.operation.runtime_arguments]


def dtypes_of(tensor: Tensor, arch: str) -> tuple[str, ...]:
    """The names of the element types that an array may have."""
    if tensor.dtype in ("f8", "bf8") and is_fnuz(arch):
        first, *others = NAMES[tensor.dtype]
        return (f"{first.removesuffix('fn')}{'fnuz'}", *others)
    return NAMES[tensor.dtype]


def defaults_of(exported: ExportedUnit) -> dict[str, str]:
    """Return default leading dimensions as expressions of sizes, for calls without strides: as small as possible."""
    operation = exported.operation
    tensors = dict(operation.inputs) | dict(operation.outputs)
    found = {name: text for name, text in operation.size_defaults.items() if name in exported.sizes}
    for tensor in tensors.values():
        if tensor is None:
            continue
        packed = contiguous_strides(tensor.sizes, tensor.layout)
        for stride, step in zip(tensor.strides, packed, strict=True):
            if stride in exported.sizes and not any(stride in known.sizes for known in tensors.values() if known):
                found.setdefault(stride, step)
    return found


def kernel_literal(exported: ExportedUnit) -> str:
    """The module's `Kernel(…)`."""
    operation = exported.operation
    words = ("unit", "symbol", "library", "kind", "arch")
    lines = ["Kernel(", *(f"    {key}={python_string(getattr(exported, key))}," for key in words), "    operands=("]
    owners = {tensor.buffer: name for name, tensor in reversed(exported.inputs)}
    computed = operation.contraction
    operands = () if computed is None else (computed.x.tensor, computed.w.tensor)
    scales = () if computed is None else computed.nullable_scales
    for name, tensor in exported.inputs:
        extras = []
        if name in scales:
            extras.append("nullable=True")
        if name in operands:
            extras.append("reread=True")
        if owners[tensor.buffer] != name:
            extras.append(f"same_as={python_string(owners[tensor.buffer])}")
        lines.append(f"        {_operand(name, tensor, exported.arch, extras)},")
    for name, tensor in operation.outputs:
        lines.append(f"        {_operand(name, tensor, exported.arch, ['output=True'])},")
    lines.append("    ),")
    lines.append(f"    pointers={_tuple(map(python_string, exported.signature.pointers))},")
    scalars = [f"({python_string(name)}, {python_string(c_type)})" for name, c_type in exported.signature.scalars]
    lines.append(f"    scalars={_tuple(scalars)},")
    lines.append(f"    sizes={_tuple(map(python_string, exported.sizes))},")
    defaults = ", ".join(f"{python_string(name)}: {_extent(text)}" for name, text in defaults_of(exported).items())
    lines.append(f"    defaults={{{defaults}}},")
    return "\n".join([*lines, ")"])


def formula(operation: Operation) -> str:
    """Return a contraction as one line; of other kernels the names of their tensors."""
    computed = operation.contraction
    if computed is None:
        given = ", ".join(name for name, tensor in operation.inputs if tensor is not None)
        return f"{', '.join(name for name, _ in operation.outputs)} from {given or 'nothing'}"
    value = f"{computed.x.tensor} {'∗' if computed.x.windows else '·'} {computed.w.tensor}"
    if computed.x_scale is not None:
        value = value.replace(computed.x.tensor, f"({computed.x_scale.tensor} * {computed.x.tensor})", 1)
    if computed.w_scale is not None:
        value = f"{value.removesuffix(computed.w.tensor)}({computed.w_scale.tensor} * {computed.w.tensor})"
    factors: list[str] = []
    for step in computed.steps:
        named = "" if step.operand is None else step.operand.tensor
        if step.kind == "multiply":
            factors = ([] if step.factor == 1 else [f"{step.factor}"]) + factors + ([named] if named else [])
            continue
        value, factors = _multiplied(factors, value), []
        if step.kind == "add":
            value = f"{value} + {_multiplied([] if step.factor == 1 else [str(step.factor)], named, atom=True)}"
        else:
            value = f"{ACTIVATION_NAMES.get(step.activation, step.activation)}({value})"
    return f"{computed.y.tensor} = {_multiplied(factors, value)}"


def as_array(tensor: Tensor) -> Tensor:
    """A tensor as arrays have it: elements that share a byte are one there, along the axis without gaps."""
    packed = DTYPES[tensor.dtype].packed
    if packed == 1:
        return tensor
    strides = tuple(step if step == "1" else f"{step} / {packed}" for step in tensor.strides)
    sizes = tuple(
        f"{size} / {packed}" if step == "1" else size for size, step in zip(tensor.sizes, tensor.strides, strict=True)
    )
    return replace(tensor, sizes=sizes, strides=strides)


def operand_line(name: str, tensor: Tensor, exported: ExportedUnit) -> str:
    """One line about a tensor, for people."""
    tensor = as_array(tensor)
    sizes = " × ".join(tensor.sizes)
    strides = f"strides ({', '.join(tensor.strides)})" if tensor.layout in LAYOUTS else f"layout {tensor.layout}"
    dtype = " or ".join(dtypes_of(tensor, exported.arch))
    return f"{name}: {sizes}, {strides}, {dtype}"


def default_of(name: str) -> str:
    """The default of a runtime argument in the function's signature, with its `=`; nothing where there is none."""
    return f" = {RUNTIME_DEFAULTS[name]}" if name in RUNTIME_DEFAULTS else ""


def python_string(text: str) -> str:
    escaped = "".join(_escaped(letter) for letter in text)
    return f'"{escaped}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _operand(name: str, tensor: Tensor, arch: str, extras: Sequence[str]) -> str:
    tensor = as_array(tensor)
    parts = [
        python_string(name),
        _tuple(map(python_string, dtypes_of(tensor, arch))),
        str(DTYPES[tensor.dtype].size_bytes),
        _tuple(map(_extent, tensor.sizes)),
        _tuple(map(_extent, tensor.strides)),
        *extras,
    ]
    return f"Operand({', '.join(parts)})"


def _tuple(items: Iterable[str]) -> str:
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _extent(text: str) -> str:
    """A size or stride: a name, a number, or a formula."""
    tree = parse_size(text)
    match tree:
        case ast.Name(id=name):
            return python_string(name)
        case ast.Constant(value=int(value)):
            return str(value)
        case None:
            raise ValueError(f"`{text}` is not a size")
    return f"Formula({python_string(text)}, lambda sizes: {_python(tree)})"


def _python(node: ast.expr) -> str:
    """A size in Python; division as C does it."""
    match node:
        case ast.Constant(value=int(value)):
            return str(value)
        case ast.Name(id=name):
            return f"sizes[{python_string(name)}]"
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _python(left), _python(right)
            match operator:
                case ast.Add():
                    return f"({first} + {second})"
                case ast.Sub():
                    return f"({first} - {second})"
                case ast.Mult():
                    return f"{first} * {second}"
                case ast.Div():
                    return f"divided({first}, {second})"
            return f"remainder({first}, {second})"
    raise ValueError("no size")


def _multiplied(factors: Sequence[str], value: str, *, atom: bool = False) -> str:
    return " * ".join([*factors, value if atom else f"({value})"]) if factors else value
