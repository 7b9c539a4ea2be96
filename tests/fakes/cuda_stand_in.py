"""A stand-in for cuda-bindings' driver module, for machines without an NVIDIA GPU: host memory, streams that keep their
work until somebody waits for them, and a clock that only kernels move. No figure from it is a timing.

`failures` makes functions fail: `{"cuMemAlloc": "CUDA_ERROR_OUT_OF_MEMORY"}`. `launch` puts a kernel on a stream.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

DESCRIPTION = "stand-in"
PCI = "0000:c1:00.0"

_ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "L2_CACHE_SIZE": 4096,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
}


@dataclass
class Stream:
    """Work that has not been done: (what it waits for, what it does)."""

    work: deque[tuple[Callable[[], bool] | None, Callable[[], None]]] = field(default_factory=deque)

    def run(self) -> bool:
        """Do what can be done; whether nothing is left."""
        while self.work:
            waits, does = self.work[0]
            if waits is not None and not waits():
                return False
            self.work.popleft()
            does()
        return True


@dataclass(eq=False)
class Event:
    """When it was reached, and on which stream it was put last."""

    at_us: float | None = None
    stream: int = 0


class StandIn:
    """Takes the place of `cuda.bindings.driver`."""

    CU_MEMHOSTALLOC_PORTABLE = 1
    CU_MEMHOSTALLOC_DEVICEMAP = 2
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
    CUstreamWaitValue_flags = SimpleNamespace(CU_STREAM_WAIT_VALUE_GEQ=0)
    CUdevice_attribute = SimpleNamespace(
        **{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in _ATTRIBUTES}  # the values are the stand-in's own
    )
    CUstream = int

    def __init__(self, devices: int = 1, version: int = 13000, memory_bytes: int = 1 << 20) -> None:
        self.failures: dict[str, str] = {}
        self.calls: list[str] = []
        self.memory: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.streams: dict[int, Stream] = {}
        self.events: set[Event] = set()
        self.contexts = 0
        self.now_us = 0.0
        self.fault = ""
        self.memory_bytes = memory_bytes
        self.modules: list[str] = []
        self.eager = False  # events are reached as soon as that can be, at the host's time
        self.cache_bytes = _ATTRIBUTES["L2_CACHE_SIZE"]
        self.cached_gbps, self.memory_gbps = 5000.0, 2000.0
        self._devices = devices
        self._version = version

    def launch(self, stream: int, duration_us: float, kernel: Callable[[], None] = lambda: None) -> None:
        """Put a kernel on a stream."""

        def run() -> None:
            kernel()
            self.now_us += duration_us

        self.streams[stream].work.append((None, run))

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        do = getattr(type(self), f"_{name}")

        def called(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            failure = self.failures.get(name)
            if failure is not None:
                return (SimpleNamespace(name=failure), None)
            answer = do(self, *arguments)
            if isinstance(answer, str) and answer.startswith("CUDA_ERROR"):
                return (SimpleNamespace(name=answer), None)
            results = answer if isinstance(answer, tuple) else () if answer is None else (answer,)
            return (SimpleNamespace(name="CUDA_SUCCESS"), *results)

        return called

    def _cuInit(self, _flags: int) -> str | None:
        return None if self._devices else "CUDA_ERROR_NO_DEVICE"

    def _cuDriverGetVersion(self) -> int:
        return self._version

    def _cuDeviceGetCount(self) -> int:
        return self._devices

    def _cuDeviceGet(self, ordinal: int) -> int:
        return ordinal

    def _cuDeviceGetName(self, length: int, _device: int) -> bytes:
        return DESCRIPTION.encode().ljust(length, b"\0")

    def _cuDeviceGetPCIBusId(self, length: int, device: int) -> bytes:
        return f"0000{PCI[:6].upper()}{device}{PCI[7:]}".encode().ljust(length, b"\0")

    def _cuDeviceTotalMem(self, _device: int) -> int:
        return self.memory_bytes

    def _cuDeviceGetAttribute(self, attribute: str, _device: int) -> int:
        return _ATTRIBUTES[attribute]

    def _cuDevicePrimaryCtxRetain(self, device: int) -> str:
        self.contexts += 1
        return f"context {device}"

    def _cuDevicePrimaryCtxRelease(self, _device: int) -> None:
        self.contexts -= 1

    def _cuCtxSetCurrent(self, _context: str) -> None:
        return None

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory_bytes - sum(len(one) for one in self.memory.values()), self.memory_bytes

    def _cuMemAlloc(self, size_bytes: int) -> int | str:
        if size_bytes > self._cuMemGetInfo()[0]:
            return "CUDA_ERROR_OUT_OF_MEMORY"
        return _allocated(self.memory, size_bytes)

    def _cuMemFree(self, address: int) -> None:
        del self.memory[address]

    def _cuMemHostAlloc(self, size_bytes: int, flags: int) -> int:
        assert flags == 3
        return _allocated(self.pinned, size_bytes)

    def _cuMemHostGetDevicePointer(self, address: int, _flags: int) -> int:
        return address

    def _cuMemFreeHost(self, address: int) -> None:
        del self.pinned[address]

    def _cuMemcpyHtoDAsync(self, to: int, source: int, size_bytes: int, stream: int) -> None:
        content = ctypes.string_at(source, size_bytes)
        self.streams[stream].work.append((None, lambda: _move(to, content)))

    def _cuMemcpyDtoHAsync(self, to: int, source: int, size_bytes: int, stream: int) -> None:
        self.streams[stream].work.append((None, lambda: _move(to, ctypes.string_at(source, size_bytes))))

    def _cuMemsetD8Async(self, to: int, value: int, size_bytes: int, stream: int) -> None:
        self.streams[stream].work.append((None, lambda: _move(to, bytes([value]) * size_bytes)))

    def _cuMemcpyDtoDAsync(self, to: int, source: int, size_bytes: int, stream: int) -> None:
        self.streams[stream].work.append((None, lambda: _move(to, ctypes.string_at(source, size_bytes))))

    def _cuStreamCreate(self, _flags: int) -> int:
        number = len(self.streams) + 1
        self.streams[number] = Stream()
        return number

    def _cuStreamDestroy(self, stream: int) -> None:
        del self.streams[stream]

    def _cuStreamQuery(self, stream: int) -> str | None:
        return None if self.streams[stream].run() else "CUDA_ERROR_NOT_READY"

    def _cuStreamSynchronize(self, stream: int) -> str | None:
        while not self.streams[stream].run():
            time.sleep(0.001)  # as a driver does that waits for somebody else
        return self.fault or None

    def _cuStreamWaitValue32(self, stream: int, address: int, value: int, _flags: int) -> None:
        seen = ctypes.c_uint32.from_address(address)
        self.streams[stream].work.append((lambda: seen.value >= value, lambda: None))

    def _cuEventCreate(self, _flags: int) -> Event:
        event = Event()
        self.events.add(event)
        return event

    def _cuEventDestroy(self, event: Event) -> None:
        self.events.discard(event)

    def _cuEventRecord(self, event: Event, stream: int) -> None:
        def reach() -> None:
            event.at_us = self.now_us + (time.perf_counter() * 1e6 if self.eager else 0.0)

        event.at_us, event.stream = None, stream
        self.streams[stream].work.append((None, reach))
        if self.eager:
            self.streams[stream].run()

    def _cuEventSynchronize(self, event: Event) -> str | None:
        while event.at_us is None and not self.streams[event.stream].run():
            time.sleep(0.001)
        return self.fault or None

    def _cuEventElapsedTime(self, begin: Event, end: Event) -> float | str:
        if begin.at_us is None or end.at_us is None:
            return "CUDA_ERROR_NOT_READY"
        return (end.at_us - begin.at_us) / 1e3

    def _cuModuleLoadData(self, address: int) -> str:
        text = ctypes.string_at(address).decode()
        self.modules.append(text)
        return text

    def _cuModuleGetFunction(self, module: str, name: bytes) -> str:
        entry = f".visible .entry {name.decode()}("
        return name.decode() if entry in module else "CUDA_ERROR_NOT_FOUND"

    def _cuLaunchKernel(self, function: str, *arguments: Any) -> str | None:
        """The probe kernels of `ckwatch.bench.probes.cuda`, each as the test's device runs it."""
        *_, stream, places, extra = arguments
        assert extra == 0
        values = {
            "ckwatch_read": (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64),
            "ckwatch_spin": (ctypes.c_int64,),
            "ckwatch_fault": (ctypes.c_uint64,),
            "ckwatch_cycles": (ctypes.c_uint64,),
            "ckwatch_flush_instructions": (ctypes.c_float, ctypes.c_float, ctypes.c_uint64),
        }[function]
        pointers = (ctypes.c_void_p * len(values)).from_address(places)
        given = [kind.from_address(pointer or 0).value for kind, pointer in zip(values, pointers, strict=True)]
        if function == "ckwatch_fault":
            self.launch(stream, 1.0, self._break)
        elif function == "ckwatch_read":
            _, count, passes, _ = given
            size = 16 * int(count)
            gbps = self.cached_gbps if size <= self.cache_bytes else self.memory_gbps
            self.launch(stream, size * int(passes) / gbps / 1e3)
        elif function == "ckwatch_flush_instructions":
            self.launch(stream, 50.0)
        elif function == "ckwatch_cycles":
            at = int(given[0])
            self.launch(stream, 1.0, lambda: self._count(at))
        else:
            self.launch(stream, int(given[0]) / 2e3)
        return None

    def _break(self) -> None:
        self.fault = "CUDA_ERROR_ILLEGAL_ADDRESS"

    def _count(self, address: int) -> None:
        units = _ATTRIBUTES["MULTIPROCESSOR_COUNT"]
        counters = (ctypes.c_int64 * units).from_address(address)
        for unit in range(units):
            counters[unit] = 1 + unit + int(self.now_us * 2000)


def _allocated(into: dict[int, Any], size_bytes: int) -> int:
    whole = (ctypes.c_char * (size_bytes + 256))()
    memory = (ctypes.c_char * size_bytes).from_buffer(whole, -ctypes.addressof(whole) % 256)
    address = ctypes.addressof(memory)
    into[address] = memory
    return address


def _move(to: int, content: bytes) -> None:
    ctypes.memmove(to, content, len(content))
