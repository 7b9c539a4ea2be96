"""NVIDIA's GEMM library, cuBLAS, where it is installed: the wheel nvidia-cublas, the toolkit's, or PyTorch's.

Products of f32 are computed in f32, not in TF32: the reference must be as precise as what is asked for.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping
from typing import Any

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.blas import BlasGemm
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Launch

NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")

# library_types.h and cublas_api.h
_DATA_TYPES = {"f32": 0, "f64": 1, "f16": 2, "i8": 3, "i32": 10, "bf16": 14}
_COMPUTE_TYPES = {"f16": 64, "f32": 68, "f64": 70, "i32": 72}
_OPERATIONS = {False: 0, True: 1}
_DEFAULT_ALGORITHM = -1
_STATUS = {
    1: "not initialised",
    3: "no memory",
    7: "an argument is wrong",
    8: "not on this device",
    13: "failed",
    15: "not supported",
}
_REFUSED = (7, 15)


class CuBlas:
    """A handle of cuBLAS on a stream."""

    def __init__(self, library: ctypes.CDLL, stream: int) -> None:
        """BenchmarkError when the library cannot be started."""
        self._library = library
        self._handle = ctypes.c_void_p()
        self._check("cublasCreate", library.cublasCreate_v2(ctypes.byref(self._handle)))
        self._check("cublasSetStream", library.cublasSetStream_v2(self._handle, ctypes.c_void_p(stream)))
        number = ctypes.c_int()
        self._check("cublasGetVersion", library.cublasGetVersion_v2(self._handle, ctypes.byref(number)))
        self.name = f"cuBLAS {number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"

    def launch(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> Launch | None:
        """A launch of `gemm`; None for types that cublasGemmEx does not know."""
        compute = _COMPUTE_TYPES.get(gemm.accumulator)
        types = [_DATA_TYPES.get(matrix.dtype) for matrix in (gemm.a, gemm.b, gemm.c)]
        if compute is None or None in types:
            return None
        scalar: Any = {"f64": ctypes.c_double, "i32": ctypes.c_int32, "f16": ctypes.c_uint16}.get(
            gemm.accumulator, ctypes.c_float
        )
        alpha, beta = scalar(0x3C00 if gemm.accumulator == "f16" else 1), scalar(0)
        arguments = (
            self._handle,
            *(ctypes.c_int(_OPERATIONS[matrix.transposed]) for matrix in (gemm.a, gemm.b)),
            *(ctypes.c_int(size) for size in (gemm.m, gemm.n, gemm.k)),
            ctypes.byref(alpha),
            *(ctypes.c_void_p(addresses[gemm.a.buffer]), ctypes.c_int(types[0] or 0), ctypes.c_int(gemm.a.stride)),
            *(ctypes.c_void_p(addresses[gemm.b.buffer]), ctypes.c_int(types[1] or 0), ctypes.c_int(gemm.b.stride)),
            ctypes.byref(beta),
            *(ctypes.c_void_p(addresses[gemm.c.buffer]), ctypes.c_int(types[2] or 0), ctypes.c_int(gemm.c.stride)),
            ctypes.c_int(compute),
            ctypes.c_int(_DEFAULT_ALGORITHM),
        )
        multiply = self._library.cublasGemmEx
        # The first call loads code, and says whether it can be done at all.
        first = multiply(*arguments)
        if first in _REFUSED:
            return None
        self._check("cublasGemmEx", first)

        def run() -> None:
            answer = multiply(*arguments)
            if answer:
                self._check("cublasGemmEx", answer)

        return run

    @staticmethod
    def _check(function: str, status: int) -> None:
        if status:
            kind = FailureKind.NO_MEMORY if status == 3 else FailureKind.BROKEN
            raise BenchmarkError(kind, f"{function} failed with status {status} ({_STATUS.get(status, 'unknown')})")


def load() -> ctypes.CDLL | None:
    """cuBLAS, where cuda-pathfinder or the loader finds it; None where it is not installed."""
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        return ctypes.CDLL(str(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path))
    except (ImportError, OSError, RuntimeError):  # DynamicLibNotFoundError is a RuntimeError
        pass
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
