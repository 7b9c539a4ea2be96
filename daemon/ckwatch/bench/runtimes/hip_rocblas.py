"""rocBLAS by its C interface (rocblas-functions.h): `rocblas_gemm_ex`."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from ctypes import byref, c_int, c_int32, c_size_t, c_uint32, c_void_p
from typing import Any

from ckwatch.bench.runtimes.hip_gemm import BlasGemm
from ckwatch.bench.runtimes.hip_library import NONE, TRANSPOSE, Candidate, Scalars, check, load
from ckwatch.bench.runtimes.protocol import RuntimeFailure

_DATA_TYPES: Mapping[str, int] = {"f16": 150, "f32": 151, "f64": 152, "i8": 160, "i32": 162, "bf16": 168}
"""rocblas_datatype (rocblas-types.h)."""

_MATRIX = [c_void_p, c_int, c_int]
_SIGNATURES: Mapping[str, list[Any]] = {
    "rocblas_create_handle": [ctypes.POINTER(c_void_p)],
    "rocblas_destroy_handle": [c_void_p],
    "rocblas_set_stream": [c_void_p, c_void_p],
    "rocblas_get_version_string": [ctypes.c_char_p, c_size_t],
    "rocblas_gemm_ex": [
        *(c_void_p, c_int, c_int, c_int, c_int, c_int),
        *(c_void_p, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX, *_MATRIX),
        *(c_int, c_int, c_int32, c_uint32),
    ],
}


def start(stream: int, allocate: Callable[[int], int]) -> RocBlas | None:  # noqa: ARG001  # it allocates by itself
    """The library with a handle on the stream; None where it is not installed or does not start."""
    library = load("rocblas")
    if library is None:
        return None
    try:
        return RocBlas(library, stream)
    except (RuntimeFailure, AttributeError):
        return None


class RocBlas:
    """A handle on rocBLAS."""

    def __init__(self, library: Any, stream: int) -> None:
        for function, arguments in _SIGNATURES.items():
            getattr(library, function).argtypes = arguments
            getattr(library, function).restype = c_int
        self._library = library
        self._handle = c_void_p()
        text = ctypes.create_string_buffer(64)
        check("rocblas_get_version_string", library.rocblas_get_version_string(text, 64))
        self.name = f"rocBLAS {text.value.decode(errors='replace')}"
        check("rocblas_create_handle", library.rocblas_create_handle(byref(self._handle)))
        check("rocblas_set_stream", library.rocblas_set_stream(self._handle, stream))

    def candidates(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> list[Candidate]:
        types = [_DATA_TYPES.get(matrix.dtype) for matrix in (gemm.a, gemm.b, gemm.c)]
        compute = _DATA_TYPES.get(gemm.accumulator)
        if compute is None or None in types:
            return []
        scalars = Scalars.of(gemm.accumulator)
        a, b, c = (
            (addresses[matrix.buffer], data_type, matrix.stride)
            for matrix, data_type in zip((gemm.a, gemm.b, gemm.c), types, strict=True)
        )
        operations = [TRANSPOSE if matrix.transposed else NONE for matrix in (gemm.a, gemm.b)]
        multiply = self._library.rocblas_gemm_ex

        def launch() -> None:
            status = multiply(
                *(self._handle, *operations, gemm.m, gemm.n, gemm.k),
                *(byref(scalars.alpha), *a, *b, byref(scalars.beta), *c, *c),
                *(compute, 0, 0, 0),
            )
            check("rocblas_gemm_ex", status)

        return [Candidate(self.name, launch)]

    def close(self) -> None:
        with contextlib.suppress(RuntimeFailure):
            check("rocblas_destroy_handle", self._library.rocblas_destroy_handle(self._handle))
