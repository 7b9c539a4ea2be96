"""NumPy files (`.npy`) that kernel files name as the content of tensors: their headers, without numpy.

The format is that of numpy.lib.format, versions 1 to 3. No file is loaded that holds Python objects.
"""

from __future__ import annotations

import ast
import hashlib
import os
import struct
from array import array
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Operation, Shape, Tensor
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensor_values import dtype_limits, is_integer_dtype
from ckwatch.model.tensors import evaluate_size, names_in
from ckwatch.system.user_files import is_file, read_file, real_path
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.named_files import ARRAY_LIMIT_BYTES, NamedFiles
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.toml_document import KeyPath

_MAGIC = b"\x93NUMPY"
_KINDS = {"f": "floats", "i": "integers", "u": "integers", "b": "booleans"}
_INTEGER_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "b1": "B"}


class ArrayFileError(Exception):
    """A file that is no array of numbers; the text says why."""


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """An array of numbers: its element type as in `<f4` without the order of bytes, and its shape; `integers` are the
    least and the greatest one, None of floats or of an array without elements."""

    element: str
    shape: tuple[int, ...]
    integers: tuple[int, int] | None = None


def array_file(content: bytes) -> ArrayFile:
    """The array that a file's content is. Raises ArrayFileError."""
    header, begin = _header(content)
    try:
        fields = ast.literal_eval(header.decode("latin-1").strip())
        descr, shape = fields["descr"], tuple(fields["shape"])
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        raise ArrayFileError("its header is damaged") from None
    if not isinstance(descr, str) or descr[1:2] == "O" or descr == "O":
        raise ArrayFileError("it holds Python objects or records, not numbers")
    order, element = descr[:1], descr[1:]
    if element[:1] not in _KINDS or order not in "<|=>" or not element[1:].isdecimal():
        raise ArrayFileError(f"it holds elements of type `{descr}`, not numbers")
    if order == ">":
        raise ArrayFileError("its numbers are big-endian; save them with `array.astype(array.dtype.newbyteorder('<'))`")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ArrayFileError("its header is damaged")
    needed = prod(shape) * int(element[1:])
    if len(content) - begin != needed:
        raise ArrayFileError(f"it has {len(content) - begin:,} bytes of numbers, and its header says {needed:,}")
    code = _INTEGER_CODES.get(element)
    if code is None or not needed:
        return ArrayFile(element, shape)
    numbers = array(code, memoryview(content)[begin:].tobytes())
    return ArrayFile(element, shape, (min(numbers), max(numbers)))


def _header(content: bytes) -> tuple[bytes, int]:
    """The text of the header, and where the numbers begin."""
    if not content.startswith(_MAGIC) or len(content) < len(_MAGIC) + 4:
        raise ArrayFileError("it is not a NumPy file, as `numpy.save` writes it")
    form, at = ("<H", 8) if content[6] == 1 else ("<I", 8)
    size = struct.calcsize(form)
    if content[6] not in (1, 2, 3) or len(content) < at + size:
        raise ArrayFileError(f"it has version {content[6]} of NumPy's format, which is not known")
    (length,) = struct.unpack_from(form, content, at)
    begin = at + size + length
    if begin > len(content):
        raise ArrayFileError("it is cut off")
    return content[at + size : begin], begin


def why_not_of(dtype: str, found: ArrayFile) -> str:
    """Why an array cannot be a tensor of this dtype; empty where it can. Floats are rounded, integers must fit."""
    if not is_integer_dtype(dtype):
        return ""
    if found.element[0] == "f":
        return f"it holds floats ({_numpy_name(found)}), and the tensor {dtype}"
    least, greatest = dtype_limits(dtype)
    if found.integers is not None and not least <= found.integers[0] <= found.integers[1] <= greatest:
        return f"it holds {found.integers[0]} to {found.integers[1]}, and {dtype} holds {least} to {greatest}"
    return ""


def _numpy_name(found: ArrayFile) -> str:
    names = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    return f"{names[found.element[0]]}{8 * int(found.element[1:])}"


def read_array_files(problems: Problems, operation: Operation, shapes: Sequence[Shape], files: NamedFiles) -> Operation:
    """The operation with the paths and digests of the files that are contents of its tensors; those that are missing or
    do not fit, also one of the `shapes`, are reported."""

    def resolved(tensor: Tensor, place: KeyPath) -> Tensor:
        if tensor.values is None or not tensor.values.file:
            return tensor
        path = os.path.normpath(os.path.join(os.path.dirname(problems.document.path), tensor.values.file))  # noqa: PTH118, PTH120
        files.asked[path] = None
        read = _read(problems, tensor, path, (*place, "values"), files)
        if read is None:
            return tensor
        found, digest = read
        _check_shapes(problems, tensor, found, (*place, "values"), shapes)
        return replace(tensor, values=replace(tensor.values, file=path, digest=digest))

    inputs = tuple(
        (name, None if one is None else resolved(one, ("operation", "input", at)))
        for at, (name, one) in enumerate(operation.inputs)
    )
    outputs = tuple(
        (name, resolved(one, ("operation", "output", at))) for at, (name, one) in enumerate(operation.outputs)
    )
    return replace(operation, inputs=inputs, outputs=outputs)


def _read(
    problems: Problems, tensor: Tensor, path: str, place: KeyPath, files: NamedFiles
) -> tuple[ArrayFile, str] | None:
    name = os.path.basename(path)  # noqa: PTH119
    if not _is_inside(path, problems.document.path):
        message = f"`{path}` lies outside of the workspace"
        problems.at_value(place, "outside", message)
        return None
    try:
        content, digest = files.array(path)
    except FileNotFoundError as error:
        why = f": {error.strerror}" if error.strerror and "link" in error.strerror else ""
        problems.at_value(place, "missing-file", f"there is no file {path}{why}")
        return None
    except OSError as error:
        problems.at_value(place, "unreadable", f"{name} cannot be read: {_why(error)}")
        return None
    try:
        found = array_file(content)
        reason = why_not_of(tensor.dtype, found)
    except ArrayFileError as error:
        problems.at_value(place, "invalid-array", f"{name} cannot be the content of {tensor.name}: {error}")
        return None
    if reason:
        problems.at_value(place, "dtype-mismatch", f"{name} cannot be the content of {tensor.name}: {reason}")
        return None
    return found, digest


def _check_shapes(
    problems: Problems, tensor: Tensor, found: ArrayFile, place: KeyPath, shapes: Sequence[Shape]
) -> None:
    if len(found.shape) != len(tensor.sizes):
        axes = f"{len(found.shape)} axes, and {tensor.name} has {len(tensor.sizes)}"
        problems.at_value(place, "dimension-mismatch", f"the file's array has {axes}")
        return
    constant = not any(names_in(size) for size in tensor.sizes)
    for shape in shapes:
        wanted = tuple(evaluate_size(size, shape.sizes) for size in tensor.sizes)
        if wanted != found.shape:
            own = " × ".join(map(str, found.shape))
            message = f"{tensor.name} is {' × '.join(map(str, wanted))} here, and its file holds {own}"
            problems.add("shape-mismatch", message, problems.document.span_of(place) if constant else shape.span)
            if constant:
                return


def _is_inside(path: str, kernel_file: str) -> bool:
    """Return True if a file lies in the workspace of a kernel file, wherever links lead."""
    folder = os.path.dirname(os.path.abspath(kernel_file))  # noqa: PTH100, PTH120
    root = folder
    while not is_file(os.path.join(root, FILE_NAME)):  # noqa: PTH118
        above = os.path.dirname(root)  # noqa: PTH120
        if above == root:
            root = folder  # a folder of kernel files beside the workspace
            break
        root = above
    return real_path(path).startswith(real_path(root).rstrip(os.sep) + os.sep)


def array_contents(operation: Operation) -> tuple[bytes, ...]:
    """The contents of the files that tensors are made of. Blocks; call from a worker thread. Raises CkwatchError for
    one that is not what it was when the kernel file was read."""
    wanted = {one.values.file: one.values.digest for one in operation.tensors if one.values and one.values.file}
    found = []
    for path, digest in wanted.items():
        try:
            content = read_file(path, ARRAY_LIMIT_BYTES)
        except OSError as error:
            raise CkwatchError(f"{path} cannot be read: {_why(error)}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise CkwatchError(f"{path} has just changed", "the kernel file is read again; try once more")
        found.append(content)
    return tuple(found)


def _why(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason if "MiB" in reason else reason.lower()
