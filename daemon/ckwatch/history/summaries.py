"""What a record says in figures: medians, rates, parts of the roofline. Nothing of it is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ckwatch.history.timing_record import TimingRecord
from ckwatch.stats import Summary, summary
from ckwatch.stats.summary import median
from ckwatch.timing.bound import bound
from ckwatch.timing.job import Cache
from ckwatch.timing.report import DeviceFacts, Reading, Report, Samples
from ckwatch.wire.timings import Timing, TimingDetail

READINGS = ("clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")


def wire_timings(record: TimingRecord, present_key: str | None) -> list[Timing]:
    """What clients are shown: a timing for each cache state, or one that says why there is none.

    `present_key`: the key of the unit's present artifact; a timing of another one is stale.
    """
    return [timing for timing, _ in _timings(record, present_key)]


def wire_details(record: TimingRecord, present_key: str | None) -> list[TimingDetail]:
    """The same with all that was kept: raw samples, clocks, readings, versions."""
    return [_detail(record, timing, samples) for timing, samples in _timings(record, present_key)]


def summary_of(samples: Samples | None) -> Summary | None:
    """The samples summed up; None without any, or where they are no times."""
    times_us = () if samples is None else samples.times_us
    # a sum tells of values that are none, and the minimum can be trusted then; there may be millions of samples
    if not times_us or not math.isfinite(sum(times_us)) or min(times_us) <= 0:
        return None
    return summary(times_us)


def _timings(record: TimingRecord, present_key: str | None) -> Iterator[tuple[Timing, Samples | None]]:
    common = _common(record, record.artifact_key == present_key)
    failure = record.failure
    if failure is not None:
        yield common.model_copy(update={"failure": failure.kind.value, "message": failure.message}), None
        return
    measured = record.measured
    report = record.report
    if measured is None or report is None:
        return
    more = {
        "verified": measured.verification is not None,
        "temperature_c": next(
            (one.temperature_c for one in reversed(report.readings) if one.temperature_c is not None), None
        ),
    }
    for samples in measured.samples:
        found = summary_of(samples)
        if found is not None:
            figures = _figures(record, report.device, samples, found)
            yield common.model_copy(update=more | figures), samples


def _common(record: TimingRecord, fresh: bool) -> Timing:
    device = record.device
    return Timing(
        id=record.id,
        unit=record.unit,
        kernel=record.kernel,
        instance=record.instance,
        arch=record.arch,
        shape=record.shape,
        cache=Cache.COLD.value,
        device="" if device is None else device.name,
        device_description="" if device is None else device.description,
        pci=None if device is None else device.pci,
        sizes=dict(record.sizes),
        runtime=dict(record.runtime),
        parameters=dict(record.parameters),
        artifact_key=record.artifact_key,
        benchmark_key=record.benchmark_key,
        toolchain=record.toolchain,
        commit=record.commit,
        taken_at=record.taken_at,
        standing="fresh" if fresh else "stale",
    )


def _figures(record: TimingRecord, device: DeviceFacts, samples: Samples, found: Summary) -> dict[str, object]:
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
        # one sample says nothing of its error
        "relative_error": min(found.relative_error, 1.0),
        "samples": found.count,
        "discarded": samples.discarded,
        "tflops": problem.flops / middle / 1e6 if problem is not None and problem.flops is not None else None,
        "gbps": problem.bytes_moved / middle / 1e3 if problem is not None else None,
        "bound_us": None if specified is None else specified.time_us,
        "bound_percent": None if specified is None else 100 * specified.time_us / middle,
        "observed_percent": None if observed is None else 100 * observed.time_us / middle,
        "clock_mhz": clock,
    }


def _detail(record: TimingRecord, timing: Timing, samples: Samples | None) -> TimingDetail:
    report, failure = record.report, record.failure
    return TimingDetail(
        timing=timing,
        times_us=() if samples is None else samples.times_us,
        clocks_mhz=() if samples is None else samples.clocks_mhz,
        stop="" if samples is None else samples.stop.value,
        readings=() if report is None else tuple(_reading(one) for one in report.readings),
        versions={} if report is None else dict(report.versions),
        notes=() if report is None else (*report.notes, *_throttling(report)),
        detail="" if failure is None else "\n".join(part for part in (failure.hint, failure.detail) if part),
    )


def _reading(reading: Reading) -> dict[str, float | None]:
    return {name: getattr(reading, name) for name in READINGS}


def _throttling(report: Report) -> Iterator[str]:
    reasons = dict.fromkeys(reason for one in report.readings for reason in one.throttled_by)
    if reasons:
        yield f"the device was throttled: {', '.join(reasons)}"
