"""A device that is none: host memory, and a clock that goes on by what the test says. No figure of it is a timing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ckwatch.bench.report import DeviceReading
from ckwatch.bench.runtimes.device_runtime import Bytes, DeviceEvent, Launch
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem

FACTS = DeviceFacts(
    name="fake:0",
    description="a fake for tests",
    arch="host",
    pci="0000:00:00.0",
    total_memory_bytes=1 << 34,
    last_level_cache_bytes=1 << 16,
)

FILL_US = 3.0
HOST_US = 1.0
"""Host time of each call."""


class Moment:
    """An event; None until it is recorded."""

    at_us: float | None = None


@dataclass
class FakeRuntime:
    """The stream is executed at once. `cost_us(cold)` is how long the next launch of an artifact takes.

    `log` has `gate`, `fill`, `begin`, `launch`, `end`, `open`, `reading`, `synchronize` as they happen.
    """

    facts: DeviceFacts = FACTS
    clock_mhz: Callable[[], float | None] = lambda: None
    cost_us: Callable[[bool], float] = lambda cold: 20.0 if cold else 10.0
    free_bytes: int = 1 << 33
    others_now: list[tuple[str, ...]] = field(default_factory=list)
    vendor: Callable[[], None] | None = None
    now_us: float = 0.0
    log: list[str] = field(default_factory=list)
    cold: bool = False
    gated: bool = False
    stream: int = 7

    def __post_init__(self) -> None:
        self._memory: dict[int, Bytes] = {}
        self._recorded = 0
        self.fills: list[int] = []

    @property
    def versions(self) -> dict[str, str]:
        return {"fake": "1"}

    @property
    def library_name(self) -> str:
        return "fake BLAS"

    def seconds(self) -> float:
        """The host's clock."""
        return self.now_us * 1e-6

    def loaded(self) -> None:
        pass

    def free_memory_bytes(self) -> int:
        return self.free_bytes

    def allocate(self, size_bytes: int) -> int:
        memory = np.zeros(size_bytes, dtype=np.uint8)
        self._memory[memory.ctypes.data] = memory
        return int(memory.ctypes.data)

    def free(self, address: int) -> None:
        del self._memory[address]

    def upload(self, address: int, data: Bytes) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def download(self, address: int, data: Bytes) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        ctypes.memset(address, value, size_bytes)
        self._note("fill", FILL_US)
        self.fills.append(size_bytes)
        self.cold = True

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        ctypes.memmove(target, source, size_bytes)
        self._note("copy", FILL_US)

    def event(self) -> DeviceEvent:
        return Moment()

    def record(self, event: DeviceEvent) -> None:
        assert isinstance(event, Moment)
        self._recorded += 1
        if self._recorded % 2:
            self._note("begin", 0)
            event.at_us = self.now_us
        else:
            self.now_us += self.cost_us(self.cold)
            event.at_us = self.now_us
            self.cold = False
            self._note("end", HOST_US)

    def elapsed_us(self, begin: DeviceEvent, end: DeviceEvent) -> float:
        assert isinstance(begin, Moment)
        assert isinstance(end, Moment)
        assert begin.at_us is not None
        assert end.at_us is not None
        assert self.log[-1] in ("wait", "synchronize"), "asked before the stream was waited for"
        return end.at_us - begin.at_us

    def wait(self, event: DeviceEvent) -> None:
        assert isinstance(event, Moment)
        assert event.at_us is not None
        assert not self.gated, "waits for itself"
        self._note("wait", HOST_US)

    def synchronize(self) -> None:
        assert not self.gated, "waits for itself"
        self._note("synchronize", HOST_US)

    @contextmanager
    def gate(self) -> Iterator[None]:
        assert not self.gated
        self._note("gate", HOST_US)
        self.gated = True
        try:
            yield
        finally:
            self.gated = False
            self._note("open", HOST_US)

    def reading(self) -> DeviceReading:
        self._note("reading", HOST_US)
        return DeviceReading(clock_mhz=self.clock_mhz())

    def others(self) -> tuple[str, ...]:
        return self.others_now.pop(0) if self.others_now else ()

    def library(self, problem: KernelProblem, addresses: dict[str, int]) -> Launch | None:  # noqa: ARG002  # the protocol's
        return self.vendor

    def close(self) -> None:
        self._memory.clear()

    def _note(self, what: str, cost_us: float) -> None:
        self.log.append(what)
        self.now_us += cost_us
