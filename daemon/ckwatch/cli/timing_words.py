"""Timings as a terminal has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ckwatch.cli.amounts import count
from ckwatch.wire.timing_words import (
    NO_FIGURES,
    STAND_IN,
    comparison_words,
    error_of,
    interval_of,
    is_figure,
    rate_of,
    time_of,
)

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.timings import Timing

__all__ = [
    "NO_FIGURES",
    "STAND_IN",
    "VERDICT_STYLES",
    "comparison_words",
    "device_words",
    "figures",
    "interval_of",
    "is_figure",
    "provenance",
    "samples_words",
    "short_commit",
    "time_of",
    "when",
]

VERDICT_STYLES = {"FAST": "green", "SLOW": "red", "SAME": "", "UNSURE": "yellow"}


def figures(timing: Timing) -> list[str]:
    """The cells of a timing that has figures: median, error, interval, rate, part of the roofline's bound."""
    bound = "" if timing.bound_percent is None else f"{timing.bound_percent:.0f} % of bound"
    if timing.observed_percent is not None:
        bound += f" ({timing.observed_percent:.0f} % at {timing.clock_mhz:.0f} MHz)"
    return [time_of(timing.median_us), error_of(timing), interval_of(timing), rate_of(timing), bound]


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
