"""Calls of HIP through hip-python, whose functions return a status before everything else."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ckwatch.bench.runtimes import hip_errors
from ckwatch.bench.runtimes.protocol import RuntimeFailure
from ckwatch.timing.report import FailureKind

OLDEST = 6
"""The oldest HIP whose device properties are those that hip-python reads (`hipGetDevicePropertiesR0600`)."""

_SEARCHED = (
    "hip-python looks for libamdhip64.so in the rocm_sdk package, ROCM_PATH, ROCM_HOME, /opt/rocm and LD_LIBRARY_PATH"
)


@functools.cache
def binding() -> Any:
    """hip-python's module. RuntimeFailure (NO_DRIVER) when it is not installed."""
    try:
        return importlib.import_module("rocm.bindings.hip")
    except ImportError as error:
        raise RuntimeFailure(
            FailureKind.NO_DRIVER, f"hip-python cannot be imported: {error}", "install the package rocm-bindings-hip"
        ) from error


def status(function: str, *arguments: Any) -> tuple[str, tuple[Any, ...]]:
    """The name of what `function` returned (`hipSuccess` among them) and its results.

    RuntimeFailure: NO_DRIVER without libamdhip64 or when it lacks the function, BROKEN for a status without a name.
    """
    try:
        answer = getattr(binding(), function)(*arguments)
    except RuntimeError as error:
        raise _absent(function, str(error)) from error
    except ValueError as error:  # hip-python makes an enumerator of the status
        raise RuntimeFailure(
            FailureKind.BROKEN, f"{function} returned an error that hip-python does not know: {error}"
        ) from error
    return str(answer[0].name), tuple(answer[1:])


def call(function: str, *arguments: Any) -> Any:
    """The result of `function`: None, the only one, or a tuple. RuntimeFailure by the error that it returned."""
    name, results = status(function, *arguments)
    if name != "hipSuccess":
        raise failure(function, name)
    return results[0] if len(results) == 1 else results or None


def failure(function: str, name: str) -> RuntimeFailure:
    """What the error of this name, returned by `function`, means; the thread's last error is forgotten."""
    forget_last_error()
    kind, meaning = hip_errors.kind_of(name)
    return RuntimeFailure(kind, f"{meaning} ({function}: {name})", hip_errors.HINTS.get(kind, ""))


def last_error() -> str:
    """The name of the last error of this thread, which is forgotten."""
    return status("hipGetLastError")[0]


def forget_last_error() -> None:
    """Nothing of what failed until now is found by `last_error`."""
    try:
        status("hipGetLastError")
    except RuntimeFailure:
        return


def version_text(number: int) -> str:
    """`7.2.53211` for 70253211: major × 10^7 + minor × 10^5 + patch (hip_runtime_api.h, hipRuntimeGetVersion)."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def check_version() -> str:
    """The runtime's version. RuntimeFailure (NO_DRIVER) when it is older than `OLDEST`."""
    number = int(call("hipRuntimeGetVersion"))
    if number < OLDEST * 10_000_000:
        raise RuntimeFailure(
            FailureKind.NO_DRIVER,
            f"libamdhip64 is that of HIP {version_text(number)}, which is too old",
            f"HIP {OLDEST} or newer is needed; {_SEARCHED}",
        )
    return version_text(number)


def _absent(function: str, said: str) -> RuntimeFailure:
    if "dlsym" in said:
        message = f"libamdhip64 has no {function}: it is not of a version that hip-python fits"
        return RuntimeFailure(FailureKind.NO_DRIVER, message, f"HIP {OLDEST} or newer is needed; {_SEARCHED}", said)
    if "dlopen" in said:
        message = "HIP's library, libamdhip64.so, cannot be loaded"
        return RuntimeFailure(FailureKind.NO_DRIVER, message, f"install ROCm's runtime; {_SEARCHED}", said)
    return RuntimeFailure(FailureKind.BROKEN, f"{function} failed in hip-python: {said}")
