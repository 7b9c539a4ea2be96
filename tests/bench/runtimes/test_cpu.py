"""The processors as a device: memory, events, flushing, numpy's GEMM, and where the threads run."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.bench_kernels import gemm_problem
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes import cpu, processors
from ckwatch.bench.runtimes.cpu import CpuRuntime
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime
from ckwatch.model.contractions import matrix_view
from ckwatch.model.kernel_problem import KernelProblem


@pytest.fixture
def runtime(processor_runtime: CpuRuntime) -> CpuRuntime:
    """The CPU."""
    return processor_runtime


def test_it_is_a_runtime(runtime: CpuRuntime) -> None:
    kept: DeviceRuntime = runtime
    assert kept.facts.name == "cpu"
    assert kept.facts.kind == "cpu"
    assert kept.facts.identity == "cpu"
    assert kept.facts.compute_units == len(os.sched_getaffinity(0))
    assert kept.facts.total_memory_bytes > kept.free_memory_bytes() > 0
    assert kept.others() == ()


@pytest.mark.parametrize("size", [0, 1, 7, 64, 1000, (1 << 20) + 3])
def test_memory(runtime: CpuRuntime, size: int) -> None:
    address = runtime.allocate(size)
    assert address % 256 == 0
    data = np.arange(size, dtype=np.uint64).astype(np.uint8)
    runtime.upload(address, data)
    found = np.zeros(size, dtype=np.uint8)
    runtime.download(address, found)
    assert np.array_equal(found, data)
    for value in (0x00, 0xFF, 0x5A):
        runtime.fill(address, value, size)
        runtime.download(address, found)
        assert (found == value).all()
    runtime.free(address)


def test_a_fill_stays_within_its_bounds(runtime: CpuRuntime) -> None:
    address = runtime.allocate(1000)
    runtime.fill(address + 3, 7, 501)
    found = np.zeros(1000, dtype=np.uint8)
    runtime.download(address, found)
    assert np.flatnonzero(found).tolist() == list(range(3, 504))


def test_memory_that_there_is_not(runtime: CpuRuntime) -> None:
    with pytest.raises(BenchmarkError) as caught:
        runtime.allocate(1 << 60)
    assert caught.value.kind is FailureKind.NO_MEMORY


def test_events_are_a_clock(runtime: CpuRuntime) -> None:
    first, second = runtime.event(), runtime.event()
    with runtime.gate():
        runtime.record(first)
        runtime.record(second)
    runtime.synchronize()
    assert runtime.elapsed_us(first, second) > 0
    assert runtime.elapsed_us(first, second) == -runtime.elapsed_us(second, first)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("layout", ["row", "column", "gaps"])
def test_the_library_is_numpy(runtime: CpuRuntime, dtype: str, layout: str) -> None:
    element: type[np.floating[Any]] = np.float32 if dtype == "f32" else np.float64
    problem = gemm_problem(5, 7, 11, ldc=7 if layout == "row" else 9, dtype=dtype)
    assert problem.gemm is not None
    if layout == "column":
        y = matrix_view("Y", (5, 7), (1, 6))
        problem = replace(problem, computed=replace(problem.gemm, y=y))
    assert problem.gemm is not None
    strides = problem.gemm.y.strides
    assert strides is not None
    rng = np.random.default_rng(1)
    x, w = rng.random((5, 11)).astype(element), rng.random((11, 7)).astype(element)
    addresses = {name: runtime.allocate(10_000) for name in ("X", "W", "Y")}
    runtime.upload(addresses["X"], x.reshape(-1).view(np.uint8))
    runtime.upload(addresses["W"], w.reshape(-1).view(np.uint8))
    runtime.fill(addresses["Y"], 0xFF, 10_000)
    launch = runtime.library(problem, addresses)
    assert launch is not None
    launch()
    found = np.zeros(10_000, dtype=np.uint8)
    runtime.download(addresses["Y"], found)
    flat = found.view(element)
    rows, columns = np.indices((5, 7))
    places = rows * strides[0] + columns * strides[1]
    np.testing.assert_allclose(flat[places], x @ w, rtol=1e-5)
    assert np.isnan(np.delete(flat, places.reshape(-1))).all()


@pytest.mark.parametrize("problem", [gemm_problem(dtype="f16"), replace(gemm_problem(), computed=None)])
def test_no_library(runtime: CpuRuntime, problem: KernelProblem) -> None:
    assert runtime.library(problem, dict.fromkeys(("X", "W", "Y"), 0)) is None


def test_versions_and_readings(runtime: CpuRuntime) -> None:
    assert runtime.versions["numpy"] == np.__version__
    assert runtime.versions["blas"] in runtime.library_name
    reading = runtime.reading()
    assert reading.clock_mhz is None or 100 < reading.clock_mhz < 10_000
    assert reading.temperature_c is None or 0 < reading.temperature_c < 150


def test_threads_are_pinned_before_anything_is_loaded(runtime: CpuRuntime) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    assert os.environ["OMP_NUM_THREADS"] == str(len(cpus))
    assert os.environ["OMP_PROC_BIND"] == "true"
    assert os.environ["OMP_PLACES"] == ",".join(f"{{{number}}}" for number in cpus)


def test_one_thread_runs_on_one_processor(runtime: CpuRuntime) -> None:
    single = cpu.open(runtime.facts, threads=1)
    assert len(os.sched_getaffinity(0)) == 1
    assert single.facts.compute_units == 1
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


def test_more_threads_than_processors(runtime: CpuRuntime) -> None:
    with pytest.raises(BenchmarkError, match="100000 threads are requested") as caught:
        cpu.open(runtime.facts, threads=100_000)
    assert caught.value.kind is FailureKind.NO_DEVICE


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two cores of two threads each, an L3 of 16 MiB for each core, in a folder like sysfs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for number in range(4):
        core = number % 2
        files = {
            "topology/thread_siblings_list": f"{core},{core + 2}",
            "cpufreq/cpuinfo_max_freq": "3700000",
            "cpufreq/scaling_cur_freq": f"{3_000_000 + number * 1000}",
            "thermal_throttle/core_throttle_count": "2",
        }
        for index, (level, kind, size) in enumerate(
            [(1, "Data", "32K"), (1, "Instruction", "32K"), (3, "Unified", "16M")]
        ):
            files |= {
                f"cache/index{index}/level": str(level),
                f"cache/index{index}/type": kind,
                f"cache/index{index}/size": size,
                f"cache/index{index}/shared_cpu_list": f"{core},{core + 2}",
            }
        for name, text in files.items():
            file = tmp_path / f"cpu{number}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
    return tmp_path


def test_one_thread_of_each_core_first(system: Path) -> None:
    assert processors.choose(None, system)[:2] == (0, 1)[: len(processors.choose(None, system))]
    assert processors.choose(1, system) == (0,)
    assert processors.choose(3, system) == (0, 1, 2)
    assert processors.choose(9, system) == (0, 1, 2, 3)


def test_caches_and_clocks(system: Path) -> None:
    assert processors.last_level_cache_bytes((0, 2), system) == 16 << 20
    assert processors.last_level_cache_bytes((0, 1), system) == 32 << 20
    assert processors.highest_clock_mhz((0, 1), system) == 3700.0
    assert processors.clock_reader((0, 3), system)() == 3000.0
    assert processors.clock_reader((2, 3), system)() == 3002.0
    assert processors.throttle_count((0, 1, 2), system) == 6


def test_a_system_that_tells_nothing(system: Path) -> None:
    system /= "nothing"
    assert processors.choose(2, system) == (0, 1)
    assert processors.last_level_cache_bytes((0, 1), system) == 0
    assert processors.highest_clock_mhz((0,), system) == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8", [0, 1, 2, 3, 8]), ("5", [5]), ("", []), ("0-", []), ("x", []), ("2-1", [])],
)
def test_lists_of_processors(text: str, expected: list[int]) -> None:
    assert processors.cpu_list(text) == expected


def test_neighbours_are_noticed() -> None:
    """Of two processors' two seconds others had one and a half, this process a quarter."""
    times = iter([(10.0, 5.0, 1.0), (10.01, 5.0, 1.0), (12.0, 6.75, 1.25), (12.05, 9.0, 1.25)])
    neighbours = processors.Neighbours((0, 1), lambda: next(times))
    assert [neighbours.share() for _ in range(3)] == [0.0, 0.375, 0.375]


def test_the_kernel_tells_of_work() -> None:
    clock, busy, own = processors.Neighbours((0,))._now()
    assert clock > 0
    assert busy > 0
    assert own > 0


def test_settling_waits_for_threads_that_look_for_work() -> None:
    looks = iter([["S", "R"], ["R", "R"], ["S", "S"]])
    processors.settle(lambda: next(looks), 60.0)
    assert next(looks, None) is None


def test_settling_ends_though_they_go_on() -> None:
    processors.settle(lambda: ["R"], 0.01)


def test_threads_are_seen() -> None:
    before = len(processors._other_threads())
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="a) thread (")
    thread.start()
    try:
        assert len(processors._other_threads()) == before + 1
    finally:
        stop.set()
        thread.join()
