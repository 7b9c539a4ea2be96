"""Figures of a timing record."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benches.timing_records import DEVICE, PROBLEM, failed, measured, record, report, samples
from ckwatch.bench.report import DeviceReading, FailureKind, StopReason
from ckwatch.engine import timings_to_wire
from ckwatch.engine.timings_to_wire import record_details_to_wire, record_to_wire
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.roofline import Bound, CacheState
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import TimingDetail
from ckwatch.wire.encoding import adapter, to_json

UNIT = "gemm/m128@gfx942"


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every problem's bound is 50 us at 1000 MHz, with a hot cache half of it."""

    def bound(problem: KernelProblem, facts: DeviceFacts, cache: CacheState, clock_mhz: float | None = None) -> Bound:
        assert (problem, facts) == (PROBLEM, DEVICE)
        time_us = (50.0 if cache is CacheState.COLD else 25.0) * 1000 / (clock_mhz or 1000)
        return Bound(time_us=time_us, limited_by="matrix")

    monkeypatch.setattr(timings_to_wire, "bound", bound)


@pytest.mark.usefixtures("bounded")
def test_a_timing_for_each_cache_state() -> None:
    both = measured(
        UNIT,
        samples(CacheState.COLD, *range(90, 111), clocks_mhz=(500.0, 800.0, 500.0), discarded=4),
        samples(CacheState.HOT, 50.0, 50.0, 50.0, clocks_mhz=()),
    )
    cold, hot = record_to_wire(record(report=report(both), id=7), "a1")
    assert (cold.cache, hot.cache) == ("cold", "hot")
    assert (cold.median_us, cold.minimum_us, cold.q1_us, cold.q3_us) == (100.0, 90.0, 95.0, 105.0)
    assert (cold.samples, cold.discarded, hot.samples, hot.discarded) == (21, 4, 3, 0)
    # 2 000 000 operations and 50 000 bytes in 100 us
    assert (cold.tflops, cold.gbps) == (0.02, 0.5)
    assert (hot.tflops, hot.gbps) == (0.04, 1.0)
    assert (cold.bound_us, cold.bound_percent, cold.observed_percent) == (50.0, 50.0, 100.0)
    assert (hot.bound_us, hot.bound_percent, hot.observed_percent) == (25.0, 50.0, None)
    assert (cold.clock_mhz, hot.clock_mhz, cold.temperature_c) == (500.0, None, 50.0)
    assert 0 < cold.relative_error < 0.1
    assert cold.verified
    assert (cold.id, cold.unit, cold.kernel, cold.instance, cold.arch, cold.shape) == (
        7, UNIT, "gemm", "m128", "gfx942", "small",
    )  # fmt: skip
    assert (cold.device, cold.device_description, cold.pci) == ("hip:7", "test device", "0000:07:00.0")
    assert (cold.commit, cold.toolchain, cold.taken_at) == ("c0ffee-dirty", "clang 0", 1000.5)
    assert cold.parameters == {"MPerBlock": 128, "Scale": 1.0, "Swap": True, "Pipe": "v3 ü", "Cluster": (4, 64, 1)}
    for timing in (cold, hot):
        assert adapter(Timing).validate_json(to_json(timing)) == timing


def test_without_a_bound() -> None:
    (timing,) = record_to_wire(record(), "a1")
    assert (timing.tflops, timing.bound_us, timing.bound_percent, timing.observed_percent) == (0.02, None, None, None)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [(None, (None, None)), (replace(PROBLEM, flops=None), (None, 0.5)), (replace(PROBLEM, flops=0), (0.0, 0.5))],
)
def test_what_is_not_known_has_no_rate(
    problem: KernelProblem | None, expected: tuple[float | None, float | None]
) -> None:
    (timing,) = record_to_wire(record(problem=problem), "a1")
    assert (timing.tflops, timing.gbps) == expected


@pytest.mark.parametrize(("present", "standing"), [("a1", "fresh"), ("a2", "stale"), (None, "stale")])
def test_standing(present: str | None, standing: str) -> None:
    assert [one.standing for one in record_to_wire(record(problem=None), present)] == [standing]
    assert [one.standing for one in record_to_wire(failed(), present)] == [standing]


@pytest.mark.parametrize(
    "times", [(), (0.0, 1.0), (math.nan, 1.0), (math.inf,), (-1.0,)], ids=["none", "zero", "nan", "inf", "negative"]
)
def test_what_is_no_time_is_no_timing(times: tuple[float, ...]) -> None:
    bad = measured(UNIT, replace(samples(), times_us=times))
    assert record_to_wire(record(report=report(bad)), "a1") == []


def test_one_sample_is_unsure() -> None:
    (timing,) = record_to_wire(record(times_us=[5.0], problem=None), "a1")
    assert (timing.median_us, timing.samples, timing.relative_error) == (5.0, 1, 1.0)
    assert adapter(Timing).validate_json(to_json(timing)) == timing


def test_others_of_the_report_are_not_the_units() -> None:
    every = report(measured("library", samples(CacheState.COLD, 7.0)), measured(UNIT, samples(CacheState.COLD, 8.0)))
    assert [one.median_us for one in record_to_wire(record(report=every, problem=None), "a1")] == [8.0]
    assert record_to_wire(record(report=every, contestant="gone"), "a1") == []


def test_what_ended_for_want_of_time_did_not_converge() -> None:
    for stop, converged in ((StopReason.BUDGET, False), (StopReason.PRECISE, True), (StopReason.STEADY_NOISE, True)):
        (timing,) = record_to_wire(record(report=report(measured(UNIT, samples(stop=stop))), problem=None), "a1")
        assert timing.converged is converged


def test_not_verified() -> None:
    unknown = replace(measured(UNIT), verification=None)
    assert [one.verified for one in record_to_wire(record(report=report(unknown), problem=None), "a1")] == [False]


def test_a_failure() -> None:
    (timing,) = record_to_wire(failed(kind=FailureKind.WRONG, id=3), "a1")
    assert timing.cache == "", "it is that of no cache"
    assert (timing.id, timing.failure, timing.message, timing.median_us) == (3, "wrong result", "it is wrong result", 0)
    assert timing.device == "hip:7"
    (detail,) = record_details_to_wire(failed(), "a1")
    assert (detail.times_us, detail.detail) == ((), "think\nall")


def test_details() -> None:
    readings = (
        DeviceReading(clock_mhz=800.0, throttled_by=("power", "heat")),
        DeviceReading(power_w=300.0, throttled_by=("power",)),
    )
    every = report(
        measured(UNIT, samples(CacheState.COLD, 1.0, 2.0), samples(CacheState.HOT, 3.0, clocks_mhz=())),
        readings=readings,
    )
    cold, hot = record_details_to_wire(record(report=every, problem=None), "a1")
    assert (cold.times_us, cold.clocks_mhz, cold.stop) == ((1.0, 2.0), (900.0,) * 3, "precise")
    assert (hot.times_us, hot.clocks_mhz, hot.timing.cache) == ((3.0,), (), "hot")
    assert cold.readings[0] == {"clock_mhz": 800.0, "memory_clock_mhz": None, "power_w": None, "temperature_c": None}
    assert cold.versions == {"driver": "0"}
    assert cold.notes == ("a note: ü", "the device was throttled: power, heat")
    assert adapter(TimingDetail).validate_json(to_json(cold)) == cold
