"""The interface of a device runtime: what a measurement needs of a device."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ckwatch.bench.report import DeviceReading, FailureKind
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.python_references import ReferenceMistake

if TYPE_CHECKING:  # the daemon knows this protocol, and needs no numpy
    import numpy as np
    import numpy.typing as npt

Bytes: TypeAlias = "npt.NDArray[np.uint8]"

Launch = Callable[[], None]
"""Puts one run of a kernel on the stream. Raises BenchmarkError."""


class BenchmarkError(Exception):  # becomes a `Failure`
    """The device, its driver or the kernel failed, or the reference with a `mistake`; `kind` says whose fault it is."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        hint: str = "",
        detail: str = "",
        mistake: ReferenceMistake | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.detail = detail
        self.mistake = mistake


def version_of(package: str) -> str:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


class DeviceEvent(Protocol):
    """A moment on a stream; what it is, only its runtime knows."""


class DeviceRuntime(Protocol):
    """A device that is open, with one stream. Every method raises BenchmarkError; addresses are integers.

    It is given back with the process. `fill`, `copy`, `record` and a kernel's launch are put on
    the stream in this order and return at once, except on the CPU; everything else waits for what it needs.
    """

    @property
    def facts(self) -> DeviceFacts: ...

    @property
    def stream(self) -> int:
        """The stream's handle, as the kernel's C function takes it."""
        ...

    @property
    def versions(self) -> dict[str, str]:
        """Versions of driver, runtime and bindings."""
        ...

    def loaded(self) -> None:
        """To be called when an artifact has been loaded: UNLOADABLE when it does not go with what this runtime uses."""
        ...

    def free_memory_bytes(self) -> int: ...

    def allocate(self, size_bytes: int) -> int:
        """Device memory, aligned to 256 bytes. NO_MEMORY when there is too little."""
        ...

    def free(self, address: int) -> None: ...

    def upload(self, address: int, data: Bytes) -> None: ...

    def download(self, address: int, data: Bytes) -> None:
        """Fill `data` from the device, after everything on the stream has ended."""
        ...

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """Set each byte to `value`, on the stream."""
        ...

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy device memory, on the stream."""
        ...

    def event(self) -> DeviceEvent: ...

    def record(self, event: DeviceEvent) -> None: ...

    def wait(self, event: DeviceEvent) -> None:
        """Wait until a recorded event is reached; FAULT as for `synchronize`."""
        ...

    def elapsed_us(self, begin: DeviceEvent, end: DeviceEvent) -> float:
        """Microseconds between two events that have been recorded and reached."""
        ...

    def synchronize(self) -> None:
        """Wait for the stream; FAULT with the runtime's error name when a kernel failed."""
        ...

    def gate(self) -> AbstractContextManager[None]:
        """While it is open nothing on the stream begins: what is put there runs without gaps when the block ends.

        A device that cannot do that begins at once; one whose host waits for the stream inside of the block is let go
        after a second.
        """
        ...

    def reading(self) -> DeviceReading: ...

    def others(self) -> tuple[str, ...]:
        """Other processes that compute on the device, `PID NAME`, as far as they can be seen."""
        ...

    def library(self, problem: KernelProblem, addresses: dict[str, int]) -> Launch | None:
        """The vendor's GEMM of the problem on the buffers at `addresses`, without epilogue; None where there is none
        for it."""
        ...

    @property
    def library_name(self) -> str: ...


class RuntimeModule(Protocol):
    """The interface of a module of this package."""

    def find(self) -> tuple[DeviceFacts, ...]:
        """The devices of this kind, the best first. BenchmarkError (NO_DRIVER) when they cannot be asked for."""
        ...

    def open(self, device: DeviceFacts, **options: Any) -> DeviceRuntime: ...
