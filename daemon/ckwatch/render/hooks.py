"""Hooks, the functions that templates call: the kernel's C signature, argument names, sizes, checks, headers, globals.

The hooks keep the names and meaning that template authors know from PyTorch Inductor's ROCm backend. The exported
function is

    int KERNEL_NAME(inputs…, outputs…, size arguments…, runtime arguments…,
                    size_t* workspace_size, uint8_t* workspace, hipStream_t stream)

with the language's own stream (`STREAM_TYPES`). Absent inputs are dropped, and a buffer that is given twice is one
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.tensors import DTYPES

KERNEL_NAME = "KERNEL_NAME"

DEVICE_CODE_NAME = "DEVICE_CODE_NAME"
"""Becomes a name that changes only with what the device pass can see (`ckwatch.devicetext`)."""
"""Stands for the exported function's name until the source is known: one source is defined once, under one name."""

STREAM_TYPES = {"hip": "hipStream_t", "cu": "cudaStream_t", "cpp": "void*"}
"""C type of the stream argument, by language."""

HEADER_FAMILIES = ("hip", "ck", "ck_tile", "cu", "cutlass", "cpp")
"""Arguments of `header()` and `globals()`; each includes what the ones it stands on need."""


class HookError(Exception):
    """A hook was called in a way that cannot work; the message says what to do."""


class KernelHooks:
    """The hooks of one render, also available to templates as `kernel`."""

    def __init__(
        self,
        operation: Operation,
        parameters: Mapping[str, ParameterValue],
        language: str,
        include: Callable[[str], str],
    ) -> None:
        self._operation = operation
        self._parameters = parameters
        self._language = language
        self._include = include
        self._argument_names: dict[str, str] = {}

    def def_kernel(
        self,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        names_str: str = "",
        input_reorder: Sequence[int] | None = None,
        size_args: Sequence[str] | None = None,
    ) -> str:
        """The exported function's declaration, without `extern "C"`, `PT_EXPORT` and body.

        `names_str` names inputs and outputs in order, separated by commas (default: the tensors' own names).
        `input_reorder[i]` is the index of the input that becomes argument i. `size_args` are C declarations
        (default: `int32_t` and each size argument of the operation). Raises HookError when the counts differ.
        """
        names = self._names(inputs, outputs, names_str)
        order = list(range(len(inputs))) if input_reorder is None else list(input_reorder)
        if sorted(order) != list(range(len(inputs))):
            raise HookError(
                f"input_reorder {order} must hold each index from 0 to {len(inputs) - 1} once: "
                f"there are {len(inputs)} inputs"
            )
        written = {tensor.buffer for tensor in outputs if tensor is not None}
        declarations: list[str] = []
        self._argument_names = {}
        for index in order:
            self._declare(inputs[index], names[index], declarations, written)
        for name, tensor in zip(names[len(inputs) :], outputs, strict=True):
            self._declare(tensor, name, declarations, written)
        sizes = [f"int32_t {name}" for name in self._operation.size_arguments] if size_args is None else list(size_args)
        declarations += [*sizes, *self._runtime_declarations()]
        stream = STREAM_TYPES[self._language]
        declarations += ["size_t* workspace_size", "uint8_t* workspace", f"{stream} stream"]
        return f"int {KERNEL_NAME}({', '.join(declarations)})"

    def arg_name(self, tensor: Tensor | None) -> str:
        """The C argument that carries `tensor`; the first name where one buffer has several. `nullptr` if absent."""
        if tensor is None:
            return "nullptr"
        name = self._argument_names.get(tensor.buffer)
        if name is None:
            raise HookError(f"'{tensor.name}' is no argument yet: def_kernel must list it before it is named")
        return name

    ptr = arg_name

    def dtype(self, tensor: Tensor | None) -> str:
        """CK's name of the element type (`F16`); `void` for an absent tensor."""
        return "void" if tensor is None else DTYPES[tensor.dtype].ck_name

    def abi_type(self, tensor: Tensor | None) -> str:
        """The element type in the C signature (`uint16_t`); `void` for an absent tensor."""
        return "void" if tensor is None else DTYPES[tensor.dtype].abi_type

    def layout(self, tensor: Tensor | None) -> str:
        """CK's name of the layout: `Row` or `Col`."""
        return "Row" if tensor is None or tensor.layout == "row" else "Col"

    def size(self, tensor: Tensor | None, start: int, end: int | None = None, default: str = "1") -> str:
        """C expression for the product of sizes `start` to `end` (both inclusive, negative from the last)."""
        if tensor is None:
            return default
        first = self._axis(tensor, start)
        last = first if end is None else self._axis(tensor, end)
        factors = [size for size in tensor.sizes[first : last + 1] if size != "1"]
        return " * ".join(factors) if factors else "1"

    def stride(self, tensor: Tensor | None, index: int, default: str = "0") -> str:
        """C expression for the stride of axis `index` (negative from the last), in elements."""
        return default if tensor is None else tensor.strides[self._axis(tensor, index)]

    def check_not_null(self, tensor: Tensor | None) -> str:
        """Statements that leave the function with −1 where a needed pointer is null. Empty for an absent tensor.

        They belong after the workspace query, which is made with null tensors.
        """
        if tensor is None:
            return ""
        name = self.arg_name(tensor)
        elements = " * ".join(f"(int64_t)({size})" for size in tensor.sizes) or "1"
        return (
            f"if ({name} == nullptr && {elements} > 0) "
            f'{{ fprintf(stderr, "{tensor.name} is null but its size is not 0\\n"); return -1; }}'
        )

    def size_args(self) -> list[str]:
        """Names of the size arguments, in order."""
        return list(self._operation.size_arguments)

    def runtime_args(self) -> list[dict[str, str]]:
        """Name and C type of each runtime argument, in order."""
        types = self._operation.runtime_types
        return [{"name": name, "type": types.get(name, "int32_t")} for name in self._operation.runtime_arguments]

    def header(self, family: str = "hip") -> str:
        """The `#include` lines for one of `HEADER_FAMILIES`."""
        return self._include(f"hooks/header_{_family(family)}.j2")

    def globals(self, family: str = "hip") -> str:
        """`PT_EXPORT` and the type aliases for one of `HEADER_FAMILIES`."""
        return self._include(f"hooks/globals_{_family(family)}.j2")

    def template_argument(self, name: str, value: ParameterValue | None = None) -> str:
        """`/* NAME */ VALUE`: one template argument, from the instance's parameter `name` unless `value` is given."""
        if value is None:
            value = self._parameters.get(name)
            if value is None:
                raise HookError(f"the instance sets no parameter '{name}'")
        return f"/* {name} */ {cpp_value(value)}"

    def _declare(self, tensor: Tensor | None, name: str, declarations: list[str], written: set[str]) -> None:
        if tensor is None or tensor.buffer in self._argument_names:
            return
        self._argument_names[tensor.buffer] = name
        constant = "" if tensor.buffer in written else "const "
        declarations.append(f"{constant}{DTYPES[tensor.dtype].abi_type}* {name}")

    def _names(self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None], names_str: str) -> list[str]:
        tensors = [*inputs, *outputs]
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise HookError(f"def_kernel takes tensors such as X, W and Y, not {type(tensor).__name__}")
        if not names_str.strip():
            return ["" if tensor is None else tensor.name for tensor in tensors]
        names = [name.strip() for name in names_str.split(",")]
        if len(names) != len(tensors):
            raise HookError(f"names_str has {len(names)} names for {len(inputs)} inputs and {len(outputs)} outputs")
        return names

    def _runtime_declarations(self) -> list[str]:
        return [f"{argument['type']} {argument['name']}" for argument in self.runtime_args()]

    def _axis(self, tensor: Tensor, index: int) -> int:
        axis = index + len(tensor.sizes) if index < 0 else index
        if not 0 <= axis < len(tensor.sizes):
            raise HookError(f"'{tensor.name}' has {len(tensor.sizes)} axes; there is no axis {index}")
        return axis


def _family(family: str) -> str:
    if family not in HEADER_FAMILIES:
        raise HookError(f"unknown header family '{family}': use one of {', '.join(HEADER_FAMILIES)}")
    return family


def cpp_value(value: Any) -> str:
    """A parameter as a C++ template argument: tuples as `S<…>`, booleans in lower case, strings as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"S<{', '.join(str(item) for item in value)}>"
    return str(value)
