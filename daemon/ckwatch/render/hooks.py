"""Hooks, the functions that templates call: the kernel's C signature, argument names, sizes, checks, headers, globals.

The hooks keep the names and meaning that template authors know from PyTorch Inductor's ROCm backend. The exported
function is

    int KERNEL_NAME(inputs…, outputs…, size arguments…, runtime arguments…,
                    size_t* workspace_size, uint8_t* workspace, hipStream_t stream)

with the language's own stream (`STREAM_TYPES`). Absent inputs are dropped, and a buffer that is given twice is one
argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckwatch.headers.features import FEATURES, FeatureAnswer
from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.kernel_problem import pointer_arguments
from ckwatch.model.kernels import Operation, ParameterValue, Tensor, every_input
from ckwatch.model.tensors import DTYPES, LAYOUTS, contiguous_strides, is_atom
from ckwatch.render.values import describe, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import TypeIs

KERNEL_NAME = "KERNEL_NAME"

"""Stands for the exported function's name until the source is known: one source is defined once, under one name."""

DEVICE_CODE_NAME = "DEVICE_CODE_NAME"
"""Becomes a name that changes only with what the device pass can see (`ckwatch.render.tokens`)."""

GFX9_THREADS_PER_WARP = 64

STREAM_TYPES = {"hip": "hipStream_t", "cu": "cudaStream_t", "cpp": "void*"}
"""C type of the stream argument, by language."""

HEADER_FAMILIES = ("hip", "ck", "ck_library", "ck_tile", "cu", "cutlass", "cpp")
"""Arguments of `header()` and `globals()`; each includes what the ones it stands on need."""

DEFAULT_FAMILIES = {"hip": "ck_library", "cu": "cu", "cpp": "cpp"}
"""The family where none is given, by language: in HIP all that PyTorch Inductor's templates of CK get."""

PRINTED_HOOKS = ("get_signature", "header", "headers", "globals")
"""Hooks that print what they give without arguments where a template does not call them."""

INDUCTOR_ORDER = ("inputs", "outputs", "size_args", "names_str", "input_reorder")
"""PyTorch Inductor's order of `def_kernel`'s arguments: meant where the third one is a list."""

_LAST_NAME = re.compile(r"[^\W\d]\w*\Z", re.ASCII)
"""The name that a C declaration such as `int32_t M` declares."""


class HookError(Exception):
    """A value or hook was used in a way that cannot work; the message says what to do.

    `argument` is the name or index of the argument that is wrong, `element` the index in a list that it is, `name` what
    the template calls the value that is wrong.
    """

    def __init__(
        self, message: str, argument: str | int | None = None, *, element: int | None = None, name: str = ""
    ) -> None:
        super().__init__(message)
        self.argument = argument
        self.element = element
        self.name = name


class UndeclaredError(HookError):
    """A hook needs what `def_kernel` declares, which has not been called."""


class KernelHooks:
    """The hooks of one render, also available to templates as `kernel`."""

    def __init__(
        self,
        operation: Operation,
        parameters: Mapping[str, ParameterValue],
        language: str,
        include: Callable[[str], str],
        headers: SearchedHeaders | None = None,
    ) -> None:
        self._headers = headers or SearchedHeaders(())
        self._operation = operation
        self._parameters = parameters
        self._language = language
        self._include = include
        self._argument_names: dict[str, str] = {}
        self._signature = ""

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
        `input_reorder[i]` is the index of the input that becomes argument i; of five inputs `[2, 0, 1]` is the order
        Bias, X, W, scales. `size_args` are C declarations (default: `int32_t` and each size argument of the operation);
        a list may be the third argument, as in PyTorch Inductor. Raises HookError when the counts differ, and for
        another order of tensors or sizes than that in which the kernel is called.
        """
        if self._argument_names:
            raise HookError("def_kernel is called twice: a template defines one kernel", name="def_kernel")
        for name, given in (("inputs", inputs), ("outputs", outputs)):
            _check_tensors(name, given)
        names = self._names(inputs, outputs, names_str)
        order = list(range(len(inputs)) if input_reorder is None else every_input(input_reorder, len(inputs)))
        if sorted(order) != list(range(len(inputs))):
            raise HookError(
                f"input_reorder {order} must hold each index from 0 to {len(inputs) - 1} once: "
                f"there are {len(inputs)} inputs",
                "input_reorder",
            )
        written = {tensor.buffer for tensor in outputs if tensor is not None}
        declarations: list[str] = []
        self._argument_names = {}
        for index in order:
            self._declare(inputs[index], names[index], declarations, written)
        for name, tensor in zip(names[len(inputs) :], outputs, strict=True):
            self._declare(tensor, name, declarations, written)
        self._require_order_of_call()
        sizes = [f"int32_t {name}" for name in self._operation.size_arguments] if size_args is None else list(size_args)
        self._require_sizes_of_call(sizes)
        declarations += [*sizes, *(f"{one['type']} {one['name']}" for one in self.runtime_args())]
        stream = STREAM_TYPES[self._language]
        declarations += ["size_t* workspace_size", "uint8_t* workspace", f"{stream} stream"]
        self._signature = f"int {KERNEL_NAME}({', '.join(declarations)})"
        return self._signature

    def get_signature(self) -> str:
        """Return the signature from `def_kernel`."""
        if not self._signature:
            raise UndeclaredError("there is no signature yet: def_kernel must be called before", name="get_signature")
        return self._signature

    def arg_name(self, tensor: Tensor | None) -> str | None:
        """The C argument that carries `tensor`; the first name where one buffer has several. `none` if absent."""
        if _absent(tensor):
            return None
        name = self._argument_names.get(tensor.buffer)
        if name is None:
            kind = HookError if self._signature else UndeclaredError
            raise kind(f"'{tensor.name}' is not an argument yet: def_kernel must list it before it is named", 0)
        return name

    def ptr(self, tensor: Tensor | None) -> str:
        """As `arg_name`; `nullptr` for an absent tensor."""
        return self.arg_name(tensor) or "nullptr"

    def dtype(self, tensor: Tensor | None) -> str:
        """CK's name of the element type (`F16`); `void` for an absent tensor."""
        return "void" if _absent(tensor) else DTYPES[tensor.dtype].ck_name

    def abi_type(self, tensor: Tensor | None) -> str:
        """The element type in the C signature (`uint16_t`); `void` for an absent tensor."""
        return "void" if _absent(tensor) else DTYPES[tensor.dtype].abi_type

    def layout(self, tensor: Tensor | None) -> str:
        """CK's name of the layout: `Row`, `Col`, of a convolution's tensor `NHWGC`."""
        return "Row" if _absent(tensor) else LAYOUTS.get(tensor.layout, tensor.layout)

    def size(self, tensor: Tensor | None, start: int, end: int | None = None, default_value: int | str = 0) -> str:
        """C expression for the product of sizes `start` to `end` (both inclusive, negative from the last).

        `default_value` for an absent tensor, and where no size lies between.
        """
        if _absent(tensor):
            return str(default_value)
        first = self._axis(tensor, start, 1)
        last = first if end is None else self._axis(tensor, end, 2)
        if last < first:
            return str(default_value)
        factors = [size for size in tensor.sizes[first : last + 1] if size != "1"]
        return " * ".join(one if is_atom(one) or len(factors) == 1 else f"({one})" for one in factors) or "1"

    def stride(self, tensor: Tensor | None, index: int, default_value: int | str = 0) -> str:
        """C expression for the stride of axis `index` (negative from the last), in elements."""
        return str(default_value) if _absent(tensor) else tensor.strides[self._axis(tensor, index, 1)]

    def contiguous_stride(self, sizes: Sequence[int | str]) -> list[str]:
        """C expressions for the strides of a row-major tensor of these `sizes` without gaps."""
        if isinstance(sizes, str) or not isinstance(sizes, Sequence):
            raise HookError(f"sizes such as X.sizes are needed here, not {describe(sizes)}", 0)
        return list(contiguous_strides([str(size) for size in sizes], "row"))

    def check_not_null(self, tensor: Tensor | None) -> str:
        """Statements that leave the function with −1 where a needed pointer is null.

        Empty for an absent tensor, and for one that `def_kernel` did not list. They belong after the workspace query,
        which is made with null tensors.
        """
        if _absent(tensor) or (self._signature and tensor.buffer not in self._argument_names):
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

    def header(self, family: str | None = None) -> str:
        """The `#include` lines for a family of headers: `hip`, `ck`, `ck_library`, `ck_tile`, `cu`, `cutlass` or `cpp`.

        The default is that of the language: `ck_library`, `cu`, `cpp`. `{{ header }}` is `{{ header() }}`.
        """
        return self._include(f"hooks/header_{self._family(family)}.j2")

    def headers(self, family: str | None = None) -> str:
        """As `header`."""
        return self.header(family)

    def globals(self, family: str | None = None) -> str:
        """`PT_EXPORT` and the type aliases for a family of headers.

        The default is that of the language: `ck_library`, `cu`, `cpp`. `{{ globals }}` is `{{ globals() }}`.
        """
        return self._include(f"hooks/globals_{self._family(family)}.j2")

    def template_argument(self, name: str, value: ParameterValue | None = None) -> str:
        """`/* NAME */ VALUE`: one template argument, from the instance's parameter `name` unless `value` is given."""
        if not isinstance(name, str):
            raise HookError(f"the parameter's name is needed here, in quotes, not {describe(name)}", 0)
        if value is None:
            value = self._parameters.get(name)
            if value is None:
                raise HookError(f"the instance sets no parameter '{name}'{did_you_mean(name, self._parameters)}", 0)
        if value == () and name[:2].lower() == "ds":
            return f"/* {name} */ Tuple<>"
        return f"/* {name} */ {cpp_value(value)}"

    def has_feature(self, name: str) -> bool:
        """Return True if Composable Kernel's headers have the feature `name`, one of `ckwatch.headers.features`."""
        return self._feature(name).has

    def need_feature(self, name: str, *keys: str) -> str:
        """Nothing where the headers have the feature, else a static assertion that fails.

        It is reported before anything is compiled, at the first of `keys` that the kernel file has: parameters of the
        instance, or keys of `[operation]`.
        """
        answer = self._feature(name)
        return "" if answer.has else _assertion(answer.lacking, "headers", keys) + "\n"

    def _feature(self, name: str) -> FeatureAnswer:
        if not isinstance(name, str) or name not in FEATURES:
            guess = did_you_mean(name, FEATURES) if isinstance(name, str) else ""
            raise HookError(f"{describe(name)} is not a feature of headers{guess}", 0)
        return self._headers.feature(name)

    def unsupported(self, message: str, *keys: str) -> str:
        """A static assertion that fails, for what the kernel file says and the template cannot do.

        It is reported before anything is compiled, at the first of `keys` of `[operation]` (`split_k`, `b.layout`) that
        the kernel file has.
        """
        for at, text in enumerate((message, *keys)):
            if not isinstance(text, str) or "\n" in text:
                raise HookError(f"a string of one line is needed here, not {describe(text)}", at)
        return _assertion(message, "operation", keys)

    def _family(self, family: str | None) -> str:
        if family is None:
            return DEFAULT_FAMILIES[self._language]
        if family not in HEADER_FAMILIES:
            guess = did_you_mean(family, HEADER_FAMILIES) if isinstance(family, str) else ""
            known = f"use one of {', '.join(HEADER_FAMILIES)}"
            raise HookError(
                f"unknown header family {describe(family).removeprefix('the string ')}{guess or ':'} {known}", 0
            )
        return family

    def _declare(self, tensor: Tensor | None, name: str, declarations: list[str], written: set[str]) -> None:
        if tensor is None or tensor.buffer in self._argument_names:
            return
        self._argument_names[tensor.buffer] = name
        constant = "" if tensor.buffer in written else "const "
        declarations.append(f"{constant}{DTYPES[tensor.dtype].abi_type}* {name}")

    def _require_order_of_call(self) -> None:
        """`[operation]` alone says how the kernel is called: in another order it would compute on the wrong tensors."""
        called = {tensor.buffer: name for name, tensor in pointer_arguments(self._operation)}
        declared = [name for buffer in self._argument_names if (name := called.get(buffer)) is not None]
        expected = [name for name in called.values() if name in declared]
        if declared != expected:
            raise HookError(
                f"def_kernel declares {', '.join(declared)}, but by [operation] the kernel is called with "
                f"{', '.join(expected)}: list the tensors in this order, or set `input_reorder` in [operation]"
            )

    def _require_sizes_of_call(self, declarations: Sequence[str]) -> None:
        """The kernel is called with the operation's sizes in their order, whatever a template calls them."""
        expected = self._operation.size_arguments
        words = f"by [operation] the kernel is called with {', '.join(expected) or 'no sizes'}"
        for index, declaration in enumerate(declarations):
            name = _LAST_NAME.search(declaration) if isinstance(declaration, str) else None
            if name is None:
                kind = describe(declaration)
                raise HookError(f'size_args are C declarations such as "int32_t M", not {kind}', "size_args")
            if index >= len(expected) or name[0] != expected[index]:
                raise HookError(f"size_args declare `{name[0]}` as number {index + 1}, but {words}", "size_args")
        if len(declarations) < len(expected):
            missing = ", ".join(expected[len(declarations) :])
            raise HookError(f"size_args do not declare {missing}, but {words}", "size_args")

    def _names(self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None], names_str: str) -> list[str]:
        tensors = [*inputs, *outputs]
        if not isinstance(names_str, str):
            raise HookError(f'names_str must be one string such as "X, W, Y", not {describe(names_str)}', "names_str")
        if not names_str.strip():
            return ["" if tensor is None else tensor.name for tensor in tensors]
        names = [name.strip() for name in names_str.split(",")]
        if len(names) != len(tensors):
            raise HookError(
                f"names_str has {len(names)} names for {len(inputs)} inputs and {len(outputs)} outputs", "names_str"
            )
        return names

    def _axis(self, tensor: Tensor, index: int, argument: int) -> int:
        if not isinstance(index, int):
            raise HookError(f"an axis is a number such as 0 or -1, not {describe(index)}", argument)
        axis = index + len(tensor.sizes) if index < 0 else index
        if not 0 <= axis < len(tensor.sizes):
            raise HookError(f"'{tensor.name}' has {len(tensor.sizes)} axes; there is no axis {index}", argument)
        return axis


def _assertion(message: str, about: str, keys: Sequence[str]) -> str:
    """A static assertion that fails; `ckwatch.checks.static_checks` finds it by its comment."""
    escaped = message.replace("\\", "\\\\").replace('"', '\\"')
    return f'static_assert(false, "{escaped}");  // [{about}] {" ".join(keys)}'


def _absent(tensor: object) -> TypeIs[None]:
    """Return True if there is no such tensor. Raises HookError for anything that is not a tensor."""
    if tensor is None:
        return True
    if not isinstance(tensor, Tensor):
        hint = f": write {tensor} without quotes" if isinstance(tensor, str) and tensor.isidentifier() else ""
        raise HookError(f"a tensor such as X, W or Y is needed here, not {describe(tensor)}{hint}", 0)
    return False


def _check_tensors(argument: str, given: Sequence[Tensor | None]) -> None:
    if not isinstance(given, list | tuple):
        raise HookError(f"{argument} must be a list of tensors such as [X, W], not {describe(given)}", argument)
    for index, tensor in enumerate(given):
        try:
            _absent(tensor)
        except HookError as error:
            raise HookError(str(error), argument, element=index) from None


def cpp_value(value: Any) -> str:
    """A parameter as a C++ template argument.

    Tuples of integers are `S<…>`, others `Tuple<…>`; booleans stand in lower case, strings as they are.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        kind = "S" if all(isinstance(item, int) for item in value) else "Tuple"
        return f"{kind}<{', '.join(map(cpp_value, value))}>"
    return str(value)
