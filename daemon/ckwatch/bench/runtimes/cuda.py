"""NVIDIA GPUs through cuda-bindings: CUDA's driver, and the primary context, which the kernels' CUDA runtime uses."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ckwatch.bench.runtimes.cuda_blas import CuBlas
from ckwatch.bench.runtimes.cuda_blas import load as load_cublas
from ckwatch.bench.runtimes.cuda_calls import binding, call, start, status
from ckwatch.bench.runtimes.cuda_gate import Gate
from ckwatch.bench.runtimes.hip_gemm import blas_gemm
from ckwatch.bench.runtimes.nvml_readings import Readings
from ckwatch.bench.runtimes.protocol import Bytes, Event, Launch, RuntimeFailure
from ckwatch.timing.problem import Problem
from ckwatch.timing.report import DeviceFacts, FailureKind, Reading

_KILO = 1e-3
_US_PER_MS = 1e3


def find() -> tuple[DeviceFacts, ...]:
    """The devices, the best first. RuntimeFailure (NO_DRIVER) when CUDA cannot be asked."""
    try:
        version = start()
    except RuntimeFailure as failed:
        if failed.kind is FailureKind.NO_DEVICE:
            return ()
        raise
    found = [_facts(ordinal, version) for ordinal in range(int(call("cuDeviceGetCount")))]
    return tuple(sorted(found, key=lambda one: (-_capability(one.arch), -one.compute_units, one.name)))


def open(device: DeviceFacts, *, gate: bool = True, stream: int | None = None) -> CudaRuntime:  # noqa: A001  # as each
    """Open a device that `find` has found. `gate` False: without holding the stream back. `stream`: one of somebody
    else's in place of an own one. RuntimeFailure."""
    return CudaRuntime(device, gate=gate, stream=stream)


class CudaRuntime:
    """An NVIDIA device with a stream; see `protocol.Runtime`."""

    def __init__(self, device: DeviceFacts, *, gate: bool, stream: int | None) -> None:
        self._facts = device
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
        self._gate = Gate(wanted=gate)
        self._readings = Readings(device.pci or "")

    @property
    def facts(self) -> DeviceFacts:
        """What `find` said of it."""
        return self._facts

    @property
    def stream(self) -> int:
        """The handle of the stream, a `cudaStream_t`."""
        return int(self._stream)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the driver, CUDA, the bindings, and how the stream is held back."""
        found = {
            "driver": self._facts.driver,
            "CUDA": self._version,
            "cuda-bindings": _version_of("cuda-bindings"),
            "NVML": self._readings.version,
            "gate": self._gate.state,
        }
        if self._blas is not None:
            found["library"] = self._blas.name
        return found

    def loaded(self) -> None:
        """Nothing that an artifact brings along matters here."""

    def free_memory_bytes(self) -> int:
        """Free bytes of device memory."""
        return int(call("cuMemGetInfo")[0])

    def allocate(self, size_bytes: int) -> int:
        """Device memory, aligned to 256 bytes (`cuMemAlloc`)."""
        address = int(call("cuMemAlloc", max(size_bytes, 1)))
        self._memory[address] = size_bytes
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        if self._memory.pop(address, None) is not None:
            call("cuMemFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        """Copy to the device, after what is on the stream."""
        if data.size:
            call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self._stream)
            self.synchronize()

    def download(self, address: int, data: Bytes) -> None:
        """Fill `data` from the device, after everything on the stream has ended."""
        if data.size:
            call("cuMemcpyDtoHAsync", data.ctypes.data, address, data.nbytes, self._stream)
            self.synchronize()

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """Set each byte, on the stream."""
        if size_bytes:
            call("cuMemsetD8Async", address, value, size_bytes, self._stream)

    def event(self) -> Event:
        """An event that keeps the time."""
        event = call("cuEventCreate", binding().CUevent_flags.CU_EVENT_DEFAULT)
        self._events.append(event)
        found: Event = event
        return found

    def record(self, event: Event) -> None:
        """Put an event on the stream."""
        call("cuEventRecord", event, self._stream)

    def elapsed_us(self, begin: Event, end: Event) -> float:
        """Microseconds between two events that have been reached."""
        return float(call("cuEventElapsedTime", begin, end)) * _US_PER_MS

    def wait(self, event: Event) -> None:
        """Wait for what was put on the stream before the event."""
        call("cuEventSynchronize", event)

    def synchronize(self) -> None:
        """Wait for the stream."""
        call("cuStreamSynchronize", self._stream)

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Hold back what is put on the stream until the block ends; see `cuda_gate`."""
        with self._gate.closed(self.stream):
            yield

    def reading(self) -> Reading:
        """Clocks, power, temperature and throttling by NVML."""
        return self._readings.read()

    def others(self) -> tuple[str, ...]:
        """Other processes that compute on the device, by NVML."""
        return self._readings.others()

    def library(self, problem: Problem, addresses: Mapping[str, int]) -> Launch | None:
        """cuBLAS's GEMM; None without cuBLAS, or where it has none."""
        gemm = blas_gemm(problem)
        if gemm is None:
            return None
        if self._blas is None:
            library = load_cublas()
            if library is None:
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
    readings = Readings(pci)
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
    """CUDA's number of the device now: its PCI address tells. RuntimeFailure (NO_DEVICE) when it is not there."""
    if device.pci is None:
        return int(device.name.partition(":")[2])
    for ordinal in range(int(call("cuDeviceGetCount"))):
        if _pci(call("cuDeviceGetPCIBusId", 32, call("cuDeviceGet", ordinal))) == device.pci:
            return ordinal
    raise RuntimeFailure(FailureKind.NO_DEVICE, f"there is no device at {device.pci} any more")


def _pci(value: Any) -> str:
    """`0000:c1:00.0`: CUDA's address in the kernel's spelling (lower case, a domain of four digits)."""
    return _text(value).lower()[-12:]


def _capability(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)


def _text(value: Any) -> str:
    raw = bytes(value) if not isinstance(value, str) else value.encode()
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"
