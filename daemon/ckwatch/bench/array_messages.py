"""Messages with arrays on a pipe: a head as JSON, then the arrays' bytes. Nothing in one is ever executed."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEAD_LIMIT_BYTES = 1 << 26
ARRAYS_LIMIT_BYTES = 1 << 36
NUMPY_TYPES = ("float64", "bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_LENGTH = struct.Struct(">Q")


class ArrayMessageError(Exception):
    """The other side has ended, or sent what is no message."""


def send(pipe: BinaryIO, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raises OSError."""
    about = [{"name": name, "dtype": one.dtype.name, "shape": list(one.shape)} for name, one in arrays.items()]
    text = json.dumps({**head, "arrays": about}).encode()
    pipe.write(_LENGTH.pack(len(text)) + text)
    pipe.writelines(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data for one in arrays.values())
    pipe.flush()


def receive(pipe: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """The next message and its arrays. Raises ArrayMessageError and OSError."""
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > HEAD_LIMIT_BYTES:
        raise ArrayMessageError("a head that is too long")
    try:
        head = json.loads(_exactly(pipe, length))
        arrays = {str(one["name"]): _array(pipe, one["dtype"], one["shape"]) for one in head.pop("arrays")}
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
        raise ArrayMessageError(str(error)) from None
    return head, arrays


def _array(pipe: BinaryIO, dtype: object, shape: object) -> Array:
    if dtype not in NUMPY_TYPES or not isinstance(shape, list):
        raise ArrayMessageError("an array of another type")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ArrayMessageError("an array of another shape")
    found = np.dtype(str(dtype))
    if math.prod(shape) * found.itemsize > ARRAYS_LIMIT_BYTES:
        raise ArrayMessageError("an array that is too large")
    array = np.empty(shape, found)
    view = array.reshape(-1).view(np.uint8).data
    while view:
        count = pipe.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise ArrayMessageError("the other side has ended")
        view = view[count:]
    return array


def _exactly(pipe: BinaryIO, length: int) -> bytes:
    content = b""
    while len(content) < length:
        chunk = pipe.read(length - len(content))
        if not chunk:
            raise ArrayMessageError("the other side has ended")
        content += chunk
    return content
