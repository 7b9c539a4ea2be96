"""AMD's GEMM libraries, hipBLASLt and rocBLAS, where they are installed, by their C interfaces.

Each offers candidates for a multiplication: hipBLASLt those that its heuristic ranks first, rocBLAS the one that it
would run. Which is the fastest only a device can tell.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.blas import BlasGemm, BlasMatrix
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Launch

NONE, TRANSPOSE = 111, 112
"""Operations of hipBLAS and rocBLAS (hipblas-common.h, rocblas-types.h)."""


def _scalars(accumulator: str) -> tuple[Any, Any]:
    """Alpha 1 and beta 0 of the type that a library wants them in, by the accumulator's dtype."""
    c_type: Any = {"f64": ctypes.c_double, "i32": ctypes.c_int32}.get(accumulator, ctypes.c_float)
    return c_type(1), c_type(0)


def _check_status(function: str, status: int) -> None:
    """BenchmarkError (BROKEN) unless a library's function returned 0: what it ran on was not a kernel of the user's."""
    if status != 0:
        raise BenchmarkError(FailureKind.BROKEN, f"{function} failed with status {status}")


def _declared(library: Any, signatures: Mapping[str, list[Any]]) -> Any:
    for function, arguments in signatures.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = c_int
    return library


HIPBLASLT_CANDIDATES = 8
"""How many of the heuristic's algorithms are offered."""

HIPBLASLT_WORKSPACE_BYTES = 64 << 20

_HIPBLASLT_DATA_TYPES: Mapping[str, int] = {
    "f32": 0,
    "f64": 1,
    "f16": 2,
    "i8": 3,
    "i32": 10,
    "bf16": 14,
    "f8": 28,
    "bf8": 29,
}
"""hipDataType (library_types.h)."""

_FNUZ: Mapping[str, int] = {"f8": 1000, "bf8": 1001}
"""hipDataType of the 8-bit floats of gfx942."""

_HIPBLASLT_COMPUTE_TYPES: Mapping[str, int] = {"f32": 2, "f64": 7, "i32": 9}
"""hipblasComputeType_t (hipblas-common.h)."""

_TRANSA, _TRANSB = 0, 1
_MAX_WORKSPACE = 1


class _Algorithm(ctypes.Structure):
    _fields_: ClassVar = [("data", c_uint8 * 16), ("max_workspace_bytes", c_size_t)]


class _Heuristic(ctypes.Structure):
    _fields_: ClassVar = [
        ("algorithm", _Algorithm),
        ("workspace_bytes", c_size_t),
        ("status", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


_HIPBLASLT_SIGNATURES: Mapping[str, list[Any]] = {
    "hipblasLtCreate": [POINTER(c_void_p)],
    "hipblasLtGetVersion": [c_void_p, POINTER(c_int)],
    "hipblasLtMatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "hipblasLtMatmulDescCreate": [POINTER(c_void_p), c_int, c_int],
    "hipblasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "hipblasLtMatmulPreferenceCreate": [POINTER(c_void_p)],
    "hipblasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "hipblasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, POINTER(_Heuristic), POINTER(c_int)],
    "hipblasLtMatmul": [*[c_void_p] * 13, c_void_p, c_size_t, c_void_p],
}


class HipBlasLt:
    """A handle on hipBLASLt."""

    def __init__(self, library: Any, stream: int, allocate: Callable[[int], int]) -> None:
        self._library = _declared(library, _HIPBLASLT_SIGNATURES)
        self._stream = stream
        self._allocate = allocate
        self._workspace: tuple[int, int] | None = None
        self._handle = self._make("hipblasLtCreate")
        version = c_int()
        self._call("hipblasLtGetVersion", self._handle, byref(version))
        self.name = f"hipBLASLt {version.value // 100_000}.{version.value // 100 % 1000}.{version.value % 100}"

    def candidates(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> list[Launch]:
        """Ways to multiply, the likely best first; empty when it does not know these types."""
        types = {**_HIPBLASLT_DATA_TYPES, **(_FNUZ if gemm.fnuz else {})}
        matrices = (gemm.a, gemm.b, gemm.c)
        compute = _HIPBLASLT_COMPUTE_TYPES.get(gemm.accumulator)
        if compute is None or any(matrix.dtype not in types for matrix in matrices):
            return []
        try:
            description = self._description(gemm, compute, types[gemm.accumulator])
            layouts = [self._layout(matrix, types[matrix.dtype]) for matrix in matrices]
            found = self._heuristic(description, layouts)
        except BenchmarkError:
            return []
        places = [addresses[matrix.buffer] for matrix in matrices]
        return [self._launch(description, layouts, places, one, gemm.accumulator) for one in found]

    def _description(self, gemm: BlasGemm, compute: int, scale: int) -> c_void_p:
        description = self._make("hipblasLtMatmulDescCreate", compute, scale)
        for attribute, matrix in ((_TRANSA, gemm.a), (_TRANSB, gemm.b)):
            operation = c_int(TRANSPOSE if matrix.transposed else NONE)
            self._call("hipblasLtMatmulDescSetAttribute", description, attribute, byref(operation), 4)
        return description

    def _layout(self, matrix: BlasMatrix, data_type: int) -> c_void_p:
        shape = (matrix.rows, matrix.columns, matrix.stride)
        return self._make("hipblasLtMatrixLayoutCreate", data_type, *shape)

    def _heuristic(self, description: c_void_p, layouts: list[c_void_p]) -> list[_Heuristic]:
        preference = self._make("hipblasLtMatmulPreferenceCreate")
        _, size = self._scratch()
        limit = c_uint64(size)
        self._call("hipblasLtMatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE, byref(limit), 8)
        a, b, c = layouts
        results = (_Heuristic * HIPBLASLT_CANDIDATES)()
        count = c_int()
        self._call(
            "hipblasLtMatmulAlgoGetHeuristic",
            *(self._handle, description, a, b, c, c, preference, HIPBLASLT_CANDIDATES, results, byref(count)),
        )
        return [one for one in results[: count.value] if one.status == 0 and one.workspace_bytes <= size]

    def _launch(
        self,
        description: c_void_p,
        layouts: list[c_void_p],
        places: list[int],
        one: _Heuristic,
        accumulator: str,
    ) -> Launch:
        (la, lb, lc), (a, b, c) = layouts, places
        workspace, size = self._scratch()
        alpha, beta = map(byref, _scalars(accumulator))
        multiply = self._library.hipblasLtMatmul

        def launch() -> None:
            status = multiply(
                *(self._handle, description, alpha, a, la, b, lb, beta, c, lc, c, lc, byref(one.algorithm)),
                *(workspace, size, self._stream),
            )
            _check_status("hipblasLtMatmul", status)

        return launch

    def _scratch(self) -> tuple[int, int]:
        """Address and size of the workspace, which all algorithms share; 0 where there is no memory for it."""
        if self._workspace is None:
            try:
                self._workspace = (self._allocate(HIPBLASLT_WORKSPACE_BYTES), HIPBLASLT_WORKSPACE_BYTES)
            except BenchmarkError:
                self._workspace = (0, 0)
        return self._workspace

    def _make(self, create: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self._call(create, byref(made), *arguments)
        return made

    def _call(self, function: str, *arguments: Any) -> None:
        _check_status(function, getattr(self._library, function)(*arguments))


_ROCBLAS_DATA_TYPES: Mapping[str, int] = {"f16": 150, "f32": 151, "f64": 152, "i8": 160, "i32": 162, "bf16": 168}
"""rocblas_datatype (rocblas-types.h)."""

_MATRIX = [c_void_p, c_int, c_int]
_ROCBLAS_SIGNATURES: Mapping[str, list[Any]] = {
    "rocblas_create_handle": [ctypes.POINTER(c_void_p)],
    "rocblas_set_stream": [c_void_p, c_void_p],
    "rocblas_get_version_string": [ctypes.c_char_p, c_size_t],
    "rocblas_gemm_ex": [
        *(c_void_p, c_int, c_int, c_int, c_int, c_int),
        *(c_void_p, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX, *_MATRIX),
        *(c_int, c_int, c_int32, c_uint32),
    ],
}


class RocBlas:
    """A handle on rocBLAS, which allocates by itself."""

    def __init__(self, library: Any, stream: int, _allocate: Callable[[int], int]) -> None:
        self._library = _declared(library, _ROCBLAS_SIGNATURES)
        self._handle = c_void_p()
        text = ctypes.create_string_buffer(64)
        _check_status("rocblas_get_version_string", library.rocblas_get_version_string(text, 64))
        self.name = f"rocBLAS {text.value.decode(errors='replace')}"
        _check_status("rocblas_create_handle", library.rocblas_create_handle(byref(self._handle)))
        _check_status("rocblas_set_stream", library.rocblas_set_stream(self._handle, stream))

    def candidates(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> list[Launch]:
        """Ways to multiply, the likely best first; empty when it does not know these types."""
        types = [_ROCBLAS_DATA_TYPES.get(matrix.dtype) for matrix in (gemm.a, gemm.b, gemm.c)]
        compute = _ROCBLAS_DATA_TYPES.get(gemm.accumulator)
        if compute is None or None in types:
            return []
        alpha, beta = _scalars(gemm.accumulator)
        a, b, c = (
            (addresses[matrix.buffer], data_type, matrix.stride)
            for matrix, data_type in zip((gemm.a, gemm.b, gemm.c), types, strict=True)
        )
        operations = [TRANSPOSE if matrix.transposed else NONE for matrix in (gemm.a, gemm.b)]
        multiply = self._library.rocblas_gemm_ex

        def launch() -> None:
            status = multiply(
                *(self._handle, *operations, gemm.m, gemm.n, gemm.k),
                *(byref(alpha), *a, *b, byref(beta), *c, *c),
                *(compute, 0, 0, 0),
            )
            _check_status("rocblas_gemm_ex", status)

        return [launch]


BlasLibrary = HipBlasLt | RocBlas


def available_libraries(stream: int, allocate: Callable[[int], int]) -> list[BlasLibrary]:
    """The libraries that are there, where hip-python would look for them, and that can be started on the stream;
    `allocate` gives them device memory."""
    found: list[BlasLibrary] = []
    for name, start in (("hipblaslt", HipBlasLt), ("rocblas", RocBlas)):
        with contextlib.suppress(ImportError, OSError, BenchmarkError, AttributeError):
            paths: Any = importlib.import_module("rocm.bindings.util.paths")
            found.append(start(ctypes.CDLL(os.fsdecode(paths.get_library_path(name))), stream, allocate))
    return found
