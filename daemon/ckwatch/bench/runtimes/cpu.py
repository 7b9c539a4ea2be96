"""The host's processors as a device, for C++ templates and for machines without a GPU.

Its stream is the calling thread: a launch returns when the kernel has ended, and an event is a reading of the monotonic
clock. Caches are flushed by one thread on each processor, because only a core can empty its private cache, and
with ordinary stores: those of a large memset bypass the cache.
"""

from __future__ import annotations

import ctypes
import os
import platform
import queue
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ckwatch.bench.report import DeviceReading, FailureKind
from ckwatch.bench.runtimes import processors
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes, DeviceEvent, Launch
from ckwatch.model.contractions import MatrixView
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem

ARCH = "host"
"""`ckwatch.model.targets.HOST`."""

_ALIGNMENT = 4096
OTHER_PROCESSES = "other processes"
"""The reason for a slow reading when other processes use the processors."""

_NEIGHBOUR_LIMIT = 0.05
"""Of the processors' time: what others use beyond it is reported."""

_LIBRARY_DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


def find() -> tuple[DeviceFacts, ...]:
    """The one CPU that there is: the processors that this process may use."""
    return (_facts(processors.choose(None)),)


def open(device: DeviceFacts, *, threads: int | None = None, **_: Any) -> CpuRuntime:  # noqa: A001  # the protocol's name
    """The processors for `threads` threads. NO_DEVICE when there are not so many.

    `processors.occupy` should have been called for them before numpy was imported; it is called again here, so that
    affinity and what is loaded later are right in any case.
    """
    cpus = processors.choose(threads)
    if threads is not None and len(cpus) < threads:
        raise BenchmarkError(
            FailureKind.NO_DEVICE,
            f"{threads} threads are requested, and there are {len(cpus)} processors to run on",
            "Ask for fewer threads, or for none: then each core gets one.",
        )
    del device
    processors.occupy(cpus)
    return CpuRuntime(cpus)


class CpuRuntime:
    """`ckwatch.bench.runtimes.device_runtime.DeviceRuntime` on processors."""

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._cpus = cpus
        self.facts = _facts(cpus)
        """Its compute units are the processors that are used."""
        self.stream = 0
        self.library_name = f"numpy {np.__version__} ({_blas()})"
        self._clock = processors.clock_reader(cpus)
        self._throttled = processors.throttle_count(cpus)
        self._neighbours = processors.Neighbours(cpus)
        self._memory: dict[int, Bytes] = {}
        self._crew = _FlushThreads(cpus)

    @property
    def versions(self) -> dict[str, str]:
        """Of the operating system's kernel, the C library, numpy and its BLAS."""
        return {
            "linux": platform.release(),
            "libc": " ".join(platform.libc_ver()).strip(),
            "numpy": np.__version__,
            "blas": _blas(),
            "threads": str(len(self._cpus)),
            "processors": ",".join(map(str, self._cpus)),
        }

    def loaded(self) -> None:
        """Nothing that an artifact brings along matters here."""

    def free_memory_bytes(self) -> int:
        """Return the memory that is available without swapping."""
        return processors.memory()[1]

    def allocate(self, size_bytes: int) -> int:
        """Aligned to pages, each of which lies near a processor that uses it. NO_MEMORY when there is too little."""
        try:
            whole = np.empty(size_bytes + _ALIGNMENT, dtype=np.uint8)
        except (MemoryError, ValueError):
            raise BenchmarkError(FailureKind.NO_MEMORY, f"{size_bytes} bytes of memory cannot be had") from None
        offset = -whole.ctypes.data % _ALIGNMENT
        memory = whole[offset : offset + size_bytes]
        address = int(whole.ctypes.data + offset)
        self._memory[address] = memory
        self.fill(address, 0, size_bytes)
        return address

    def free(self, address: int) -> None:
        del self._memory[address]

    def upload(self, address: int, data: Bytes) -> None:
        ctypes.memmove(address, np.ascontiguousarray(data).ctypes.data, data.nbytes)

    def download(self, address: int, data: Bytes) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """In equal parts, each by the processor whose turn it is."""
        self._crew.fill(_array(address, size_bytes), value)

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    def event(self) -> DeviceEvent:
        """Nanoseconds of the monotonic clock."""
        return ctypes.c_longlong()

    def record(self, event: DeviceEvent) -> None:
        cast("ctypes.c_longlong", event).value = time.perf_counter_ns()

    def elapsed_us(self, begin: DeviceEvent, end: DeviceEvent) -> float:
        return (cast("ctypes.c_longlong", end).value - cast("ctypes.c_longlong", begin).value) * 1e-3

    def wait(self, event: DeviceEvent) -> None:
        """Nothing runs on after its launch."""

    def synchronize(self) -> None:
        """Nothing runs on after its launch."""

    def gate(self) -> AbstractContextManager[None]:
        """Nothing can be kept back."""
        return nullcontext()

    def reading(self) -> DeviceReading:
        """The lowest clock of the processors, their temperature, and what slows them down, where the system says."""
        before, self._throttled = self._throttled, processors.throttle_count(self._cpus)
        slowed = {
            "heat or power": self._throttled > before,
            OTHER_PROCESSES: self._neighbours.share() > _NEIGHBOUR_LIMIT,
        }
        return DeviceReading(
            clock_mhz=self._clock(),
            temperature_c=processors.temperature_c(),
            throttled_by=tuple(reason for reason, applies in slowed.items() if applies),
        )

    def others(self) -> tuple[str, ...]:
        """Nobody: a processor is never one's own."""
        return ()

    def library(self, problem: KernelProblem, addresses: dict[str, int]) -> Launch | None:
        """numpy's matmul, for f32 and f64 throughout."""
        gemm = problem.gemm
        if gemm is None or any(view.strides is None for view in (gemm.x, gemm.w, gemm.y)):
            return None
        dtypes = {problem.buffer(view.buffer).dtype for view in (gemm.x, gemm.w, gemm.y)}
        dtype = _LIBRARY_DTYPES.get(next(iter(dtypes)))
        if len(dtypes) > 1 or dtype is None:
            return None
        x, w, y = (_matrix(addresses[view.buffer], view, dtype) for view in (gemm.x, gemm.w, gemm.y))
        if y.strides[0] < y.strides[1]:  # numpy hands only row-major outputs to the BLAS
            x, w, y = w.T, x.T, y.T

        def run() -> None:
            np.matmul(x, w, out=y)

        return run


class _FlushThreads:
    """A thread on each processor that fills memory with ordinary stores."""

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._work: list[queue.SimpleQueue[tuple[Bytes, int]]] = [queue.SimpleQueue() for _ in cpus]
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        for cpu, work in zip(cpus, self._work, strict=True):
            threading.Thread(target=self._labour, args=(cpu, work), daemon=True, name=f"flush {cpu}").start()

    def fill(self, memory: Bytes, value: int) -> None:
        """Set all bytes; returns when that is done."""
        share = -(-memory.size // len(self._work) // 64) * 64
        if not share:
            return
        parts = [memory[at : at + share] for at in range(0, memory.size, share)]
        for part, work in zip(parts, self._work, strict=False):
            work.put((part, value))
        for _ in parts:
            self._done.get()

    def _labour(self, cpu: int, work: queue.SimpleQueue[tuple[Bytes, int]]) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while True:
            part, value = work.get()
            # In words, because numpy makes a memset of bytes.
            words = part.size // 8
            part[: words * 8].view(np.uint64)[...] = value * 0x0101010101010101
            part[words * 8 :] = value
            self._done.put(None)


def _facts(cpus: tuple[int, ...]) -> DeviceFacts:
    return DeviceFacts(
        name="cpu",
        description=processors.model_name(),
        arch=ARCH,
        total_memory_bytes=processors.memory()[0],
        last_level_cache_bytes=processors.last_level_cache_bytes(cpus),
        compute_units=len(cpus),
        clock_mhz=processors.highest_clock_mhz(cpus),
        driver=f"{platform.system()} {platform.release()}",
        runtime=" ".join(platform.libc_ver()).strip(),
    )


def _array(address: int, size_bytes: int) -> Bytes:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))


def _matrix(address: int, view: MatrixView, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    axes = (*view.rows, *view.columns)
    extent = 1 + sum((size - 1) * stride for size, stride in axes)
    flat = _array(address, extent * dtype.itemsize).view(dtype)
    strides = tuple(stride * dtype.itemsize for _, stride in axes)
    return np.lib.stride_tricks.as_strided(flat, shape=view.sizes, strides=strides)


def _blas() -> str:
    configuration: Any = np.show_config(mode="dicts")
    blas = configuration.get("Build Dependencies", {}).get("blas", {})
    return " ".join(str(blas[key]) for key in ("name", "version") if blas.get(key)) or "no BLAS known"
