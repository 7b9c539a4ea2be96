"""The CUDA runtime on a stand-in for the driver (`cuda_stand_in`): what it asks of it and what it makes of its answers."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benches.bench_kernels import gemm_of
from ckwatch.bench.report import DeviceReading, FailureKind
from ckwatch.bench.runtimes import cuda, cuda_api, cuda_blas, cuda_monitor
from ckwatch.bench.runtimes.blas import blas_gemm
from ckwatch.bench.runtimes.cuda_api import CUDA
from ckwatch.bench.runtimes.cuda_blas import CuBlas
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime
from ckwatch.bench.runtimes.stream_gate import GIVEN_UP
from ckwatch.model.kernel_problem import Buffer, KernelProblem, TensorView
from fakes.cuda_stand_in import PCI, StandIn


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return install(monkeypatch, StandIn())


def install(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> StandIn:
    monkeypatch.setitem(vars(CUDA), "binding", stand_in)
    monkeypatch.setattr(cuda, "NvmlReadings", lambda _pci: Nothing())
    return stand_in


class Nothing:
    """NVML is not there."""

    version = "none: a stand-in"
    are_there = False

    def read(self) -> DeviceReading:
        return DeviceReading()

    def highest_clocks_mhz(self) -> tuple[float, float]:
        return 0.0, 0.0

    def others(self) -> tuple[str, ...]:
        return ()


@pytest.fixture
def runtime(driver: StandIn) -> DeviceRuntime:
    (device,) = cuda.find()
    return cuda.open(device)


def test_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, StandIn(devices=2))
    first, second = cuda.find()
    assert (first.name, first.pci, second.name) == ("cuda:0", "0000:c0:00.0", "cuda:1")
    assert first.kind == "cuda"
    assert (first.arch, first.compute_units, first.last_level_cache_bytes) == ("sm_90", 132, 4096)
    assert (first.clock_mhz, first.memory_clock_mhz) == (1980.0, 3201.0)
    assert (first.driver, first.runtime, first.description) == ("for CUDA 13.0", "CUDA 13.0", "stand-in")


def test_no_device_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, StandIn(devices=0))
    assert cuda.find() == ()


@pytest.mark.parametrize(
    ("stand_in", "failures", "message"),
    [
        (StandIn(version=11080), {}, "is one for CUDA 11.8, which is too old"),
        (StandIn(), {"cuInit": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, "do not fit each other"),
        (StandIn(), {"cuInit": "CUDA_ERROR_STUB_LIBRARY"}, "is a stub for linking"),
    ],
)
def test_no_driver(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn, failures: dict[str, str], message: str) -> None:
    install(monkeypatch, stand_in).failures = failures
    with pytest.raises(BenchmarkError) as caught:
        cuda.find()
    assert caught.value.kind is FailureKind.NO_DRIVER
    assert message in caught.value.message


def test_the_real_binding_without_a_driver() -> None:
    pytest.importorskip("cuda.bindings.driver")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(BenchmarkError, match=r"libcuda\.so\.1, cannot be used") as caught:
            cuda.find()
        assert caught.value.kind is FailureKind.NO_DRIVER
    else:
        pytest.skip("this machine has a driver")


def test_the_device_is_that_of_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, StandIn(devices=2))
    second = cuda.find()[1]
    moved = replace(second, name="cuda:0")
    opened = cuda.open(moved)
    assert opened.facts.pci == PCI
    with pytest.raises(BenchmarkError, match=r"device at 0000:ff:00\.0 is gone") as caught:
        cuda.open(replace(second, pci="0000:ff:00.0"))
    assert caught.value.kind is FailureKind.NO_DEVICE


def test_memory(runtime: DeviceRuntime, driver: StandIn) -> None:
    before = runtime.free_memory_bytes()
    address = runtime.allocate(256)
    data = np.arange(256, dtype=np.uint8)
    runtime.upload(address, data)
    found = np.zeros_like(data)
    runtime.download(address, found)
    np.testing.assert_array_equal(found, data)
    runtime.fill(address, 0xFF, 16)
    runtime.download(address, found)
    assert found[:17].tolist() == [255] * 16 + [16]
    assert runtime.free_memory_bytes() == before - 256
    with pytest.raises(BenchmarkError) as caught:
        runtime.allocate(1 << 30)
    assert caught.value.kind is FailureKind.NO_MEMORY
    assert "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY" in caught.value.message
    runtime.free(address)
    assert driver.memory == {}


def test_times(runtime: DeviceRuntime, driver: StandIn) -> None:
    begin, end = runtime.event(), runtime.event()
    runtime.record(begin)
    driver.launch(runtime.stream, 12.5)
    runtime.record(end)
    runtime.synchronize()
    assert runtime.elapsed_us(begin, end) == pytest.approx(12.5)


def test_a_gate_holds_the_stream_back(runtime: DeviceRuntime, driver: StandIn) -> None:
    ran: list[str] = []
    with runtime.gate():
        driver.launch(runtime.stream, 1, lambda: ran.append("kernel"))
        assert driver.cuStreamQuery(runtime.stream)[0].name == "CUDA_ERROR_NOT_READY"
        assert ran == []
    runtime.synchronize()
    assert ran == ["kernel"]
    assert runtime.versions["gate"] == "cuStreamWaitValue32 on host memory"


def test_a_host_that_waits_behind_the_gate_is_let_go(
    runtime: DeviceRuntime, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(runtime, cuda.CudaRuntime)
    monkeypatch.setattr(runtime._gate, "_patience_s", 0.02)
    ran: list[str] = []
    for number in range(GIVEN_UP):
        assert runtime.versions["gate"].startswith("cuStreamWaitValue32"), number
        with runtime.gate():
            driver.launch(runtime.stream, 1, lambda: ran.append("kernel"))
            runtime.synchronize()
            assert len(ran) == number + 1
    assert runtime.versions["gate"].startswith("given up")
    with runtime.gate():
        driver.launch(runtime.stream, 1, lambda: ran.append("kernel"))
        assert driver.cuStreamQuery(runtime.stream)[0].name == "CUDA_SUCCESS"


def test_a_gate_is_opened_when_its_block_fails(runtime: DeviceRuntime, driver: StandIn) -> None:
    def fails() -> None:
        with runtime.gate():
            driver.launch(runtime.stream, 1)
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        fails()
    runtime.synchronize()


@pytest.mark.parametrize(
    ("function", "error", "state"),
    [
        ("cuStreamWaitValue32", "CUDA_ERROR_NOT_SUPPORTED", "none: cuStreamWaitValue32 is refused"),
        ("cuMemHostAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "none: no memory that host and device both see"),
        ("cuMemHostGetDevicePointer", "CUDA_ERROR_INVALID_VALUE", "none: no memory that host and device both see"),
    ],
)
def test_a_device_without_gates(driver: StandIn, function: str, error: str, state: str) -> None:
    driver.failures = {function: error}
    opened = cuda.open(cuda.find()[0])
    assert opened.versions["gate"].startswith(state)
    with opened.gate():
        driver.launch(opened.stream, 1)
        assert driver.cuStreamQuery(opened.stream)[0].name == "CUDA_SUCCESS"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", FailureKind.FAULT),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", FailureKind.FAULT),
        ("CUDA_ERROR_ASSERT", FailureKind.FAULT),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", FailureKind.HUNG),
        ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", FailureKind.LOCAL_MEMORY),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", FailureKind.WRONG_ARCH),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", FailureKind.LOST),
        ("CUDA_ERROR_INVALID_VALUE", FailureKind.BROKEN),
    ],
)
def test_a_kernel_that_fails(runtime: DeviceRuntime, driver: StandIn, error: str, kind: FailureKind) -> None:
    driver.fault = error
    with pytest.raises(BenchmarkError) as caught:
        runtime.synchronize()
    assert (caught.value.kind, error in caught.value.message) == (kind, True)
    driver.fault = ""


def test_every_named_error_is_one_of_the_binding() -> None:
    real = pytest.importorskip("cuda.bindings.driver")
    assert set(cuda_api.ERRORS) <= {one.name for one in real.CUresult}


def test_readings() -> None:
    def refuses(_handle: str) -> int:
        raise RuntimeError("Not Supported")

    nvml = SimpleNamespace(
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetHandleByPciBusId=lambda pci: pci,
        nvmlDeviceGetClockInfo=lambda _handle, clock: {1: 1755, 2: 3201}[clock],
        nvmlDeviceGetMaxClockInfo=lambda _handle, clock: {1: 1980, 2: 3201}[clock],
        nvmlDeviceGetPowerUsage=lambda _handle: 690_500,
        nvmlDeviceGetTemperature=refuses,
        nvmlDeviceGetCurrentClocksEventReasons=lambda _handle: 0x24,
        nvmlDeviceGetComputeRunningProcesses=lambda _handle: [SimpleNamespace(pid=1), SimpleNamespace(pid=os.getpid())],
    )
    readings = cuda_monitor.NvmlReadings(PCI, lambda _name: nvml)
    assert readings.version == "580.1"
    assert readings.read() == DeviceReading(
        clock_mhz=1755.0,
        memory_clock_mhz=3201.0,
        power_w=690.5,
        temperature_c=None,
        throttled_by=("power", "temperature"),
    )
    assert readings.highest_clocks_mhz() == (1980.0, 3201.0)
    assert [one.partition(" ")[0] for one in readings.others()] == ["1"]


def test_without_nvml() -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name)

    readings = cuda_monitor.NvmlReadings(PCI, absent)
    assert (readings.version, readings.are_there) == ("none: nvidia-ml-py is not installed", False)
    assert (readings.read(), readings.others()) == (DeviceReading(), ())


class BlasStandIn:
    """cuBLAS by numpy, on host memory; column-major as cuBLAS is."""

    def __init__(self, refusal: int = 0) -> None:
        self.refusal = refusal
        self.calls = 0

    def cublasCreate_v2(self, handle: Any) -> int:
        handle._obj.value = 1
        return 0

    def cublasSetStream_v2(self, _handle: Any, _stream: Any) -> int:
        return 0

    def cublasGetVersion_v2(self, _handle: Any, version: Any) -> int:
        version._obj.value = 130_100
        return 0

    def cublasDestroy_v2(self, _handle: Any) -> int:
        return 0

    def cublasGemmEx(self, _handle: Any, *arguments: Any) -> int:
        self.calls += 1
        if self.refusal:
            return self.refusal
        op_a, op_b, m, n, k = (one.value for one in arguments[:5])
        assert (arguments[5]._obj.value, arguments[12]._obj.value) == (1.0, 0.0)
        (a, _, lda), (b, _, ldb), (c, _, ldc) = (
            tuple(one.value for one in arguments[at : at + 3]) for at in (6, 9, 13)
        )
        left = _columns(a, lda, *((k, m) if op_a else (m, k)))
        right = _columns(b, ldb, *((n, k) if op_b else (k, n)))
        product = (left.T if op_a else left) @ (right.T if op_b else right)
        _columns(c, ldc, m, n)[:] = product
        return 0


def _columns(address: int, leading: int, rows: int, columns: int) -> Any:
    elements = (columns - 1) * leading + rows
    flat = np.ctypeslib.as_array((ctypes.c_float * elements).from_address(address))
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (4, 4 * leading))


@pytest.mark.parametrize("x_row", [True, False])
@pytest.mark.parametrize("w_row", [True, False])
@pytest.mark.parametrize("y_row", [True, False])
def test_the_library_multiplies_any_layouts(*, x_row: bool, w_row: bool, y_row: bool) -> None:
    rows, columns, depth, gap = 5, 7, 3, 2
    arrays: dict[str, Any] = {}

    def view(name: str, sizes: tuple[int, int], *, row: bool) -> TensorView:
        leading = (sizes[1] if row else sizes[0]) + gap
        arrays[name] = np.random.default_rng(1).random(leading * (sizes[0] if row else sizes[1]), dtype=np.float32)
        return TensorView(buffer=name, sizes=sizes, strides=(leading, 1) if row else (1, leading))

    x = view("X", (rows, depth), row=x_row)
    w = view("W", (depth, columns), row=w_row)
    y = view("Y", (rows, columns), row=y_row)
    problem = KernelProblem(
        buffers=tuple(Buffer(name=name, dtype="f32", elements=array.size) for name, array in arrays.items()),
        views=(x, w, y),
        arguments=(),
        computed=gemm_of(x, w, y),
        flops=None,
        bytes_moved=0,
    )
    gemm = blas_gemm(problem)
    assert gemm is not None
    library: Any = BlasStandIn()
    blas = CuBlas(library, 0)
    assert blas.name == "cuBLAS 13.1.0"
    launch = blas.launch(gemm, {name: array.ctypes.data for name, array in arrays.items()})
    assert launch is not None
    launch()
    assert library.calls == 2

    def matrix(one: TensorView) -> Any:
        return np.lib.stride_tricks.as_strided(arrays[one.buffer], one.sizes, tuple(4 * step for step in one.strides))

    np.testing.assert_allclose(matrix(y), matrix(x) @ matrix(w), rtol=1e-6)
    other: Any = BlasStandIn(refusal=15)
    addresses = {name: array.ctypes.data for name, array in arrays.items()}
    assert CuBlas(other, 0).launch(gemm, addresses) is None
    failing: Any = BlasStandIn(refusal=13)
    with pytest.raises(BenchmarkError, match="cublasGemmEx failed with status 13"):
        CuBlas(failing, 0).launch(gemm, addresses)
    assert CuBlas(library, 0).launch(replace(gemm, a=replace(gemm.a, dtype="f8")), addresses) is None


def test_no_library_there(runtime: DeviceRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    view = TensorView(buffer="X", sizes=(1, 1), strides=(1, 1))
    problem = KernelProblem(
        buffers=(Buffer(name="X", dtype="f32", elements=1),),
        views=(view,),
        arguments=(),
        computed=gemm_of(view, view, view),
        flops=None,
        bytes_moved=0,
    )
    monkeypatch.setattr(cuda, "load_cublas", lambda: None)
    assert runtime.library(problem, {"X": 0}) is None
    assert runtime.library(replace(problem, computed=None), {"X": 0}) is None
    assert runtime.library_name == "cuBLAS"
    assert cuda_blas.NAMES[0] == "libcublas.so.13"
