"""Timings as people read them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ckwatch.cli.amounts import count

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.timings import Comparison, Timing

VERDICT_STYLES = {"FAST": "green", "SLOW": "red", "SAME": "", "UNSURE": "yellow"}

STAND_IN = "stand-in"
"""What describes a device that is none; no figure of it is a timing."""

NO_FIGURES = "a stand-in for a device: no figures"


def is_figure(timing: Timing) -> bool:
    """Whether there is a time, and it is that of a device."""
    return timing.failure is None and STAND_IN not in timing.device_description


def time_of(microseconds: float) -> str:
    """Four digits: `12.34 µs`, `1.234 ms`, `2.500 s`."""
    for limit, scale, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if microseconds < limit - 0.05 * scale:
            return f"{_digits(microseconds / scale)} {unit}"
    return f"{_digits(microseconds / 1e6)} s"


def interval_of(timing: Timing) -> str:
    """`[12.30, 12.41] µs`: minimum and third quartile, in the unit of the median."""
    unit = time_of(timing.median_us).rpartition(" ")[2]
    scale = {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    return f"[{_digits(timing.minimum_us / scale)}, {_digits(timing.q3_us / scale)}] {unit}"


def figures(timing: Timing) -> list[str]:
    """The cells of a timing that has figures: median, error, interval, rate, part of the roofline's bound."""
    rate = _rate(timing)
    bound = "" if timing.bound_percent is None else f"{timing.bound_percent:.0f} % of bound"
    if timing.observed_percent is not None:
        bound += f" ({timing.observed_percent:.0f} % at {timing.clock_mhz:.0f} MHz)"
    error = 100 * timing.relative_error
    about = f"±{error:.0f} %" if error >= 10 else f"±{error:.2g} %"
    return [time_of(timing.median_us), about, interval_of(timing), rate, bound]


def _rate(timing: Timing) -> str:
    if timing.tflops is not None:
        return f"{_digits(timing.tflops)} TFLOP/s" if timing.tflops >= 1 else f"{_digits(timing.tflops * 1e3)} GFLOP/s"
    return "" if timing.gbps is None else f"{_digits(timing.gbps)} GB/s"


def comparison_words(found: Comparison) -> str:
    """`SLOW 1.021 × previous`; in turns, where both took turns."""
    turns = ", in turns" if found.interleaved else ""
    return f"{found.verdict} {found.ratio:.3f} × {found.against}{turns}"


def provenance(timing: Timing) -> list[str]:
    """The cells that say what was timed: artifact, commit, standing."""
    stale = "" if timing.standing == "fresh" else timing.standing
    return [timing.artifact_key[:12], short_commit(timing.commit), stale]


def short_commit(commit: str | None) -> str:
    """`1a2b3c4d5e`, with `-dirty` where it is."""
    if not commit:
        return ""
    oid, dash, dirty = commit.partition("-")
    return f"{oid[:10]}{dash}{dirty}"


def when(at: float) -> str:
    """`2026-01-31 14:05:09`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def device_words(timing: Timing) -> str:
    """`hip:0, AMD Instinct MI300X, 0000:c1:00.0`."""
    return ", ".join(part for part in (timing.device, timing.device_description, timing.pci or "") if part)


def samples_words(timing: Timing) -> str:
    """`200 samples`, with how many were discarded."""
    discarded = f", {timing.discarded} discarded" if timing.discarded else ""
    return f"{count(timing.samples, 'sample')}{discarded}"


def _digits(value: float) -> str:
    """Four digits, all of the integer part."""
    if value <= 0:
        return f"{value:.3f}"
    for limit, places in ((9.9995, 3), (99.995, 2), (999.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"
