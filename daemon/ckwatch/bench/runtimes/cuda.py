"""NVIDIA GPUs (`cuda:N`) through cuda-bindings: the driver API, on the primary context that CUDA's runtime uses."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

from ckwatch.bench.report import DeviceReading, FailureKind
from ckwatch.bench.runtimes.blas import blas_gemm
from ckwatch.bench.runtimes.cuda_api import binding, call, start, status
from ckwatch.bench.runtimes.cuda_blas import CuBlas
from ckwatch.bench.runtimes.cuda_blas import load as load_cublas
from ckwatch.bench.runtimes.cuda_monitor import NvmlReadings
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes, DeviceEvent, Launch, version_of
from ckwatch.bench.runtimes.stream_gate import StreamGate
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem

_KILO = 1e-3
_US_PER_MS = 1e3


def find() -> tuple[DeviceFacts, ...]:
    """The devices, the best first. BenchmarkError (NO_DRIVER) when CUDA cannot be asked."""
    try:
        version = start()
    except BenchmarkError as failed:
        if failed.kind is FailureKind.NO_DEVICE:
            return ()
        raise
    found = [_facts(ordinal, version) for ordinal in range(int(call("cuDeviceGetCount")))]
    return tuple(sorted(found, key=lambda one: (-_capability(one.arch), -one.compute_units, one.name)))


def open(device: DeviceFacts, *, gate: bool = True, stream: int | None = None) -> CudaRuntime:  # noqa: A001  # as each
    """Open a device that `find` has found. `gate` False: without holding the stream back. `stream`: an existing
    stream to use instead of creating one. Raises BenchmarkError."""
    return CudaRuntime(device, gate=gate, stream=stream)


class CudaRuntime:
    """An NVIDIA device with a stream; see `DeviceRuntime`."""

    def __init__(self, device: DeviceFacts, *, gate: bool, stream: int | None) -> None:
        self.facts = device
        self._version = start()
        ordinal = _ordinal_of(device)
        self._device = call("cuDeviceGet", ordinal)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._memory: dict[int, int] = {}
        self._events: list[Any] = []
        self._blas: CuBlas | None = None
        call("cuCtxSetCurrent", self._context)
        self._own_stream = stream is None
        flags = binding().CUstream_flags.CU_STREAM_NON_BLOCKING
        self._stream: Any = call("cuStreamCreate", flags) if stream is None else binding().CUstream(stream)
        self._gate = StreamGate(CudaSignal.make if gate else None)
        self._readings = NvmlReadings(device.pci or "")

    @property
    def stream(self) -> int:
        """The handle of the stream, a `cudaStream_t`."""
        return int(self._stream)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the driver, CUDA, the bindings, and how the stream is held back."""
        found = {
            "driver": self.facts.driver,
            "CUDA": self._version,
            "cuda-bindings": version_of("cuda-bindings"),
            "NVML": self._readings.version,
            "gate": self._gate.state,
        }
        if self._blas is not None:
            found["library"] = self._blas.name
        return found

    def loaded(self) -> None:
        """Nothing that an artifact brings along matters here."""

    def free_memory_bytes(self) -> int:
        return int(call("cuMemGetInfo")[0])

    def allocate(self, size_bytes: int) -> int:
        """Device memory, aligned to 256 bytes (`cuMemAlloc`)."""
        address = int(call("cuMemAlloc", max(size_bytes, 1)))
        self._memory[address] = size_bytes
        return address

    def free(self, address: int) -> None:
        if self._memory.pop(address, None) is not None:
            call("cuMemFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        if data.size:
            call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self._stream)
            self.synchronize()

    def download(self, address: int, data: Bytes) -> None:
        if data.size:
            call("cuMemcpyDtoHAsync", data.ctypes.data, address, data.nbytes, self._stream)
            self.synchronize()

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        if size_bytes:
            call("cuMemsetD8Async", address, value, size_bytes, self._stream)

    def event(self) -> DeviceEvent:
        self._events.append(call("cuEventCreate", binding().CUevent_flags.CU_EVENT_DEFAULT))
        return cast("DeviceEvent", self._events[-1])

    def record(self, event: DeviceEvent) -> None:
        call("cuEventRecord", event, self._stream)

    def elapsed_us(self, begin: DeviceEvent, end: DeviceEvent) -> float:
        return float(call("cuEventElapsedTime", begin, end)) * _US_PER_MS

    def wait(self, event: DeviceEvent) -> None:
        call("cuEventSynchronize", event)

    def synchronize(self) -> None:
        call("cuStreamSynchronize", self._stream)

    def gate(self) -> AbstractContextManager[None]:
        return self._gate.closed(self.stream)

    def reading(self) -> DeviceReading:
        return self._readings.read()

    def others(self) -> tuple[str, ...]:
        return self._readings.others()

    def library(self, problem: KernelProblem, addresses: Mapping[str, int]) -> Launch | None:
        """cuBLAS's GEMM; None without cuBLAS, or where it has none."""
        gemm = blas_gemm(problem)
        if gemm is None:
            return None
        if self._blas is None:
            if (library := load_cublas()) is None:
                return None
            self._blas = CuBlas(library, self.stream)
        launch = self._blas.launch(gemm, addresses)
        self.synchronize()
        return launch

    @property
    def library_name(self) -> str:
        """cuBLAS with its version, once it was asked for a GEMM."""
        return "cuBLAS" if self._blas is None else self._blas.name

    def close(self) -> None:
        """Give everything back; what cannot be given back any more goes with the process."""
        if self._context is None:
            return
        status("cuCtxSetCurrent", self._context)
        status("cuStreamSynchronize", self._stream)
        if self._blas is not None:
            self._blas.close()
            self._blas = None
        for event in self._events:
            status("cuEventDestroy", event)
        self._events.clear()
        for address in self._memory:
            status("cuMemFree", address)
        self._memory.clear()
        self._gate.close()
        if self._own_stream:
            status("cuStreamDestroy", self._stream)
        self._readings.close()
        status("cuDevicePrimaryCtxRelease", self._device)
        self._context = None


def _facts(ordinal: int, version: str) -> DeviceFacts:
    device = call("cuDeviceGet", ordinal)
    attributes = binding().CUdevice_attribute

    def attribute(name: str) -> int:
        answer, value = status("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), device)
        return int(value[0]) if answer == "CUDA_SUCCESS" else 0

    pci = _pci(call("cuDeviceGetPCIBusId", 32, device))
    readings = NvmlReadings(pci)
    clock_mhz, memory_clock_mhz = readings.highest_clocks_mhz()
    driver = readings.version if readings.are_there else ""
    readings.close()
    return DeviceFacts(
        name=f"cuda:{ordinal}",
        description=_text(call("cuDeviceGetName", 256, device)),
        arch=f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}",
        pci=pci,
        total_memory_bytes=int(call("cuDeviceTotalMem", device)),
        last_level_cache_bytes=attribute("L2_CACHE_SIZE"),
        local_memory_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        compute_units=attribute("MULTIPROCESSOR_COUNT"),
        clock_mhz=clock_mhz or attribute("CLOCK_RATE") * _KILO,
        memory_clock_mhz=memory_clock_mhz or attribute("MEMORY_CLOCK_RATE") * _KILO,
        driver=driver or f"for CUDA {version}",
        runtime=f"CUDA {version}",
    )


def _ordinal_of(device: DeviceFacts) -> int:
    """CUDA's number of the device now: found by its PCI address. BenchmarkError (NO_DEVICE) when it is not there."""
    if device.pci is None:
        return int(device.name.partition(":")[2])
    for ordinal in range(int(call("cuDeviceGetCount"))):
        if _pci(call("cuDeviceGetPCIBusId", 32, call("cuDeviceGet", ordinal))) == device.pci:
            return ordinal
    raise BenchmarkError(FailureKind.NO_DEVICE, f"there is no device at {device.pci} any more")


def _pci(value: Any) -> str:
    """`0000:c1:00.0`: CUDA's address in the kernel's spelling (lower case, a domain of four digits)."""
    return _text(value).lower()[-12:]


def _capability(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)


def _text(value: Any) -> str:
    raw = bytes(value) if not isinstance(value, str) else value.encode()
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


_GATE_BYTES = 8


class CudaSignal:
    """Host memory that the device sees; see `stream_gate.GateSignal`."""

    call = "cuStreamWaitValue32"
    name = "cuStreamWaitValue32 on host memory"
    shows_wait = True

    def __init__(self, memory: Any, device_address: Any) -> None:
        self.number = ctypes.c_uint32.from_address(int(memory))
        self._memory = memory
        self._device_address = device_address

    @classmethod
    def make(cls) -> CudaSignal | str:
        """The signal, or why there is none."""
        cuda = binding()
        flags = cuda.CU_MEMHOSTALLOC_DEVICEMAP | cuda.CU_MEMHOSTALLOC_PORTABLE
        answer, memory = status("cuMemHostAlloc", _GATE_BYTES, flags)
        if answer == "CUDA_SUCCESS":
            answer, address = status("cuMemHostGetDevicePointer", memory[0], 0)
            if answer == "CUDA_SUCCESS":
                return cls(memory[0], address[0])
            status("cuMemFreeHost", memory[0])
        return f"no memory that host and device both see ({answer})"

    def put_wait(self, stream: int, number: int) -> None:
        geq = binding().CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        call(self.call, stream, self._device_address, number, geq)

    def new_stream(self) -> int:
        return int(call("cuStreamCreate", binding().CUstream_flags.CU_STREAM_NON_BLOCKING))

    def is_busy(self, stream: int) -> bool:
        return status("cuStreamQuery", stream)[0] == "CUDA_ERROR_NOT_READY"

    def destroy_stream(self, stream: int) -> None:
        status("cuStreamDestroy", stream)

    def free(self) -> None:
        status("cuMemFreeHost", self._memory)
