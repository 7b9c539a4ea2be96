"""Timings as they are shown: an artifact on a shape, with its samples summed up, and how it compares with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_values import ParameterValue

CacheName = Literal["cold", "hot"]
VerdictName = Literal["FAST", "SLOW", "SAME", "UNSURE"]
Standing = Literal["fresh", "stale", "running"]
"""Freshness of a timing: of the current artifact or not, and whether it is being taken again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A timing against another: `ratio` is its median over the other's. FAST, SLOW: the difference is significant.

    `other_device`: where the other timing was taken, if that was another device; the two then differ by their devices
    too, however alike these are."""

    verdict: VerdictName
    ratio: float
    against: str
    other_median_us: float
    interleaved: bool = False
    other_device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedArtifact:
    """A measurement of an artifact of `unit`, `KERNEL/INSTANCE@ARCH`, on one shape.

    `id` is the number of the measurement in the history, 0 before it is there. `sizes` and `runtime` are what the
    shape's name stood for then. `benchmark_key` is the same wherever the same was measured in the same way: artifact,
    problem, device, settings. `commit` is the workspace's, as `commit_of` gives it. `taken_at`: Unix seconds.
    """

    id: int = 0
    unit: str
    kernel: str
    instance: str
    arch: str
    shape: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    runtime: Mapping[str, int | float] = field(default_factory=dict)
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    artifact_key: str = ""
    benchmark_key: str = ""
    toolchain: str = ""
    commit: str | None = None
    taken_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(TimedArtifact):
    """One artifact on one shape, device and cache state; the samples, which `timing` has, are summed up.

    `minimum_us` to `q3_us` is the interval that comparisons use, `relative_error` the standard error of the median.
    `converged`: it did not end for want of time or samples. `given_up`: it was certainly slower than what it competed
    with. `bound_us` is the roofline's time at the specified clock; `bound_percent` and `observed_percent` are the parts
    of the roofline that were reached, at that clock and at the observed one. `failure`: the kind of failure (then all
    figures are 0 and `cache` is empty), described by `message`. `standing`: whether it belongs to the unit's present
    artifact. `comparisons`: with the previous artifact, the baseline and the vendor's library, as far as they exist.
    `flushed_instructions`: the instruction caches were flushed before each launch. `cycles`: the median of time ×
    clock, where the clock was read beside the times; under a power limit cycles repeat and times do not. `limited_by`:
    what held the clock down meanwhile, such as `power`. `noise_floor_us`: differences below it say nothing. `machine`:
    the host that has the device, where that is not the one of the daemon's worker.
    """

    cache: CacheName | Literal[""]
    device: str
    device_description: str
    pci: str | None = None
    median_us: float = 0.0
    minimum_us: float = 0.0
    q1_us: float = 0.0
    q3_us: float = 0.0
    relative_error: float = 0.0
    samples: int = 0
    discarded: int = 0
    converged: bool = True
    given_up: bool = False
    tflops: float | None = None
    gbps: float | None = None
    bound_us: float | None = None
    bound_percent: float | None = None
    observed_percent: float | None = None
    clock_mhz: float | None = None
    temperature_c: float | None = None
    verified: bool = False
    failure: str | None = None
    message: str = ""
    standing: Standing = "fresh"
    comparisons: tuple[Comparison, ...] = ()
    flushed_instructions: bool = False
    cycles: float | None = None
    limited_by: tuple[str, ...] = ()
    noise_floor_us: float | None = None
    machine: str = ""

    @property
    def place(self) -> str:
        """The device as it is shown: `hip:0`, or `hip:0 on gpu-box`."""
        return f"{self.device} on {self.machine}" if self.machine else self.device


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A name for timings to compare with, when it was last set for a unit (Unix seconds), and its size."""

    name: str
    set_at: float
    units: int
    timings: int
