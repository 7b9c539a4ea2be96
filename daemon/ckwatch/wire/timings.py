"""Benchmarks as clients see them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ckwatch.wire.value import Value

CacheName = Literal["cold", "hot"]
VerdictName = Literal["FAST", "SLOW", "SAME", "UNSURE"]


class Device(Value):
    """A device that units can be timed on."""

    name: str
    description: str
    arch: str
    pci: str | None = None
    driver: str = ""


class Devices(Value):
    """What there is, the best first, and which kinds of device cannot be used and why. `host`: the machine."""

    devices: tuple[Device, ...]
    absent: dict[str, str] = Field(default_factory=dict)
    host: str = ""


class Comparison(Value):
    """A timing against another: `ratio` is its median over the other's, FAST where it is faster beyond doubt."""

    verdict: VerdictName
    ratio: float
    against: str
    other_median_us: float
    interleaved: bool = False


class Timing(Value):
    """One artifact on one shape, device and cache state; the samples are summed up.

    `id` is the number of its measurement in the history (`timing` gives the samples). `minimum_us` to `q3_us` is the
    interval that comparisons use, `relative_error` the standard error of the median. `bound_us` is the roofline's time
    at the specification's clock; `bound_percent` and `observed_percent` are what of it was reached, at that clock and
    at the one that was observed. `failure`: why there is no timing (then all figures are 0) and `message` the sentence.
    `standing`: whether it belongs to the unit's present artifact. `comparisons`: with the unit's artifact before, the
    baseline, the vendor's library, as far as there are any.
    """

    id: int
    unit: str
    kernel: str
    instance: str
    arch: str
    shape: str
    cache: CacheName
    device: str
    device_description: str
    pci: str | None = None
    sizes: dict[str, int] = Field(default_factory=dict)
    runtime: dict[str, float] = Field(default_factory=dict)
    parameters: dict[str, int | float | bool | str | tuple[int, ...]] = Field(default_factory=dict)
    median_us: float = 0.0
    minimum_us: float = 0.0
    q1_us: float = 0.0
    q3_us: float = 0.0
    relative_error: float = 0.0
    samples: int = 0
    discarded: int = 0
    tflops: float | None = None
    gbps: float | None = None
    bound_us: float | None = None
    bound_percent: float | None = None
    observed_percent: float | None = None
    clock_mhz: float | None = None
    temperature_c: float | None = None
    verified: bool = False
    artifact_key: str = ""
    benchmark_key: str = ""
    toolchain: str = ""
    commit: str | None = None
    taken_at: float = 0.0
    failure: str | None = None
    message: str = ""
    standing: Literal["fresh", "stale", "running"] = "fresh"
    comparisons: tuple[Comparison, ...] = ()


class TimingDetail(Value):
    """A measurement with all that was kept: raw samples, clocks, temperatures, versions."""

    timing: Timing
    times_us: tuple[float, ...]
    clocks_mhz: tuple[float, ...] = ()
    stop: str = ""
    readings: tuple[dict[str, float | None], ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    detail: str = ""


class Ranked(Value):
    """An instance's place on a shape: its best timing, or why it has none."""

    unit: str
    instance: str
    shape: str
    rank: int | None
    timing: Timing | None
    why_not: str = ""


class BenchLine(Value):
    """A line of a benchmark's answer: `began`, a `stage`, a `timing`, `skipped` with why, `done` at the end."""

    event: Literal["began", "stage", "timing", "skipped", "done", "heartbeat"]
    unit: str | None = None
    shape: str | None = None
    timing: Timing | None = None
    text: str = ""
