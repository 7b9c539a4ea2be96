"""Steps of the HIP runtime's tests in a process of their own, with the real hip-python on the stand-in.

`python hip_scenarios.py FUNCTION ARGUMENTS…`, arguments and the result as JSON. Nothing here forks.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benches.bench_kernels import gemm_of
from ckwatch.bench.runtimes import hip, hip_api
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.hip import HipRuntime
from ckwatch.model.kernel_problem import Buffer, KernelProblem, TensorView

SIZE = 4096


def find() -> Any:
    """The devices, or the failure."""
    return attempt(lambda: [asdict(device) for device in hip.find()])


def versions(which: int = 0) -> Any:
    """Of a device that was opened."""
    return hip.open(hip.find()[which]).versions


def find_without_binding() -> Any:
    """The failure where hip-python is not installed."""
    sys.modules["rocm.bindings.hip"] = None  # type: ignore[assignment]  # what makes an import fail
    return find()


def memory() -> Any:
    """Copies there and back, a fill on the stream between them, and what is free."""
    runtime = opened()
    before = runtime.free_memory_bytes()
    address = runtime.allocate(SIZE)
    there, back = np.arange(SIZE, dtype=np.uint32).astype(np.uint8), np.zeros(SIZE, dtype=np.uint8)
    runtime.upload(address, there)
    runtime.download(address, back)
    copied = bool((there == back).all())
    runtime.fill(address, 0x5A, SIZE // 2)
    runtime.download(address, back)
    filled = bool((back[: SIZE // 2] == 0x5A).all() and (back[SIZE // 2 :] == there[SIZE // 2 :]).all())
    used = before - runtime.free_memory_bytes()
    runtime.free(address)
    return {
        "aligned": address % 256 == 0,
        "copied": copied,
        "filled": filled,
        "used": used,
        "given back": runtime.free_memory_bytes() == before,
    }


def gated() -> Any:
    """Check that work on the stream waits for the end of a gate, and then happens in order."""
    runtime = opened()
    begin, end = runtime.event(), runtime.event()
    address = runtime.allocate(SIZE)
    runtime.fill(address, 1, SIZE)
    runtime.synchronize()
    within: list[bool] = []
    spans: list[float] = []
    for value in (2, 3):
        with runtime.gate():
            runtime.record(begin)
            runtime.fill(address, value, SIZE)
            runtime.record(end)
            pending = hip_api.HIP.status("hipEventElapsedTime", begin, end)[0] == "hipErrorNotReady"
            within.append(pending and peek(address) == value - 1)
        runtime.synchronize()
        spans.append(runtime.elapsed_us(begin, end))
    return {
        "nothing began": within,
        "then": peek(address),
        "ordered": all(span > 0 for span in spans),
        "gate": runtime.versions["gate"],
    }


def waiting_inside(times: int) -> Any:
    """The host waits for the stream inside of gates, which the watchdog opens; and how streams are gated after that."""
    runtime = opened()
    address = runtime.allocate(SIZE)
    inside = []
    for value in range(times):
        with runtime.gate():
            runtime.fill(address, value, SIZE)
            runtime.synchronize()
            inside.append(peek(address))
    return {"inside": inside, "gate": runtime.versions["gate"]}


def raising_inside() -> Any:
    """A gate whose block raises is opened."""
    runtime = opened()
    address = runtime.allocate(SIZE)
    try:
        with runtime.gate():
            runtime.fill(address, 4, SIZE)
            raise LookupError
    except LookupError:
        runtime.synchronize()
    return {"then": peek(address), "gate": runtime.versions["gate"]}


def without(*what: str) -> Any:
    """How the stream is gated and what events are when the stand-in lacks something, one after the other."""
    answers = {}
    for names in what:
        os.environ["HIP_STAND_IN_WITHOUT"] = names
        runtime = opened()
        begin, end = runtime.event(), runtime.event()
        with runtime.gate():
            runtime.record(begin)
            runtime.record(end)
        runtime.synchronize()
        answers[names] = [runtime.versions["gate"], runtime.versions["events"], runtime.elapsed_us(begin, end) >= 0]
    return answers


def never_opening() -> Any:
    """Opening the device fails, since a stream never goes on."""
    answer = attempt(lambda: hip.open(hip.find()[0]))
    print(json.dumps(answer), flush=True)
    os._exit(0)  # the stream's thread still waits


def not_there() -> Any:
    """A device that was there when they were looked for, and is not when it is opened."""
    first = hip.find()[-1]
    os.environ["HIP_STAND_IN_DEVICES"] = "1"
    return [first.name, attempt(lambda: hip.open(first))]


def failing(rows: list[tuple[str, str]]) -> Any:
    """For each call that fails (HIP_STAND_IN_FAIL) and each step of a runtime: the failure."""
    return [fail(calls, step) for calls, step in rows]


def fail(calls: str, step: str) -> Any:
    """Return the outcome of a step when these calls fail."""
    if step in ("find", "open"):
        reset(calls)
        answer = attempt({"find": hip.find, "open": lambda: hip.open(hip.find()[0])}[step])
        reset()
        return answer
    reset()
    runtime = hip.open(hip.find()[0])
    address, data = runtime.allocate(SIZE), np.zeros(SIZE, dtype=np.uint8)
    begin, end = runtime.event(), runtime.event()
    runtime.record(begin)
    runtime.record(end)
    runtime.synchronize()
    steps: dict[str, Callable[[], Any]] = {
        "allocate": lambda: runtime.allocate(SIZE),
        "free": lambda: runtime.free(address),
        "upload": lambda: runtime.upload(address, data),
        "download": lambda: runtime.download(address, data),
        "fill": lambda: runtime.fill(address, 0, SIZE),
        "event": runtime.event,
        "record": lambda: runtime.record(begin),
        "elapsed": lambda: runtime.elapsed_us(begin, end),
        "synchronize": runtime.synchronize,
        "memory": runtime.free_memory_bytes,
        "gate": lambda: runtime.gate().__enter__(),
    }
    reset(calls)
    answer = attempt(steps[step])
    reset()
    return answer


def trespassing(kernels: str) -> Any:
    """A kernel writes where nothing is, which the runtime tells when it is waited for."""
    runtime = opened()
    call = Call(runtime, kernels, "trespasses")
    call.launch()
    told = attempt(runtime.synchronize)
    again = attempt(lambda: runtime.allocate(SIZE))
    return [told, again]


def computing(kernels: str, symbol: str) -> Any:
    """A kernel of the ABI, launched on the runtime's stream within a gate; the largest error."""
    runtime = opened()
    call = Call(runtime, kernels, symbol)
    runtime.loaded()
    for _ in range(4):
        with runtime.gate():
            call.launch()
            call.launch()
        runtime.synchronize()
    return {"error": call.error(), "gate": runtime.versions["gate"]}


def another_hip(library: str) -> Any:
    """A second libamdhip64 in the process."""
    runtime = opened()
    runtime.loaded()
    ctypes.CDLL(library)
    return attempt(runtime.loaded)


def library(layouts: list[tuple[bool, bool, bool]], dtype: str) -> Any:
    """The vendor's GEMM for each layout (which of X, W, Y is row-major): its name and the largest error."""
    answers: list[float | None] = []
    runtime = opened()
    before = runtime.library_name
    for rows in layouts:
        problem, arrays = multiplication(*rows, dtype)
        addresses = {}
        for name, array in arrays.items():
            addresses[name] = runtime.allocate(array.nbytes)
            runtime.upload(addresses[name], array.view(np.uint8))
        launch = runtime.library(problem, addresses)
        if launch is None:
            answers.append(None)
            continue
        runtime.fill(addresses["Y"], 0xFF, arrays["Y"].nbytes)
        launch()
        runtime.download(addresses["Y"], arrays["Y"].view(np.uint8))
        x, w, y = (matrix(arrays[name], view(problem, name)) for name in "XWY")
        answers.append(float(np.abs(y - x @ w).max()))
    return {"before": before, "name": runtime.library_name, "errors": answers}


def readings(metrics: str, tables: list[dict[str, Any]]) -> Any:
    """Return the readings for these values of the firmware's table of metrics, one after the other."""
    os.environ["HIP_STAND_IN_METRICS"] = metrics
    write_metrics(Path(metrics), {})
    runtime = opened()
    answers = []
    for table in tables:
        write_metrics(Path(metrics), table)
        answers.append(asdict(runtime.reading()))
    Path(metrics).unlink()
    answers.append(asdict(runtime.reading()))
    return {"version": runtime.versions["amdsmi"], "readings": answers}


def write_metrics(path: Path, table: dict[str, Any]) -> None:
    """The content of amdsmi's structure; what the table does not name is unknown, which is all bits set."""
    wrapper: Any = __import__("amdsmi.amdsmi_wrapper", fromlist=["*"])
    metrics = wrapper.amdsmi_gpu_metrics_t()
    ctypes.memset(ctypes.byref(metrics), 0xFF, ctypes.sizeof(metrics))
    for name, value in table.items():
        if isinstance(value, list):
            for number, one in enumerate(value):
                getattr(metrics, name)[number] = one
        else:
            setattr(metrics, name, value)
    path.write_bytes(bytes(metrics))


class Call:
    """A kernel of tests/data/hip_stand_in/kernels.c on buffers of its own."""

    M, N, K = 5, 7, 3

    def __init__(self, runtime: HipRuntime, kernels: str, symbol: str) -> None:
        self.runtime = runtime
        random = np.random.default_rng(1)
        self.x = random.integers(-3, 4, (self.M, self.K)).astype(np.float32)
        self.w = random.integers(-3, 4, (self.K, self.N)).astype(np.float32)
        self.y = np.full((self.M, self.N), np.nan, dtype=np.float32)
        self.addresses = []
        for array in (self.x, self.w, self.y):
            self.addresses.append(runtime.allocate(array.nbytes))
            runtime.upload(self.addresses[-1], array.reshape(-1).view(np.uint8))
        self.function = getattr(ctypes.CDLL(kernels), symbol)
        self.function.argtypes = [*[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 6, *[ctypes.c_void_p] * 3]
        self.sizes = (self.M, self.N, self.K, self.K, self.N, self.N)
        size = ctypes.c_size_t()
        assert self.function(None, None, None, *self.sizes, ctypes.byref(size), None, runtime.stream) == 0
        self.workspace = runtime.allocate(size.value)

    def launch(self) -> None:
        assert self.function(*self.addresses, *self.sizes, None, self.workspace, self.runtime.stream) == 0

    def error(self) -> float:
        self.runtime.download(self.addresses[2], self.y.reshape(-1).view(np.uint8))
        return float(np.abs(self.y - self.x @ self.w).max())


def multiplication(x_rows: bool, w_rows: bool, y_rows: bool, dtype: str) -> tuple[KernelProblem, dict[str, Any]]:
    """A GEMM with gaps, and its storage."""
    m, n, k = 5, 7, 3
    views = {
        name: TensorView(buffer=name, sizes=sizes, strides=(sizes[1] + 2, 1) if rows else (1, sizes[0] + 2))
        for name, sizes, rows in (("X", (m, k), x_rows), ("W", (k, n), w_rows), ("Y", (m, n), y_rows))
    }
    elements = {name: max(view.strides) * (max(view.sizes) + 2) for name, view in views.items()}
    random = np.random.default_rng(2)
    numpy_type = {"f32": np.float32, "f64": np.float64}.get(dtype, np.float32)
    problem = KernelProblem(
        buffers=tuple(Buffer(name=name, dtype=dtype, elements=elements[name], output=name == "Y") for name in "XWY"),
        views=tuple(views.values()),
        arguments=(),
        computed=gemm_of(views["X"], views["W"], views["Y"], "f64" if dtype == "f64" else "f32"),
        flops=2 * m * n * k,
        bytes_moved=0,
    )
    return problem, {name: random.integers(-3, 4, count).astype(numpy_type) for name, count in elements.items()}


def view(problem: KernelProblem, name: str) -> TensorView:
    return next(view for view in problem.views if view.buffer == name)


def matrix(storage: Any, shape: TensorView) -> Any:
    strides = tuple(stride * storage.itemsize for stride in shape.strides)
    return np.lib.stride_tricks.as_strided(storage, shape.sizes, strides)


def opened() -> HipRuntime:
    """The first device."""
    return hip.open(hip.find()[0])


def attempt(step: Callable[[], Any]) -> Any:
    """Return a step's result, or its failure as kind, message and hint."""
    try:
        return step()
    except BenchmarkError as failure:
        return {"kind": failure.kind.name, "message": failure.message, "hint": failure.hint}


def reset(calls: str = "") -> None:
    """Let these calls fail from now on, counted from 1."""
    os.environ["HIP_STAND_IN_FAIL"] = calls
    ctypes.CDLL(f"{os.environ['ROCM_PATH']}/lib/libamdhip64.so").ckwatch_emulator_count_from_one()


def peek(address: int) -> int:
    """A byte of the stand-in's memory, which is the host's, without waiting for its stream."""
    return ctypes.c_uint8.from_address(address).value


def main() -> None:
    name, *arguments = sys.argv[1:]
    began = time.monotonic()
    answer = globals()[name](*(json.loads(argument) for argument in arguments))
    print(f"{name}: {time.monotonic() - began:.2f} s", file=sys.stderr)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
