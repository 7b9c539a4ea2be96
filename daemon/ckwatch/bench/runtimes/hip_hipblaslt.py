"""hipBLASLt by its C interface (hipblaslt.h): its heuristic's best algorithms for a multiplication."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from typing import Any, ClassVar

from ckwatch.bench.runtimes.hip_gemm import BlasGemm, Matrix
from ckwatch.bench.runtimes.hip_library import NONE, TRANSPOSE, Candidate, Scalars, check, load
from ckwatch.bench.runtimes.protocol import Launch, RuntimeFailure

CANDIDATES = 8
"""How many of the heuristic's algorithms are offered."""

WORKSPACE_BYTES = 64 << 20

_DATA_TYPES: Mapping[str, int] = {"f32": 0, "f64": 1, "f16": 2, "i8": 3, "i32": 10, "bf16": 14, "f8": 28, "bf8": 29}
"""hipDataType (library_types.h)."""

_FNUZ: Mapping[str, int] = {"f8": 1000, "bf8": 1001}
"""hipDataType of the 8-bit floats of gfx942."""

_COMPUTE_TYPES: Mapping[str, int] = {"f32": 2, "f64": 7, "i32": 9}
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


_SIGNATURES: Mapping[str, list[Any]] = {
    "hipblasLtCreate": [POINTER(c_void_p)],
    "hipblasLtDestroy": [c_void_p],
    "hipblasLtGetVersion": [c_void_p, POINTER(c_int)],
    "hipblasLtMatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "hipblasLtMatrixLayoutDestroy": [c_void_p],
    "hipblasLtMatmulDescCreate": [POINTER(c_void_p), c_int, c_int],
    "hipblasLtMatmulDescDestroy": [c_void_p],
    "hipblasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "hipblasLtMatmulPreferenceCreate": [POINTER(c_void_p)],
    "hipblasLtMatmulPreferenceDestroy": [c_void_p],
    "hipblasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "hipblasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, POINTER(_Heuristic), POINTER(c_int)],
    "hipblasLtMatmul": [*[c_void_p] * 13, c_void_p, c_size_t, c_void_p],
}


def start(stream: int, allocate: Callable[[int], int]) -> HipBlasLt | None:
    """The library with a handle; None where it is not installed or does not start."""
    library = load("hipblaslt")
    if library is None:
        return None
    try:
        return HipBlasLt(library, stream, allocate)
    except (RuntimeFailure, AttributeError):
        return None


class HipBlasLt:
    """A handle on hipBLASLt, and what was made with it."""

    def __init__(self, library: Any, stream: int, allocate: Callable[[int], int]) -> None:
        for function, arguments in _SIGNATURES.items():
            getattr(library, function).argtypes = arguments
            getattr(library, function).restype = c_int
        self._library = library
        self._stream = stream
        self._allocate = allocate
        self._workspace: tuple[int, int] | None = None
        self._made: list[tuple[str, c_void_p]] = []
        self._handle = self._make("hipblasLtCreate", "hipblasLtDestroy")
        version = c_int()
        self._call("hipblasLtGetVersion", self._handle, byref(version))
        self.name = f"hipBLASLt {version.value // 100_000}.{version.value // 100 % 1000}.{version.value % 100}"

    def candidates(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> list[Candidate]:
        types = {**_DATA_TYPES, **(_FNUZ if gemm.fnuz else {})}
        matrices = (gemm.a, gemm.b, gemm.c)
        compute = _COMPUTE_TYPES.get(gemm.accumulator)
        if compute is None or any(matrix.dtype not in types for matrix in matrices):
            return []
        try:
            description = self._description(gemm, compute, types[gemm.accumulator])
            layouts = [self._layout(matrix, types[matrix.dtype]) for matrix in matrices]
            found = self._heuristic(description, layouts)
        except RuntimeFailure:
            return []
        places = [addresses[matrix.buffer] for matrix in matrices]
        return [
            Candidate(self.name, self._launch(description, layouts, places, one, Scalars.of(gemm.accumulator)))
            for one in found
        ]

    def close(self) -> None:
        for destroy, made in reversed(self._made):
            with contextlib.suppress(RuntimeFailure):
                self._call(destroy, made)
        self._made.clear()

    def _description(self, gemm: BlasGemm, compute: int, scale: int) -> c_void_p:
        description = self._make("hipblasLtMatmulDescCreate", "hipblasLtMatmulDescDestroy", compute, scale)
        for attribute, matrix in ((_TRANSA, gemm.a), (_TRANSB, gemm.b)):
            operation = c_int(TRANSPOSE if matrix.transposed else NONE)
            self._call("hipblasLtMatmulDescSetAttribute", description, attribute, byref(operation), 4)
        return description

    def _layout(self, matrix: Matrix, data_type: int) -> c_void_p:
        shape = (matrix.rows, matrix.columns, matrix.stride)
        return self._make("hipblasLtMatrixLayoutCreate", "hipblasLtMatrixLayoutDestroy", data_type, *shape)

    def _heuristic(self, description: c_void_p, layouts: list[c_void_p]) -> list[_Heuristic]:
        preference = self._make("hipblasLtMatmulPreferenceCreate", "hipblasLtMatmulPreferenceDestroy")
        _, size = self._scratch()
        limit = c_uint64(size)
        self._call("hipblasLtMatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE, byref(limit), 8)
        a, b, c = layouts
        results = (_Heuristic * CANDIDATES)()
        count = c_int()
        self._call(
            "hipblasLtMatmulAlgoGetHeuristic",
            *(self._handle, description, a, b, c, c, preference, CANDIDATES, results, byref(count)),
        )
        return [one for one in results[: count.value] if one.status == 0 and one.workspace_bytes <= size]

    def _launch(
        self, description: c_void_p, layouts: list[c_void_p], places: list[int], one: _Heuristic, scalars: Scalars
    ) -> Launch:
        (la, lb, lc), (a, b, c) = layouts, places
        workspace, size = self._scratch()
        alpha, beta = byref(scalars.alpha), byref(scalars.beta)
        multiply = self._library.hipblasLtMatmul

        def launch() -> None:
            status = multiply(
                *(self._handle, description, alpha, a, la, b, lb, beta, c, lc, c, lc, byref(one.algorithm)),
                *(workspace, size, self._stream),
            )
            check("hipblasLtMatmul", status)

        return launch

    def _scratch(self) -> tuple[int, int]:
        """Address and size of the workspace, which all algorithms share; 0 where there is no memory for it."""
        if self._workspace is None:
            try:
                self._workspace = (self._allocate(WORKSPACE_BYTES), WORKSPACE_BYTES)
            except RuntimeFailure:
                self._workspace = (0, 0)
        return self._workspace

    def _make(self, create: str, destroy: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self._call(create, byref(made), *arguments)
        self._made.append((destroy, made))
        return made

    def _call(self, function: str, *arguments: Any) -> None:
        check(function, getattr(self._library, function)(*arguments))
