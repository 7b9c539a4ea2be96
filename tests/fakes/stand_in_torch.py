"""A stand-in for PyTorch on a machine without a GPU: tensors on a "GPU" that is the host's memory.

It has what exported modules use of torch, and notes what it was asked for. It says nothing of the real one; what needs
no GPU is tested with that in `test_torch.py`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

DTYPES = {"float16": np.float16, "float32": np.float32, "uint8": np.uint8, "bfloat16": np.uint16}


class Device:
    """`torch.device`."""

    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class Dtype(str):
    """`torch.dtype`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"torch.{super().__str__()}"


class Tensor:
    """`torch.Tensor`, on a device of type `cuda` unless told otherwise."""

    layout = "strided"
    requires_grad = False

    def __init__(self, array: Any, device: Device | None = None, dtype: str | None = None) -> None:
        self.array = array
        self.device = device or Device("cuda", 0)
        self.dtype = Dtype(dtype or array.dtype.name)
        self.shape = array.shape

    def stride(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self) -> int:
        """The address."""
        return int(self.array.ctypes.data)


class Torch(types.ModuleType):
    """The module. `made` are the tensors that were asked for, `entered` the devices and streams made current."""

    def __init__(
        self, *, hip: str | None = "7.2", arch: str = "gfx942:sramecc+:xnack-", capability: tuple[int, int] = (9, 0)
    ) -> None:
        super().__init__("torch")
        self.Tensor, self.strided, self.device = Tensor, "strided", Device
        self.version = types.SimpleNamespace(hip=hip)
        self.made: list[tuple[int, int]] = []
        self.entered: list[object] = []
        self.stream = 0x51
        properties = types.SimpleNamespace(gcnArchName=arch, major=capability[0], minor=capability[1])
        self.cuda = types.SimpleNamespace(
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=self.stream + (device.index or 0)),
            current_device=lambda: 0,
            get_device_properties=lambda _: properties,
            device=lambda index: self._entering(index),
            stream=lambda stream: self._entering(stream),
            ExternalStream=lambda handle, device: (handle, device),
        )
        for name in DTYPES:
            setattr(self, name, Dtype(name))

    def empty(self, size: int, *, dtype: Dtype, device: Device) -> Tensor:
        """`torch.empty`."""
        self.made.append((size, device.index or 0))
        return Tensor(np.empty(size, DTYPES[dtype[:]]), device)

    def empty_strided(self, shape: Any, strides: Any, *, dtype: Dtype, device: Device) -> Tensor:
        """`torch.empty_strided`, whose memory begins as NaN."""
        element = np.dtype(DTYPES[dtype[:]])
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        memory = np.full(extent, 0xFF, f"u{element.itemsize}").view(element)
        steps = [step * element.itemsize for step in strides]
        return Tensor(np.ndarray(shape, element, memory, strides=steps), device, dtype[:])

    def is_grad_enabled(self) -> bool:
        """As outside `no_grad`."""
        return True

    @contextmanager
    def _entering(self, what: object) -> Iterator[None]:
        self.entered.append(what)
        yield
