"""Writes a description of a kernel's launches to begin with, by all that a code object says; the rest is marked open.

Names and types of arguments are those that Triton's files, or the mangled name of a C++ function, tell. A pointer is an
output if the compiler found that it is written through, or the function's parameter does not point to const.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from ckwatch.codeobject.code_files import SCRATCH, CodeFile, CodeObject
from ckwatch.codeobject.demangle import NameNodeKind, NamePool, demangle, full_name
from ckwatch.codeobject.metadata import ArgumentMetadata
from ckwatch.codeobject.report import KernelResources
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import is_fnuz
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.verification.code_launches import (
    POINTER,
    SCALAR_BYTES,
    argument_text,
    arguments_of,
    own_kernels,
    usual_argument,
    usual_block,
)

_UNBOUNDED = 1024
"""Threads that the compiler allows a kernel that says nothing of them."""

_DTYPES = {
    **{name: name for name in ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64")},
    "i1": "bool",
    "f8E4M3FNUZ": "f8",
    "f8E4M3FN": "f8",
    "f8E5M2FNUZ": "bf8",
    "f8E5M2": "bf8",
    "float": "f32",
    "double": "f64",
    "_Float16": "f16",
    "__half": "f16",
    "__bf16": "bf16",
    "hip_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "std::bfloat16_t": "bf16",
    "signed char": "i8",
    "char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "unsigned int": "u32",
    "long": "i64",
    "unsigned long": "u64",
    "long long": "i64",
    "unsigned long long": "u64",
    "bool": "bool",
}
"""By the names that types have in MLIR and C++."""

_SCALARS = {"f32": "float", "f64": "double", "bool": "bool", "i64": "int64_t", "u64": "uint64_t", "u32": "uint32_t"}
"""Runtime arguments; other integers are sizes."""

_SIZES = '["?"]  # ckwatch: say its extents, integers or expressions of the sizes, as in ["M", "N"]'


@dataclass(frozen=True, slots=True)
class _Argument:
    name: str
    dtype: str
    is_tensor: bool
    is_output: bool = False
    in_out: bool = False


def starting_description(file: CodeFile, command: str) -> str:
    """The text of a description of the first kernel of a file; `command` is how it is used. Raises CkwatchError where
    there is no kernel."""
    there = [(code, one) for code in file.objects for one in own_kernels(code)]
    if not there:
        raise CkwatchError(f"{file.path} has no kernel", "; ".join(file.notes) or None)
    code, resources = there[0]
    names = dict.fromkeys(one.name for _, one in there)
    takes = arguments_of(code, resources)
    return "\n".join(_lines(code, resources, [*names], takes, command)) + "\n"


def _lines(
    code: CodeObject, resources: KernelResources, names: Sequence[str], takes: Sequence[ArgumentMetadata], command: str
) -> Iterator[str]:
    yield f'# The launches of a kernel, for `{command}`. Replace each "?".'
    others = f"  # or {', '.join(names[1:])}" if len(names) > 1 else ""
    yield f'kernel = "{resources.name if names.count(resources.name) == 1 else resources.symbol}"{others}'
    yield (
        'grid = ["?"]  # ckwatch: say how many workgroups there are along x, y and z, as in ["(N + 255) / 256", "M"]'
    )
    yield _block_line(code, resources)
    if code.triton is not None and code.triton.name == resources.symbol:
        yield f"dynamic_lds = {code.triton.shared_bytes}"
    arguments = [*_named(code.arch, resources, takes)]
    yield from _argument_lines(code, arguments, takes)
    yield ""
    yield "# What the kernel was compiled with, for the expressions and the reference:"
    yield "# [parameters]"
    yield "# BLOCK = 1024"
    yield ""
    yield "[operation]"
    structures = {one.name for one, taken in zip(arguments, takes, strict=True) if _is_structure(taken)}
    scalars = [one for one in arguments if not one.is_tensor and one.name not in structures]
    sizes = [one.name for one in scalars if one.dtype not in _SCALARS or one.dtype in ("i64", "u64", "u32")]
    runtime = [f'{one.name} = "{_SCALARS[one.dtype]}"' for one in scalars if one.name not in sizes]
    yield f"sizes = {_array(sizes)}"
    if runtime:
        yield f"runtime = {{ {', '.join(runtime)} }}"
    yield '# reference = "reference.py:FUNCTION"  # of NumPy arrays; without it no result is compared'
    for one in arguments:
        if one.is_tensor and one.name not in SCRATCH:
            yield from ("", f"[[operation.{'output' if one.is_output else 'input'}]]", f'name = "{one.name}"')
            yield f'dtype = "{one.dtype}"' if one.dtype else 'dtype = "?"  # ckwatch: say the type of its elements'
            yield f"sizes = {_SIZES}"
            if one.in_out:
                yield "# in_out = true  # if the kernel reads it, too"
    if not any(one.is_output for one in arguments):
        yield ""
        yield "# No pointer is known to be written through: make [[operation.output]] of those that are."


def _argument_lines(
    code: CodeObject, arguments: Sequence[_Argument], takes: Sequence[ArgumentMetadata]
) -> Iterator[str]:
    texts = [usual_argument(code, one.name) for one in arguments]
    if not any(map(_is_structure, takes)):
        yield f"arguments = {_array(texts)}"
        return
    yield "arguments = ["
    for text, one in zip(texts, takes, strict=True):
        if _is_structure(one):
            how = f"say the fields of {argument_text(one)}, as in"
            example = '{ format = "PPiif", values = ["X", "Y", "M", "N", "alpha"] }'
            yield f'    {{ format = "?", values = [] }},  # ckwatch: {how} {example}'
        else:
            yield f"    {json.dumps(text)},"
    yield "]"


def _is_structure(argument: ArgumentMetadata) -> bool:
    return argument.kind != POINTER and argument.size_bytes not in SCALAR_BYTES


def _array(texts: Sequence[str]) -> str:
    return json.dumps(list(texts))


def _block_line(code: CodeObject, resources: KernelResources) -> str:
    if (usual := usual_block(code, resources)) is not None:
        return f"block = [{usual}]"
    most = resources.workgroup_size
    if most != _UNBOUNDED:
        return f"block = [{most}]  # at most, by its __launch_bounds__"
    return f'block = ["?"]  # ckwatch: say how many threads a workgroup has along x, y and z; at most {most} in all'


def _named(arch: str, resources: KernelResources, takes: Sequence[ArgumentMetadata]) -> Iterator[_Argument]:
    types = _parameter_types(resources.symbol)
    for at, (one, written) in enumerate(
        zip(takes, types if len(types) == len(takes) else [""] * len(takes), strict=True)
    ):
        is_tensor = one.kind == POINTER
        kind = one.type_name.removeprefix("*") or re.sub(r" const(?=\*|$)|[*&]", "", written)
        dtype = _DTYPES.get(kind, "" if is_tensor else f"i{8 * one.size_bytes}")
        if kind.startswith("f8") and kind.endswith("FNUZ") != is_fnuz(arch):
            dtype = ""  # `f8` and `bf8` are the forms of the arch
        name = one.name or (f"{'t' if is_tensor else 'n'}{at}")
        is_output = one.access in ("write_only", "read_write") or (
            not one.access and "*" in written and "const*" not in written
        )
        unclear = is_output and one.access != "write_only"
        yield _Argument(re.sub(r"\W", "_", name), dtype, is_tensor, is_output, unclear)


def _parameter_types(symbol: str) -> list[str]:
    """The types of a C++ function's parameters by its mangled name; none where that cannot be read."""
    try:
        function = demangle(symbol, NamePool())
    except ValueError:
        return []
    if function.kind is not NameNodeKind.ENCODING or function.size > 1 << 16:
        return []
    return [full_name(one) for one in function.children[1:]]
