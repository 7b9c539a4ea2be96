"""Calls of CUDA's driver through cuda-bindings, whose functions return a status before everything else."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ckwatch.bench.runtimes import cuda_errors
from ckwatch.bench.runtimes.protocol import RuntimeFailure
from ckwatch.timing.report import FailureKind

OLDEST = 12
"""The oldest CUDA whose driver has the functions that are called here."""


@functools.cache
def binding() -> Any:
    """cuda-bindings' module of the driver. RuntimeFailure (NO_DRIVER) when it is not installed."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise RuntimeFailure(
            FailureKind.NO_DRIVER, f"cuda-bindings cannot be imported: {error}", "install the package cuda-bindings"
        ) from error


def status(function: str, *arguments: Any) -> tuple[str, tuple[Any, ...]]:
    """The name of what `function` returned (`CUDA_SUCCESS` among them) and its results.

    RuntimeFailure: NO_DRIVER without libcuda or when it lacks the function.
    """
    called = getattr(binding(), function)
    try:
        answer = called(*arguments)
    except (RuntimeError, OSError) as error:  # cuda-pathfinder's DynamicLibNotFoundError is a RuntimeError
        raise RuntimeFailure(
            FailureKind.NO_DRIVER,
            f"CUDA's driver library, libcuda.so.1, cannot be used: {error}",
            cuda_errors.HINTS[FailureKind.NO_DRIVER],
        ) from error
    except ValueError as error:  # cuda-bindings makes an enumerator of the status
        raise RuntimeFailure(
            FailureKind.BROKEN, f"{function} returned an error that cuda-bindings does not know: {error}"
        ) from error
    return str(answer[0].name), tuple(answer[1:])


def call(function: str, *arguments: Any) -> Any:
    """The result of `function`: None, the only one, or a tuple. RuntimeFailure by the error that it returned."""
    name, results = status(function, *arguments)
    if name != "CUDA_SUCCESS":
        raise failure(function, name)
    return results[0] if len(results) == 1 else results or None


def failure(function: str, name: str) -> RuntimeFailure:
    """What the error of this name, returned by `function`, means."""
    kind, meaning = cuda_errors.kind_of(name)
    return RuntimeFailure(kind, f"{meaning} ({function}: {name})", cuda_errors.HINTS.get(kind, ""))


def version_text(number: int) -> str:
    """`13.0` for 13000: major × 1000 + minor × 10 (cuda.h, cuDriverGetVersion)."""
    return f"{number // 1000}.{number % 1000 // 10}"


def start() -> str:
    """Initialise the driver; the CUDA version that it supports. RuntimeFailure: NO_DRIVER, or by what it returned."""
    call("cuInit", 0)
    number = int(call("cuDriverGetVersion"))
    if number < OLDEST * 1000:
        raise RuntimeFailure(
            FailureKind.NO_DRIVER,
            f"the NVIDIA driver is one for CUDA {version_text(number)}, which is too old",
            f"a driver for CUDA {OLDEST} or newer is needed",
        )
    return version_text(number)
