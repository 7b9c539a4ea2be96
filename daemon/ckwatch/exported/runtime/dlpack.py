"""DLPack: where an array of any library lies, by the C structure that it hands out."""

from __future__ import annotations

import ctypes
from typing import Any


class DLTensor(ctypes.Structure):
    """`DLTensor` of dlpack.h; `DLManagedTensor` begins with one."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DLPACK_DEVICES = {1: "cpu", 2: "cuda", 10: "hip"}

DLPACK_DTYPES = {
    (0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 16): "uint16", (2, 16): "float16",
    (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool", (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu", (17, 4): "float4_e2m1fn_x2",
}  # fmt: skip
"""Names of element types, by DLPack's type code and bits."""


def read_dlpack(value: Any, stream: int | None) -> tuple[object, DLTensor]:
    """The capsule that `value` exports, to be kept as long as the memory is used, and what is in it.

    `stream` is the one that will read the memory: `value` sees to it that what writes it has ended for that stream.
    """
    device_type, _ = value.__dlpack_device__()
    capsule = value.__dlpack__() if device_type == 1 else value.__dlpack__(stream=dlpack_stream(device_type, stream))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return capsule, DLTensor.from_address(pointer(capsule, b"dltensor"))


def dlpack_stream(device_type: int, stream: int | None) -> int | None:
    """How `__dlpack__` names a stream: CUDA's default one is 1 there and HIP's 0."""
    if stream:
        return stream
    return 1 if device_type == 2 else 0
