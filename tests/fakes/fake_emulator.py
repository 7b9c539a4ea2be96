"""An emulated device in Python, and kernels for it: functions on numpy arrays that are called as a loaded artifact is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.kernel_abi import Explain, KernelFunction
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes
from ckwatch.model.kernel_problem import KernelProblem

Arrays = Mapping[str, npt.NDArray[Any]]
Kernel = Callable[["FakeEmulator", Arrays, Mapping[str, int]], int]
"""Gets the device, the buffers' elements as f32, and the sizes; returns the function's status."""


@dataclass
class FakeEmulator:
    """`told` is what launches find; `error` is raised by them; `settings` are those of each, `computed` are its
    workgroups. `samples` are those that were asked for, `needs_whole` is what they end with; then all are computed.
    `watched` are the offsets of places in their allocations."""

    told: list[Mapping[str, Any]] = field(default_factory=list)
    error: BenchmarkError | None = None
    settings: list[dict[str, Any]] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    workspace_bytes: int = 0
    computed: tuple[int, int] = (1, 1)
    cost: int = 0
    needs_whole: str = ""
    samples: list[int] = field(default_factory=list)
    watched: list[int] = field(default_factory=list)
    unloadable: str = ""

    def __post_init__(self) -> None:
        self.is_sampling = False
        self._memory: dict[int, tuple[Bytes, npt.NDArray[np.bool_]]] = {}

    def allocate(self, size_bytes: int) -> int:
        memory = np.zeros(size_bytes + 256, np.uint8)
        start = -memory.ctypes.data % 256
        self._memory[memory.ctypes.data + start] = (memory, np.zeros(size_bytes, np.bool_))
        return int(memory.ctypes.data + start)

    reserve = allocate

    def free(self, address: int) -> None:
        del self._memory[address]

    def _undefined(self, address: int, size_bytes: int) -> npt.NDArray[np.bool_]:
        base = max(known for known in self._memory if known <= address)
        undefined = self._memory[base][1]
        assert address - base + size_bytes <= undefined.size
        return undefined[address - base : address - base + size_bytes]

    def upload(self, address: int, data: Bytes) -> None:
        self._undefined(address, data.nbytes)[:] = False
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def download(self, address: int, data: Bytes) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def mark_undefined(self, address: int, size_bytes: int) -> None:
        self._undefined(address, size_bytes)[:] = True

    def undefined(self, address: int, size_bytes: int) -> npt.NDArray[np.bool_]:
        return self._undefined(address, size_bytes).copy()

    def wrote(self, address: int, size_bytes: int) -> None:
        """Mark what a kernel writes as defined."""
        self._undefined(address, size_bytes)[:] = False

    def executed(self) -> int:
        return 0

    def configure(self, **settings: Any) -> None:
        self.is_sampling = False
        self.settings.append(settings)

    def synchronize(self) -> None:
        if self.error is not None:
            raise self.error

    def workgroups(self) -> tuple[int, int]:
        computed, of = self.computed
        return (computed if self.settings[-1]["workgroups"] or self.is_sampling else of), of

    def whole_cost(self) -> int:
        return self.cost

    def begin_sample(self, workgroups: int, _seed: int) -> None:
        self.samples.append(workgroups)
        self.is_sampling = True

    def end_sample(self) -> str:
        return self.needs_whole

    def sampled(self, address: int, size_bytes: int) -> npt.NDArray[np.bool_]:
        return ~self.undefined(address, size_bytes)

    def watch(self, address: int, size_bytes: int) -> None:
        if size_bytes:
            base = max(known for known in self._memory if known <= address)
            self.watched.append(address - base)

    def problem(self) -> str:
        return self.unloadable

    def findings(self) -> list[Mapping[str, Any]]:
        return self.told

    def clear(self) -> None:
        pass

    @property
    def is_empty(self) -> bool:
        """Return True if everything was given back."""
        return not self._memory


@dataclass
class FakeLoader:
    """An `ArtifactLoader` whose only artifact is `kernel`."""

    device: FakeEmulator
    kernel: Kernel
    explain: Explain = lambda _: ""

    def function(self, name: str, _artifact: bytes, symbol: str, problem: KernelProblem) -> KernelFunction:
        count = len(problem.arguments)

        def call(*arguments: Any) -> int:
            *values, size, _workspace, _stream = arguments
            if size:
                ctypes.c_size_t.from_address(size).value = self.device.workspace_bytes
                return 0
            told = dict(zip((argument.name for argument in problem.arguments), values, strict=True))
            arrays = {}
            for buffer in problem.buffers:
                address = told[buffer.name]
                self.device.addresses.append(address)
                memory = (ctypes.c_float * buffer.elements).from_address(address)
                arrays[buffer.name] = np.ctypeslib.as_array(memory)
            sizes = {name: value for name, value in told.items() if name not in arrays}
            return self.kernel(self.device, arrays, sizes)

        types = [ctypes.c_void_p if one.buffer is not None else ctypes.c_int32 for one in problem.arguments]
        assert len(types) == count
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *types, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return KernelFunction(name, symbol, prototype(call), problem, self.explain)
