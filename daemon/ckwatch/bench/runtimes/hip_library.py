"""AMD's own GEMM libraries, hipBLASLt and rocBLAS, where they are installed.

Each offers candidates for a multiplication: hipBLASLt those that its heuristic ranks first, rocBLAS the one that it
takes. Which is the fastest only a device can tell.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ckwatch.bench.runtimes.hip_gemm import BlasGemm
from ckwatch.bench.runtimes.protocol import Launch, RuntimeFailure
from ckwatch.timing.report import FailureKind

NONE, TRANSPOSE = 111, 112
"""Operations of hipBLAS and rocBLAS (hipblas-common.h, rocblas-types.h)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to multiply, and whose it is."""

    library: str
    launch: Launch


class Vendor(Protocol):
    """One of the libraries, with a handle on a stream. `name`: with its version."""

    name: str

    def candidates(self, gemm: BlasGemm, addresses: Mapping[str, int]) -> list[Candidate]:
        """Ways to multiply, the likely best first; empty when it does not know these types."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Scalars:
    """Alpha 1 and beta 0 of the type that a library wants them in."""

    alpha: Any
    beta: Any

    @classmethod
    def of(cls, accumulator: str) -> Scalars:
        """By the accumulator's dtype: `f32`, `f64` or `i32`."""
        c_type: Any = {"f64": ctypes.c_double, "i32": ctypes.c_int32}.get(accumulator, ctypes.c_float)
        return cls(alpha=c_type(1), beta=c_type(0))


def load(short_name: str) -> ctypes.CDLL | None:
    """The library `libSHORT_NAME.so` where hip-python would look for it; None where there is none that loads."""
    try:
        paths: Any = importlib.import_module("rocm.bindings.util.paths")
        return ctypes.CDLL(os.fsdecode(paths.get_library_path(short_name)))
    except (ImportError, OSError):
        return None


def check(function: str, status: int) -> None:
    """RuntimeFailure (BROKEN) unless a library's function returned 0: what it ran on was not a kernel of the user's."""
    if status != 0:
        raise RuntimeFailure(FailureKind.BROKEN, f"{function} failed with status {status}")


def vendors(stream: int, allocate: Callable[[int], int]) -> list[Vendor]:
    """The libraries that are there and can be started on the stream; `allocate` gives them device memory."""
    found: list[Vendor] = []
    for module in ("hip_hipblaslt", "hip_rocblas"):
        start: Any = importlib.import_module(f"ckwatch.bench.runtimes.{module}").start
        vendor = start(stream, allocate)
        if vendor is not None:
            found.append(vendor)
    return found
