"""Timings and other figures as text, the same in the command line and in editors.

Loads neither pydantic nor rich: every command imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.benchmarks import Comparison, Timing

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
            return f"{digits(microseconds / scale)} {unit}"
    return f"{digits(microseconds / 1e6)} s"


def interval_of(timing: Timing) -> str:
    """`[12.30, 12.41] µs`: minimum and third quartile, in the unit of the median."""
    unit = time_of(timing.median_us).rpartition(" ")[2]
    scale = {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    return f"[{digits(timing.minimum_us / scale)}, {digits(timing.q3_us / scale)}] {unit}"


def error_of(timing: Timing) -> str:
    """The standard error of the median: `±0.21 %`."""
    error = 100 * timing.relative_error
    return f"±{error:.0f} %" if error >= 10 else f"±{error:.2g} %"


def rate_of(timing: Timing) -> str:
    """`413.0 TFLOP/s`, or GB/s for what computes nothing; empty where neither is known."""
    if timing.tflops is not None:
        return f"{digits(timing.tflops)} TFLOP/s" if timing.tflops >= 1 else f"{digits(timing.tflops * 1e3)} GFLOP/s"
    return "" if timing.gbps is None else f"{digits(timing.gbps)} GB/s"


def comparison_words(found: Comparison) -> str:
    """`SLOW 1.021 × previous`; in turns, where both took turns."""
    turns = ", in turns" if found.interleaved else ""
    return f"{found.verdict} {found.ratio:.3f} × {found.against}{turns}"


def digits(value: float) -> str:
    """Four digits, all of the integer part."""
    if value <= 0:
        return f"{value:.3f}"
    for limit, places in ((9.9995, 3), (99.995, 2), (999.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"
