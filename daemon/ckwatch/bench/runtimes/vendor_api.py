"""A vendor's driver through its Python binding, and whose fault each of its errors is.

The binding's functions return a status before everything else. HIP and CUDA have the same functions, with `prefix`
before their names or with other names.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.system.installation import command_for_packages

NON_BLOCKING = 1
"""The flag of streams that do not wait for the default stream (hipStreamNonBlocking, CU_STREAM_NON_BLOCKING)."""


class VendorApi(ABC):
    """The functions of a driver. `errors` that are not listed mean that the driver was called wrongly, which is a bug
    of ours."""

    name = ""
    prefix = ""
    module = ""
    bindings = ""
    package = ""
    success = ""
    not_ready = ""
    create_stream = ""
    create_event = ""
    errors: Mapping[str, tuple[FailureKind, str]]
    hints: Mapping[FailureKind, str]

    @cached_property
    def binding(self) -> Any:
        """The binding's module. BenchmarkError (NO_DRIVER) when it is not installed."""
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            why = f"{self.bindings} cannot be imported: {error}"
            raise BenchmarkError(FailureKind.NO_DRIVER, why, command_for_packages(self.package)) from error

    def kind_of(self, error: str) -> tuple[FailureKind, str]:
        """Whose fault the error of this name is, and what it means in words."""
        return self.errors.get(error, (FailureKind.BROKEN, f"{self.name} was called incorrectly"))

    def status(self, function: str, *arguments: Any) -> tuple[str, tuple[Any, ...]]:
        """The name of what `function` returned (`success` among them) and its results. BenchmarkError: NO_DRIVER
        without the driver's library or when it lacks the function, BROKEN for a status without a name."""
        called = getattr(self.binding, function)
        try:
            answer = called(*arguments)
        except (RuntimeError, OSError) as error:
            raise self.absent(function, str(error)) from error
        except ValueError as error:  # the binding makes an enumerator of the status
            why = f"{function} returned an error that {self.bindings} does not know: {error}"
            raise BenchmarkError(FailureKind.BROKEN, why) from error
        return str(answer[0].name), tuple(answer[1:])

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of `function`: None, the only one, or a tuple. BenchmarkError by the error that it returned."""
        name, results = self.status(function, *arguments)
        if name != self.success:
            raise self.failure(function, name)
        return results[0] if len(results) == 1 else results or None

    def failure(self, function: str, name: str) -> BenchmarkError:
        """Return the error for this name, as returned by `function`."""
        kind, meaning = self.kind_of(name)
        return BenchmarkError(kind, f"{meaning} ({function}: {name})", self.hints.get(kind, ""))

    @abstractmethod
    def absent(self, function: str, reason: str) -> BenchmarkError:
        """Return the error for a function that the binding could not call, with the binding's reason."""

    def new_stream(self) -> Any:
        return self.call(self.create_stream, NON_BLOCKING)

    def is_busy(self, stream: Any) -> bool:
        return self.status(f"{self.prefix}StreamQuery", stream)[0] == self.not_ready
