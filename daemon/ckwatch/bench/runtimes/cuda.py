"""NVIDIA GPUs (`cuda:N`) through cuda-bindings: the driver API, on the primary context that CUDA's runtime uses."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.blas import blas_gemm
from ckwatch.bench.runtimes.cuda_api import CUDA, start
from ckwatch.bench.runtimes.cuda_blas import CuBlas
from ckwatch.bench.runtimes.cuda_blas import load as load_cublas
from ckwatch.bench.runtimes.cuda_monitor import NvmlReadings
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes, Launch, version_of
from ckwatch.bench.runtimes.gpu_runtime import GpuRuntime
from ckwatch.bench.runtimes.stream_gate import GateSignal
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem

_KILO = 1e-3


def find() -> tuple[DeviceFacts, ...]:
    """The devices, the best first. BenchmarkError (NO_DRIVER) when CUDA cannot be asked."""
    try:
        version = start()
    except BenchmarkError as failed:
        if failed.kind is FailureKind.NO_DEVICE:
            return ()
        raise
    found = [_facts(ordinal, version) for ordinal in range(int(CUDA.call("cuDeviceGetCount")))]
    return tuple(sorted(found, key=lambda one: (-_capability(one.arch), -one.compute_units, one.name)))


class CudaRuntime(GpuRuntime):
    """An NVIDIA device that `find` has found, opened. Raises BenchmarkError."""

    fill_function = "cuMemsetD8Async"
    copy_function = "cuMemcpyDtoDAsync"

    def __init__(self, device: DeviceFacts) -> None:
        self._version = start()
        self._blas: CuBlas | None = None
        context = CUDA.call("cuDevicePrimaryCtxRetain", CUDA.call("cuDeviceGet", _ordinal_of(device)))
        CUDA.call("cuCtxSetCurrent", context)
        super().__init__(device, CUDA, NvmlReadings(device.pci or ""), _gate_signal())

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

    def allocate(self, size_bytes: int) -> int:
        """Device memory, aligned to 256 bytes (`cuMemAlloc`)."""
        return int(CUDA.call("cuMemAlloc", max(size_bytes, 1)))

    def free(self, address: int) -> None:
        CUDA.call("cuMemFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        if data.size:
            CUDA.call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self._stream)
            self.synchronize()

    def download(self, address: int, data: Bytes) -> None:
        if data.size:
            CUDA.call("cuMemcpyDtoHAsync", data.ctypes.data, address, data.nbytes, self._stream)
            self.synchronize()

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


open = CudaRuntime  # noqa: A001  # the protocol's word


def _facts(ordinal: int, version: str) -> DeviceFacts:
    device = CUDA.call("cuDeviceGet", ordinal)
    attributes = CUDA.binding.CUdevice_attribute

    def attribute(name: str) -> int:
        answer, value = CUDA.status("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), device)
        return int(value[0]) if answer == CUDA.success else 0

    pci = _pci(CUDA.call("cuDeviceGetPCIBusId", 32, device))
    readings = NvmlReadings(pci)
    clock_mhz, memory_clock_mhz = readings.highest_clocks_mhz()
    driver = readings.version if readings.are_there else ""
    return DeviceFacts(
        name=f"cuda:{ordinal}",
        description=_text(CUDA.call("cuDeviceGetName", 256, device)),
        arch=f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}",
        pci=pci,
        total_memory_bytes=int(CUDA.call("cuDeviceTotalMem", device)),
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
    for ordinal in range(int(CUDA.call("cuDeviceGetCount"))):
        if _pci(CUDA.call("cuDeviceGetPCIBusId", 32, CUDA.call("cuDeviceGet", ordinal))) == device.pci:
            return ordinal
    raise BenchmarkError(FailureKind.NO_DEVICE, f"the device at {device.pci} is gone")


def _pci(value: Any) -> str:
    """`0000:c1:00.0`: CUDA's address in the kernel's spelling (lower case, a domain of four digits)."""
    return _text(value).lower()[-12:]


def _capability(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)


def _text(value: Any) -> str:
    raw = bytes(value) if not isinstance(value, str) else value.encode()
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


_GATE_BYTES = 8


def _gate_signal() -> GateSignal | str:
    """Host memory that the device sees, or why there is none."""
    cuda = CUDA.binding
    flags = cuda.CU_MEMHOSTALLOC_DEVICEMAP | cuda.CU_MEMHOSTALLOC_PORTABLE
    answer, memory = CUDA.status("cuMemHostAlloc", _GATE_BYTES, flags)
    if answer == CUDA.success:
        answer, address = CUDA.status("cuMemHostGetDevicePointer", memory[0], 0)
        if answer == CUDA.success:
            number = ctypes.c_uint32.from_address(int(memory[0]))
            geq = cuda.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
            return GateSignal(CUDA, "host memory", number, address[0], (geq,), shows_wait=True)
    return f"no memory that host and device both see ({answer})"
