"""Timings as clients see them: medians, rates and parts of the roofline, computed from a stored record each time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import BenchmarkReport, DeviceReading, Samples, StopReason
from ckwatch.bench.stats.summary import TimeSummary, median, summarize
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.roofline import bound
from ckwatch.model.timings import TimedArtifact, Timing
from ckwatch.wire.benchmarks import TimingDetail

READINGS = ("clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")


def record_to_wire(record: TimingRecord, present_key: str | None) -> list[Timing]:
    """Return the timings that clients are shown: one for each cache state, or one that says why there is none.

    `present_key`: the key of the unit's present artifact; a timing of another one is stale.
    """
    return [timing for timing, _ in _wire_timings(record, present_key)]


def record_details_to_wire(record: TimingRecord, present_key: str | None) -> list[TimingDetail]:
    """The same with all that was kept: raw samples, clocks, readings, versions."""
    return [_detail(record, timing, samples) for timing, samples in _wire_timings(record, present_key)]


def summarize_samples(samples: Samples | None) -> TimeSummary | None:
    """The samples summed up; None without any, or where they are no times."""
    times_us = () if samples is None else samples.times_us
    # a finite sum rules out NaN, with which a minimum cannot be trusted; there may be millions of samples
    if not times_us or not math.isfinite(sum(times_us)) or min(times_us) <= 0:
        return None
    return summarize(times_us)


def _wire_timings(record: TimingRecord, present_key: str | None) -> Iterator[tuple[Timing, Samples | None]]:
    common = _unmeasured(record, record.artifact_key == present_key)
    failure = record.failure
    if failure is not None:
        yield replace(common, failure=failure.kind.value, message=failure.message), None
        return
    measured = record.measured
    report = record.report
    if measured is None or report is None:
        return
    more: dict[str, Any] = {
        "verified": measured.verification is not None,
        "flushed_instructions": report.flushed_instructions,
        "limited_by": tuple(report.slowed),
        "noise_floor_us": None if report.noise_floor is None else report.noise_floor.us,
        "temperature_c": next(
            (one.temperature_c for one in reversed(report.readings) if one.temperature_c is not None), None
        ),
    }
    for samples in measured.samples:
        found = summarize_samples(samples)
        if found is not None:
            figures = _figure_fields(record, report.device, samples, found)
            yield replace(common, **more, **figures), samples


def _unmeasured(record: TimingRecord, fresh: bool) -> Timing:
    device = record.device
    return Timing(
        **{one.name: getattr(record, one.name) for one in fields(TimedArtifact)},
        cache="",
        device="" if device is None else device.name,
        device_description="" if device is None else device.description,
        pci=None if device is None else device.pci,
        machine="" if device is None else device.machine,
        standing="fresh" if fresh else "stale",
    )


def _figure_fields(record: TimingRecord, device: DeviceFacts, samples: Samples, found: TimeSummary) -> dict[str, Any]:
    """The fields of a timing that come from its samples."""
    problem = record.problem
    middle = found.median_us
    clock = median(samples.clocks_mhz) if samples.clocks_mhz else None
    specified = observed = None
    if problem is not None:
        specified = bound(problem, device, samples.cache)
        observed = bound(problem, device, samples.cache, clock) if clock else None
    return {
        "cache": samples.cache.value,
        "median_us": middle,
        "minimum_us": found.minimum_us,
        "q1_us": found.q1_us,
        "q3_us": found.q3_us,
        # one sample has no error
        "relative_error": min(found.relative_error, 1.0),
        "samples": found.count,
        "converged": samples.stop not in (StopReason.BUDGET, StopReason.SLOWER),
        "given_up": samples.stop is StopReason.SLOWER,
        "discarded": samples.discarded,
        "tflops": problem.flops / middle / 1e6 if problem is not None and problem.flops is not None else None,
        "gbps": problem.bytes_moved / middle / 1e3 if problem is not None else None,
        "bound_us": None if specified is None else specified.time_us,
        "bound_percent": None if specified is None else 100 * specified.time_us / middle,
        "observed_percent": None if observed is None else 100 * observed.time_us / middle,
        "clock_mhz": clock,
        "cycles": _cycles(samples),
    }


def _cycles(samples: Samples) -> float | None:
    """The median of the samples' cycles; None where the clock was not read beside each."""
    if not samples.clocks_mhz or len(samples.clocks_mhz) != len(samples.times_us):
        return None
    return median([time_us * mhz for time_us, mhz in zip(samples.times_us, samples.clocks_mhz, strict=True)])


def _detail(record: TimingRecord, timing: Timing, samples: Samples | None) -> TimingDetail:
    report, failure = record.report, record.failure
    return TimingDetail(
        timing=timing,
        times_us=() if samples is None else samples.times_us,
        clocks_mhz=() if samples is None else samples.clocks_mhz,
        stop="" if samples is None else samples.stop.value,
        readings=() if report is None else tuple(_reading_to_wire(one) for one in report.readings),
        versions={} if report is None else dict(report.versions),
        notes=() if report is None else (*report.notes, *_throttling_notes(report)),
        detail="" if failure is None else "\n".join(part for part in (failure.hint, failure.detail) if part),
    )


def _reading_to_wire(reading: DeviceReading) -> dict[str, float | None]:
    return {name: getattr(reading, name) for name in READINGS}


def _throttling_notes(report: BenchmarkReport) -> Iterator[str]:
    reasons = dict.fromkeys(reason for one in report.readings for reason in one.throttled_by)
    if reasons:
        yield f"the device was throttled: {', '.join(reasons)}"
