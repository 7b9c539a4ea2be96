"""The worker's side of the self-test: on the processor, and on a stand-in for an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches.bench_kernels import gemm_problem, shared_object
from ckwatch.bench.job import Contestant, SelfTestJob, SelfTestStep
from ckwatch.bench.leases import FOLDER_VARIABLE, lease
from ckwatch.bench.report import DeviceReading, FailureKind
from ckwatch.bench.runtimes import cuda
from ckwatch.bench.runtimes.cuda_api import CUDA
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime
from ckwatch.bench.self_test.worker import cache_knee, run_steps, working_sets
from ckwatch.bench.stats.noise_floor import resolution_us
from ckwatch.bench.worker_protocol import StepTried
from ckwatch.model import self_test as names
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome
from fakes.cuda_stand_in import StandIn

PASSED, FAILED, SKIPPED = TrialOutcome.PASSED, TrialOutcome.FAILED, TrialOutcome.SKIPPED
Try = Callable[..., AssumptionTrial]


class Readings:
    """Stand-in for NVML."""

    version = "580.1"
    are_there = True
    reading = DeviceReading(clock_mhz=1500.0, power_w=650.0, temperature_c=60.0, throttled_by=("power",))

    def read(self) -> DeviceReading:
        return self.reading

    def highest_clocks_mhz(self) -> tuple[float, float]:
        return 1980.0, 2619.0

    def others(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        return None


def trying(
    runtime: DeviceRuntime, folder: Path, monkeypatch: pytest.MonkeyPatch, artifacts: tuple[bytes, ...] = ()
) -> Try:
    """A function that tries one assumption."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    held = lease(runtime.facts.identity, "the test", wait_s=0.0, waiting=lambda _: None)
    assert held is not None

    def attempt(assumption: str, **more: Any) -> AssumptionTrial:
        job = SelfTestJob(
            device=runtime.facts.name,
            kind=runtime.facts.kind,
            arch=runtime.facts.arch,
            steps=(SelfTestStep(assumption=assumption, **more),),
        )
        told: list[StepTried] = []
        run_steps(job, artifacts, runtime, held, lambda _stage, _contestant: None, told.append)
        return told[0].trial

    return attempt


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn(memory_bytes=1 << 26)
    monkeypatch.setitem(vars(CUDA), "binding", stand_in)
    monkeypatch.setattr(cuda, "NvmlReadings", lambda _pci: Readings())
    monkeypatch.setattr(cuda, "load_cublas", lambda: None)
    return stand_in


@pytest.fixture
def gpu(driver: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Try:
    (device,) = cuda.find()
    runtime = cuda.open(replace(device, description="NVIDIA H100 80GB HBM3", last_level_cache_bytes=1 << 20))
    driver.cache_bytes = 1 << 20
    return trying(runtime, tmp_path, monkeypatch)


@pytest.fixture
def processor(processor_runtime: DeviceRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Try:
    artifacts = (shared_object(), shared_object("if (M == 24) return -23;"))
    return trying(processor_runtime, tmp_path, monkeypatch, artifacts)


@pytest.mark.parametrize(
    "assumption",
    [
        *(names.LEASE, names.OTHERS, names.COPIES, names.GUARDS, names.POISON, names.ORDER),
        *(names.CLOCKS, names.POWER, names.CACHE_SIZE),
    ],
)
def test_what_holds_on_a_gpu(gpu: Try, assumption: str) -> None:
    found = gpu(assumption)
    assert found.outcome is PASSED, found


@pytest.mark.parametrize("assumption", [names.GATE, names.EVENT_CLOCK])
def test_what_holds_where_events_are_reached_at_once(gpu: Try, driver: StandIn, assumption: str) -> None:
    driver.eager = True
    found = gpu(assumption)
    assert found.outcome is PASSED, found


def test_properties_that_are_not_those_of_the_data_sheet(gpu: Try) -> None:
    found = gpu(names.PROPERTIES)
    assert found.outcome is FAILED
    assert "1,048,576 bytes of last-level cache, where the data sheet says 52,428,800" in found.found
    assert "compute units" not in found.found
    assert found.figures["sheet_compute_units"] == 132


def test_a_limited_clock_is_said(gpu: Try) -> None:
    found = gpu(names.POWER)
    assert "650 W under load" in found.found
    assert "the clock was held down by power in" in found.found


def test_no_library(gpu: Try) -> None:
    assert gpu(names.LIBRARY).outcome is SKIPPED
    assert gpu(names.SAME).outcome is SKIPPED
    assert gpu(names.REPEATS).outcome is SKIPPED


def test_cycles_are_counted_by_the_device(gpu: Try) -> None:
    found = gpu(names.REPEATS_READ)
    assert found.outcome is PASSED, found
    assert found.found.endswith("held down by power; reads of 10 MiB")
    time_us = float(found.figures["median_us"])
    assert float(found.figures["counted_kcycles"]) == pytest.approx(2.0 * (time_us + 1 / 8), rel=0.01)


def test_a_gate_that_does_not_hold(driver: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.failures["cuStreamWaitValue32"] = "CUDA_ERROR_NOT_SUPPORTED"
    (device,) = cuda.find()
    runtime = cuda.open(device)
    found = trying(runtime, tmp_path, monkeypatch)(names.GATE)
    assert found.outcome is FAILED
    assert "none: cuStreamWaitValue32 is refused" in found.found


def test_a_faulting_probe_passes_its_error_on(gpu: Try) -> None:
    with pytest.raises(BenchmarkError) as error:
        gpu(names.FAULT)
    assert error.value.kind is FailureKind.FAULT


def test_the_probes_are_compiled_by_the_driver(gpu: Try, driver: StandIn) -> None:
    driver.failures["cuModuleLoadData"] = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    found = gpu(names.CACHE_SIZE)
    assert found.outcome is FAILED
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in found.found


@pytest.mark.parametrize(
    "assumption",
    [names.PROPERTIES, names.LEASE, names.COPIES, names.GUARDS, names.POISON, names.RESOLUTION, names.ORDER],
)
def test_what_holds_on_the_processor(processor: Try, assumption: str) -> None:
    assert processor(assumption).outcome is PASSED


def test_the_library_of_the_processor(processor: Try) -> None:
    found = processor(names.LIBRARY)
    assert found.outcome is PASSED
    assert found.found.startswith("numpy ")


def test_numerics(processor: Try) -> None:
    ours = (Contestant(name="ours", artifact=0, symbol="gemm"),)
    found = processor(names.NUMERICS, contestants=ours, problems=(gemm_problem(),))
    assert (found.outcome, found.figures["workspace_bytes"]) == (PASSED, 0)
    picky = (Contestant(name="picky", artifact=1, symbol="gemm"),)
    found = processor(names.NUMERICS, contestants=picky, problems=(gemm_problem(), gemm_problem(25)))
    assert "M=25" in found.found
    found = processor(names.NUMERICS, contestants=picky, problems=(gemm_problem(),))
    assert found.outcome is SKIPPED
    wrong = (Contestant(name="wrong", artifact=0, symbol="gemm"),)
    found = processor(names.NUMERICS, contestants=wrong, problems=(gemm_problem(dtype="f64"),))
    assert found.outcome is FAILED


def test_steps_on_kernels_have_figures(processor: Try) -> None:
    pair = tuple(Contestant(name=f"build {number}", artifact=0, symbol="gemm") for number in (1, 2))
    found = processor(names.SAME, contestants=pair, problems=(gemm_problem(),), budget_s=0.01)
    assert found.figures["trials"] == 1
    assert "199 trials did not fit into 0 s" in found.found
    assert found.figures["slower_trials"] == 1
    assert float(found.figures["slower_ratio"]) > 1
    found = processor(names.REPEATS, contestants=pair, problems=(gemm_problem(),))
    assert float(found.figures["median_us"]) > 0


@pytest.mark.parametrize(
    ("bandwidths", "found"),
    [
        ([(1, 100.0), (2, 100.0), (4, 100.0), (8, 25.0), (16, 25.0), (32, 25.0)], 5.656854),
        ([(1, 50.0), (2, 100.0), (4, 50.0), (8, 25.0), (16, 25.0), (32, 25.0)], 4.0),
        ([(1, 10.0), (2, 100.0), (4, 100.0), (8, 100.0), (16, 100.0), (32, 99.0)], "does not drop"),
        ([(1, 100.0), (2, 100.0), (4, 20.0), (8, 90.0), (16, 25.0), (32, 25.0), (64, 25.0)], "falls and rises"),
    ],
)
def test_the_cache_is_read_off_the_bandwidths(bandwidths: list[tuple[int, float]], found: float | str) -> None:
    knee = cache_knee(bandwidths)
    if isinstance(found, str):
        assert isinstance(knee, str)
        assert found in knee
    else:
        assert knee == pytest.approx(found)


def test_working_sets_are_whole_pages_up_to_the_largest() -> None:
    sizes = working_sets(1 << 20, 1 << 24)
    assert sizes[-1] == 1 << 24
    assert all(size % 4096 == 0 for size in sizes)
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 9


def test_resolution() -> None:
    assert resolution_us([1.0, 1.5, 3.0, 1.0]) == pytest.approx(0.5)
    assert resolution_us([2.0, 2.0]) == 0.0
