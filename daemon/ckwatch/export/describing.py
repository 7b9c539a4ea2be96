"""A unit as the literal tables and sentences of its exported module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ckwatch.config.shapes import GEMM_LEADING, RUNTIME_DEFAULTS
from ckwatch.export.signature import Signature
from ckwatch.model.dtypes import DTYPES
from ckwatch.model.kernel import Operation, ParameterValue, Tensor
from ckwatch.model.language import Language
from ckwatch.model.sizes import contiguous_strides, names_in, parse_size
from ckwatch.timing.calls import is_fnuz

KINDS = {Language.HIP: "hip", Language.CU: "cuda", Language.CPP: "cpu"}
"""The kind of device that a language's kernels run on."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "f16": ("float16",), "bf16": ("bfloat16", "uint16"), "f32": ("float32",), "f64": ("float64",),
    "f8": ("float8_e4m3fn", "uint8"), "bf8": ("float8_e5m2", "uint8"), "i8": ("int8",), "i32": ("int32",),
}  # fmt: skip
"""What torch, numpy and ml_dtypes call an element type. What numpy alone does not have may also come as its bits."""

ACTIVATION_NAMES = {"gelu_tanh": "gelu (tanh form)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What is exported: a built unit. `parameters` are the instance's, `key` the artifact's, `name` the module's."""

    unit: str
    kernel: str
    arch: str
    language: Language
    operation: Operation
    signature: Signature
    symbol: str
    key: str
    parameters: Mapping[str, ParameterValue]
    name: str

    @property
    def kind(self) -> str:
        """`hip`, `cuda` or `cpu`."""
        return KINDS[self.language]

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


def defaults_of(exported: Exported) -> dict[str, str]:
    """What leading dimensions are, as expressions of sizes, where no strides tell them: as small as possible."""
    operation = exported.operation
    tensors = dict(operation.inputs) | dict(operation.outputs)
    found: dict[str, str] = {}
    if operation.kind == "gemm":
        for name, tensor_name in GEMM_LEADING.items():
            tensor = tensors.get(tensor_name)
            if name in exported.sizes:
                matrix = tensor is not None and len(tensor.sizes) > 1
                found[name] = tensor.sizes[1 if tensor.layout == "row" else 0] if tensor and matrix else "0"
        return found
    for tensor in tensors.values():
        if tensor is None:
            continue
        packed = contiguous_strides(tensor.sizes, tensor.layout)
        for stride, step in zip(tensor.strides, packed, strict=True):
            if stride in exported.sizes and not any(stride in known.sizes for known in tensors.values() if known):
                found.setdefault(stride, step)
    return found


def kernel_literal(exported: Exported) -> str:
    """The module's `Kernel(…)`."""
    operation = exported.operation
    words = ("unit", "symbol", "library", "kind", "arch")
    lines = ["Kernel(", *(f"    {key}={python_string(getattr(exported, key))}," for key in words), "    operands=("]
    owners = {tensor.buffer: name for name, tensor in reversed(exported.inputs)}
    for name, tensor in exported.inputs:
        extras = []
        if operation.kind == "gemm" and name in ("inv_scale_x", "inv_scale_w"):
            extras.append("nullable=True")
        if operation.kind == "gemm" and name in ("X", "W"):
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
    """What a GEMM computes, as one line; of other kernels the names of their tensors."""
    inputs = dict(operation.inputs)
    if operation.kind != "gemm":
        given = ", ".join(name for name, tensor in operation.inputs if tensor is not None)
        return f"{', '.join(name for name, _ in operation.outputs)} from {given or 'nothing'}"
    settings = operation.settings
    value = "X · W"
    scales = [name for name in ("inv_scale_x", "inv_scale_w") if inputs.get(name) is not None]
    if scales:
        value = f"{' * '.join(scales)} * ({value})"
    value = _times(settings.get("alpha", 1.0), value, product=bool(scales))
    if inputs.get("Bias") is not None:
        value = f"{value} + {_times(settings.get('beta', 1.0), 'Bias', product=True)}"
    activation = str(settings.get("activation", "none"))
    return f"Y = {value}" if activation == "none" else f"Y = {ACTIVATION_NAMES.get(activation, activation)}({value})"


def operand_line(name: str, tensor: Tensor, exported: Exported) -> str:
    """One line about a tensor, for people."""
    sizes = " × ".join(tensor.sizes)
    strides = f"strides ({', '.join(tensor.strides)})"
    dtype = " or ".join(dtypes_of(tensor, exported.arch))
    return f"{name}: {sizes}, {strides}, {dtype}"


def default_of(name: str) -> str:
    """The default of a runtime argument in the function's signature, with its `=`; nothing where there is none."""
    return f" = {RUNTIME_DEFAULTS[name]}" if name in RUNTIME_DEFAULTS else ""


def python_string(text: str) -> str:
    """A string literal in double quotes."""
    escaped = "".join(_escaped(letter) for letter in text)
    return f'"{escaped}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _operand(name: str, tensor: Tensor, arch: str, extras: Sequence[str]) -> str:
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
            raise ValueError(f"`{text}` is no size")
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


def _times(factor: ParameterValue, value: str, *, product: bool) -> str:
    if factor == 1:
        return value
    return f"{factor} * {value}" if product else f"{factor} * ({value})"
