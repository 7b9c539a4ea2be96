"""Arrays of any library: where they lie, and their form."""

from __future__ import annotations

import ctypes
import operator
import sys
from functools import lru_cache
from typing import Any, NamedTuple


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
    (0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
    (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
    (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
    (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz",
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


class Form(NamedTuple):
    """The properties of an array that a plan depends on; `strides` in elements. `device` is `cpu`, `hip:0`, `cuda:1`,
    or `gpu` if no more is known."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    readonly: bool


class Array(NamedTuple):
    """Memory at `pointer`. `form` is None for a bare pointer, `library` the one that can make more of its kind
    (`torch`, `numpy`). `stream` is the one that the array says it is used on. `held` must live as long as the memory is
    used."""

    pointer: int
    form: Form | None
    library: str = ""
    stream: int | None = None
    held: object = None


ARRAY_DTYPES = {
    "<f2": "float16", "<f4": "float32", "<f8": "float64",
    "|i1": "int8", "<i2": "int16", "<i4": "int32", "<i8": "int64", "|b1": "bool",
    "|u1": "uint8", "<u2": "uint16", "<u4": "uint32", "<u8": "uint64",
}  # fmt: skip
"""Names of element types, by the array interface's order of bytes, kind and size."""

TAKES = "a torch tensor, a numpy array, an object with __cuda_array_interface__ or __dlpack__, or a pointer"


def array_of(name: str, value: Any, stream: int | None = None) -> Array:
    """The array that was given for the operand `name`. Raises TypeError for what is none."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return of_torch(name, value, torch)
    if isinstance(value, int) and not isinstance(value, bool):
        if value <= 0:
            raise ValueError(f"{name} is not a pointer: {value}")
        return Array(value, None)
    for attribute, device in (
        ("__cuda_array_interface__", "gpu"), ("__hip_array_interface__", "gpu"), ("__array_interface__", "cpu"),
    ):  # fmt: skip
        interface = getattr(value, attribute, None)
        if isinstance(interface, dict):
            return of_interface(name, value, interface, device)
    if callable(getattr(value, "data_ptr", None)):
        return of_pointer(name, value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return of_dlpack(name, value, stream)
    raise TypeError(f"{name} is {'None' if value is None else f'of type {type(value).__name__}'}; it takes {TAKES}")


def of_torch(name: str, value: Any, torch: Any) -> Array:
    """A tensor of PyTorch."""
    if value.layout is not torch.strided:
        raise TypeError(f"{name} has the layout {value.layout}; it takes a strided tensor")
    if value.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires a gradient, and this kernel has none: call it under torch.no_grad()")
    device = value.device
    form = torch_form(tuple(value.shape), value.stride(), value.dtype, device, torch.version.hip is not None)
    stream = int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else None
    return Array(value.data_ptr(), form, "torch", stream)


@lru_cache(maxsize=4096)
def torch_form(shape: tuple[int, ...], strides: tuple[int, ...], dtype: object, device: Any, is_hip: bool) -> Form:
    """The form of a tensor. A device of type `cuda` is an AMD one where PyTorch is made for HIP."""
    kind = f"{'hip' if is_hip else 'cuda'}:{device.index}" if device.type == "cuda" else str(device.type)
    return Form(shape, strides, str(dtype).removeprefix("torch."), kind, False)


def of_pointer(name: str, value: Any) -> Array:
    """An object that has `data_ptr()`, and `shape`, `dtype`, `device` and `stride()` or `strides` (in elements)."""
    try:
        shape = tuple(map(int, value.shape))
        strides = value.stride() if callable(getattr(value, "stride", None)) else getattr(value, "strides", None)
        dtype, device = str(value.dtype).rpartition(".")[2], str(getattr(value.device, "type", value.device))
    except (AttributeError, TypeError) as error:
        raise TypeError(f"{name} has data_ptr(), but not what gives its form: {error}") from None
    steps = packed_strides(shape) if strides is None else tuple(map(int, strides))
    kind = "cpu" if device.partition(":")[0] == "cpu" else "gpu"
    return Array(int(value.data_ptr()), Form(shape, steps, dtype, kind, False))


def of_interface(name: str, value: Any, interface: dict[str, Any], device: str) -> Array:
    """An object with numpy's array interface, or CUDA's or HIP's, which are like it."""
    if interface.get("mask") is not None or getattr(value, "mask", None) is not None:
        raise TypeError(f"{name} is a masked array; it takes one without a mask")
    pointer, readonly = interface["data"]
    typestr: str = interface["typestr"]
    dtype = ARRAY_DTYPES.get(typestr) or str(getattr(value, "dtype", typestr))
    steps = interface.get("strides")
    step_bytes = None if steps is None else tuple(steps)
    form = interface_form(name, tuple(interface["shape"]), step_bytes, typestr, dtype, device, readonly)
    numpy: Any = sys.modules.get("numpy")
    library = "numpy" if device == "cpu" and numpy is not None and isinstance(value, numpy.ndarray) else ""
    return Array(pointer or 0, form, library, array_stream(interface.get("stream")))


@lru_cache(maxsize=4096)
def interface_form(
    name: str, shape: tuple[int, ...], step_bytes: tuple[int, ...] | None, typestr: str, dtype: str, device: str,
    readonly: bool,
) -> Form:  # fmt: skip
    """The form of an array with these strides. Raises ValueError where they are no whole elements."""
    itemsize = int(typestr[2:])
    if step_bytes is None:
        return Form(shape, packed_strides(shape), dtype, device, readonly)
    if any(step % itemsize for step, size in zip(step_bytes, shape, strict=True) if size > 1):
        raise ValueError(f"{name} has strides of {step_bytes} bytes, no multiples of its {itemsize}-byte elements")
    return Form(shape, tuple(step // itemsize for step in step_bytes), dtype, device, readonly)


def array_stream(stream: object) -> int | None:
    """The stream of an array interface as a handle: 1 stands for the default one."""
    if not isinstance(stream, int):
        return None
    return 0 if stream == 1 else stream


def of_dlpack(name: str, value: Any, stream: int | None) -> Array:
    """An object that exports itself by DLPack, such as an array of JAX. It is taken for one that may not be written."""
    capsule, tensor = read_dlpack(value, stream)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else packed_strides(shape)
    dtype = DLPACK_DTYPES.get((tensor.code, tensor.bits), f"code {tensor.code} with {tensor.bits} bits")
    device = DLPACK_DEVICES.get(tensor.device_type, f"device type {tensor.device_type} of DLPack")
    if tensor.lanes != (2 if tensor.bits == 4 else 1):
        raise TypeError(f"{name} has elements of {tensor.lanes} lanes; it takes {TAKES}")
    used_on = None
    if device != "cpu":
        device = f"{device}:{tensor.device_id}"
        used_on = stream or 0
    address = (tensor.data or 0) + tensor.byte_offset
    return Array(address, Form(shape, strides, dtype, device, True), stream=used_on, held=capsule)


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps, the last axis contiguous."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def stream_handle(stream: Any) -> int:
    """The handle of a stream: an integer, or an object of torch, CuPy or another library that has one."""
    for attribute in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    try:
        return operator.index(stream)
    except TypeError:
        raise TypeError(f"stream is of type {type(stream).__name__}; it takes a stream or its handle") from None
