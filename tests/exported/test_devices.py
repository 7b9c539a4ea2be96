"""Kernels of GPUs: HIP templates compiled with the stand-in for HIP's runtime, so that the GPU's memory is the host's.

What they are called with is real; torch is a stand-in here (`stand_in_torch`), and no GPU takes part.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cases.export_case import Export, ExportCustom, custom, tensor
from cases.gemm_case import GemmCase
from fakes.stand_in_torch import Device, Tensor, Torch

CASE = GemmCase("f32", "f32", "f32", bias="row", bias_dtype="f32", activation="relu")

RECORDER = custom(
    {"X": tensor("X", "f32", ("N",), ("1",))},
    {"Y": tensor("Y", "f32", ("N",), ("1",))},
    ("N",),
    {"code": "int32_t"},
)
HIP_SOURCE = """
#include <cstddef>
#include <cstdint>
#include <cstdlib>
extern "C" int symbol(const float* X, float* Y, int32_t N, int32_t code, size_t* workspace_size, uint8_t* workspace, void* stream) {
    if (workspace_size != nullptr) { *workspace_size = code == 7 ? 256 : 0; return X == nullptr && Y == nullptr ? 0 : 99; }
    if (code == 7 && workspace == nullptr) return 98;
    for (int i = 0; i < N; ++i) Y[i] = X[i] + static_cast<float>(reinterpret_cast<uintptr_t>(stream));
    return code == 7 ? 0 : code;
}
extern "C" const char* hipGetErrorName(int code) { return code == 719 ? "hipErrorLaunchFailure" : "hipErrorUnknown"; }
"""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    """A stand-in that has been imported."""
    module = Torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture(scope="module")
def recorder(export_custom: ExportCustom) -> Any:
    """Adds the stream's handle to each element and returns `code`; code 7 wants a workspace and is no error."""
    return export_custom(RECORDER, HIP_SOURCE, "hip")


class OnGpu:
    """Array as CuPy, numba and others have it, over host memory."""

    def __init__(self, array: Any, attribute: str = "__cuda_array_interface__", **fields: Any) -> None:
        self.array = array
        interface = {key: array.__array_interface__[key] for key in ("shape", "strides", "typestr", "data")}
        setattr(self, attribute, interface | fields)


def floats(*shape: int, seed: int = 0) -> Any:
    """Random values."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def test_tensors_of_torch(torch: Torch, export: Export) -> None:
    x, w, bias = floats(33, 40), floats(50, 40, seed=1), floats(50, seed=2)
    expected = np.maximum(x @ w.T + bias, 0)
    module = export(CASE, "hip")
    y = module.gemm(Tensor(x), Tensor(w.T), Tensor(bias))
    assert (type(y), y.device.index) == (Tensor, 0)
    np.testing.assert_allclose(y.array, expected, rtol=1e-4, atol=1e-5)
    assert torch.made == []
    y = module.gemm(Tensor(x), Tensor(w.T), Tensor(bias), kBatch=3)
    np.testing.assert_allclose(y.array, expected, rtol=1e-4, atol=1e-5)
    assert torch.made == [(3 * 33 * 50 * 4, 0)]


def test_the_current_stream_and_device(torch: Torch, recorder: Any) -> None:
    x = floats(5)
    assert np.array_equal(recorder.gemm(Tensor(x), code=0).array, x + np.float32(0x51))
    assert torch.entered == []
    there = Tensor(x, Device("cuda", 1))
    y = recorder.gemm(there, code=7)
    assert np.array_equal(y.array, x + np.float32(0x52))
    assert (y.device.index, torch.entered, torch.made) == (1, [1], [(256, 1)])


def test_a_chosen_stream(torch: Torch, recorder: Any) -> None:
    x = floats(5)
    for stream in (
        0x99,
        type("Stream", (), {"cuda_stream": 0x99})(),
        type("Other", (), {"__cuda_stream__": (0, 0x99)})(),
    ):
        assert np.array_equal(recorder.gemm(Tensor(x), code=7, stream=stream).array, x + np.float32(0x99))
    assert torch.entered == [(0x99, 0)] * 3
    with pytest.raises(TypeError, match="stream is of type str"):
        recorder.gemm(Tensor(x), code=0, stream="main")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (Tensor(floats(5), Device("cpu")), ValueError, "X is in host memory; .* needs it on an AMD GPU"),
        (Tensor(floats(5), Device("meta")), ValueError, "X is on meta"),
        (floats(5), ValueError, "X is in host memory"),
        (Tensor(floats(5), dtype="bfloat16"), TypeError, "X has the dtype bfloat16; it must be float32"),
    ],
)
def test_where_tensors_must_be(value: Any, kind: type[Exception], message: str, torch: Torch, recorder: Any) -> None:
    with pytest.raises(kind, match=message):
        recorder.gemm(value, code=0)


def test_one_device(torch: Torch, recorder: Any) -> None:
    with pytest.raises(ValueError, match="X is on hip:0 and Y on hip:1; they must be on one device"):
        recorder.gemm(Tensor(floats(5)), out=Tensor(floats(5), Device("cuda", 1)), code=0)


def test_gradients_and_layouts(torch: Torch, recorder: Any) -> None:
    x = Tensor(floats(5))
    x.requires_grad = True
    with pytest.raises(ValueError, match=r"X requires a gradient.*torch\.no_grad"):
        recorder.gemm(x, code=0)
    sparse = Tensor(floats(5))
    sparse.layout = "sparse"
    with pytest.raises(TypeError, match="X has the layout sparse"):
        recorder.gemm(sparse, code=0)


ARCHS = [
    ("gfx942", "gfx942:sramecc+:xnack-", True), ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
    ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False), ("gfx90a", "gfx942:sramecc+:xnack-", False),
    ("gfx1100", "gfx1100", True),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "device", "fits"), ARCHS)
def test_archs_of_amd(
    arch: str, device: str, fits: bool, export_custom: ExportCustom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(arch=device))
    module = export_custom(RECORDER, HIP_SOURCE, "hip", arch=arch)
    if fits:
        module.gemm(Tensor(floats(5)), code=0)
        return
    with pytest.raises(ValueError, match=f"is for .*; the tensors are on a device of arch {device[:6]}"):
        module.gemm(Tensor(floats(5)), code=0)


@pytest.mark.parametrize(
    ("arch", "capability", "fits"),
    [
        ("sm_80", (8, 0), True), ("sm_80", (8, 9), True), ("sm_80", (9, 0), False), ("sm_86", (8, 0), False),
        ("sm_90a", (9, 0), True), ("sm_100a", (10, 3), False), ("sm_100f", (10, 3), True), ("sm_120", (12, 1), True),
    ],
)  # fmt: skip
def test_archs_of_nvidia(
    arch: str, capability: tuple[int, int], fits: bool, export_custom: ExportCustom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(hip=None, capability=capability))
    module = export_custom(RECORDER, HIP_SOURCE, "cu", arch=arch)
    if fits:
        module.gemm(Tensor(floats(5)), code=0)
        return
    with pytest.raises(ValueError, match=f"is for {arch}; the tensors are on a device of arch sm_"):
        module.gemm(Tensor(floats(5)), code=0)


def test_a_pytorch_of_the_other_vendor(recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(hip=None))
    with pytest.raises(ValueError, match=r"X is on cuda:0; .* needs it on an AMD GPU \(HIP\)"):
        recorder.gemm(Tensor(floats(5)), code=0)


def test_array_interfaces(recorder: Any) -> None:
    x, y = floats(5), floats(5)
    for attribute in ("__cuda_array_interface__", "__hip_array_interface__"):
        out = OnGpu(y, attribute)
        assert recorder.gemm(OnGpu(x, attribute), out=out, code=0) is out
        assert np.array_equal(y, x)
        recorder.gemm(OnGpu(x, attribute, stream=0x30), out=out, code=0)
        assert np.array_equal(y, x + np.float32(0x30))
        recorder.gemm(OnGpu(x, attribute, stream=1), out=out, code=0)
        assert np.array_equal(y, x)
    with pytest.raises(ValueError, match=r"several streams \(0x30, 0x31\): add stream=…"):
        recorder.gemm(OnGpu(x, stream=0x30), out=OnGpu(y, stream=0x31), code=0)
    with pytest.raises(TypeError, match="Y cannot be made for these arguments: pass out="):
        recorder.gemm(OnGpu(x), code=0)


def test_workspaces_are_given_where_torch_is_not(recorder: Any) -> None:
    x, y = OnGpu(floats(5)), OnGpu(floats(5))
    assert recorder.workspace_size(N=5, code=7) == 256
    with pytest.raises(ValueError, match="needs a workspace of 256 bytes: add workspace=…"):
        recorder.gemm(x, out=y, code=7)
    memory = np.zeros(256, np.uint8)
    recorder.gemm(x, out=y, code=7, workspace=OnGpu(memory))
    recorder.gemm(x, out=y, code=7, workspace=memory.ctypes.data)
    calls: list[int] = []

    def allocate(size: int) -> OnGpu:
        calls.append(size)
        return OnGpu(np.zeros(size, np.uint8))

    for stream in (1, 1, 2):
        recorder.gemm(x, out=y, code=7, workspace=allocate, stream=stream)
    assert calls == [256, 256]


class ByPointer:
    """Tensor as libraries with `data_ptr()` have it."""

    def __init__(self, array: Any, device: str) -> None:
        self.array, self.device, self.shape, self.dtype = array, device, array.shape, array.dtype

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def test_pointers_with_a_form(recorder: Any) -> None:
    x, y = floats(5), floats(5)
    recorder.gemm(ByPointer(x, "gpu:0"), out=ByPointer(y, "gpu:0"), code=0)
    assert np.array_equal(y, x)
    with pytest.raises(ValueError, match="X is in host memory"):
        recorder.gemm(ByPointer(x, "cpu"), out=ByPointer(y, "gpu:0"), code=0)
    shapeless = type("Shapeless", (), {"data_ptr": lambda _: 64})()
    with pytest.raises(TypeError, match="X has data_ptr"):
        recorder.gemm(shapeless, out=ByPointer(y, "gpu:0"), code=0)


class OnlyDLPack:
    """Array as JAX and others have it. On a GPU that is the host, the capsule says so."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array, self.kind = array, device
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **options: Any) -> object:
        self.asked.append(options)
        capsule = self.array.__dlpack__()
        if self.kind != 1:
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
            ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = self.kind
        return capsule


def test_dlpack(recorder: Any, export: Export) -> None:
    x, y = floats(5), floats(5)
    given = OnlyDLPack(x, 10)
    recorder.gemm(given, out=OnGpu(y), code=0)
    assert np.array_equal(y, x)
    recorder.gemm(given, out=OnGpu(y), code=0, stream=0x77)
    assert given.asked == [{"stream": 0}, {"stream": 0x77}]
    with pytest.raises(ValueError, match="X is on cuda:0"):
        recorder.gemm(OnlyDLPack(x, 2), out=OnGpu(y), code=0)
    with pytest.raises(ValueError, match="Y is written, and the array that was given may only be read"):
        recorder.gemm(given, out=OnlyDLPack(y, 10), code=0)
    a, b, bias = floats(4, 8), floats(6, 8), floats(6)
    result = export(CASE).gemm(OnlyDLPack(a), OnlyDLPack(b.T), bias)
    np.testing.assert_allclose(result, np.maximum(a @ b.T + bias, 0), rtol=1e-5, atol=1e-6)


def test_error_codes(recorder: Any) -> None:
    x, y = OnGpu(floats(5)), OnGpu(floats(5))
    with pytest.raises(recorder.KernelError, match=r"failed with code 719 \(hipErrorLaunchFailure\)") as caught:
        recorder.gemm(x, out=y, code=719)
    assert caught.value.code == 719
    for part in ("N=5, code=719", "X float32 (5,) with strides (1,) at 0x", "workspace of 0 bytes"):
        assert part in str(caught.value)
    with pytest.raises(recorder.KernelError, match="a pointer is null"):
        recorder.gemm(x, out=y, code=-1)
