"""Benchmarks as clients see them: devices, timings, comparisons, baselines, and the requests for them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ckwatch.model.kernels import ParameterValue
from ckwatch.wire.schema import Value

CacheName = Literal["cold", "hot"]
VerdictName = Literal["FAST", "SLOW", "SAME", "UNSURE"]


class Device(Value):
    """A device that units can be timed on. `machine`: the host that has it, empty where it is that of `Devices`."""

    name: str
    description: str
    arch: str
    pci: str | None = None
    driver: str = ""
    machine: str = ""

    @property
    def label(self) -> str:
        """As it is shown: `hip:0`, or `hip:0 on gpu-box`."""
        return f"{self.name} on {self.machine}" if self.machine else self.name

    @property
    def address(self) -> str:
        """The name of the device in requests, also when numbers change: `0000:c1:00.0`, `gpu-box/0000:c1:00.0`,
        `cpu`."""
        identity = self.pci or self.name
        return f"{self.machine}/{identity}" if self.machine else identity


class Devices(Value):
    """The devices, the best first, then those of other machines, and by kind why others cannot be used. `host`: the
    machine."""

    devices: tuple[Device, ...]
    absent: dict[str, str] = Field(default_factory=dict)
    host: str = ""


class Comparison(Value):
    """A timing against another: `ratio` is its median over the other's. FAST, SLOW: the difference is significant.

    `other_device`: where the other timing was taken, if that was another device; the two then differ by their devices
    too, however alike these are."""

    verdict: VerdictName
    ratio: float
    against: str
    other_median_us: float
    interleaved: bool = False
    other_device: str = ""


class Timing(Value):
    """One artifact on one shape, device and cache state; the samples are summed up.

    `id` is the number of its measurement in the history (`timing` has the samples). `minimum_us` to `q3_us` is the
    interval that comparisons use, `relative_error` the standard error of the median. `converged`: it did not end for
    want of time or samples. `given_up`: it was certainly slower than what it competed with. `bound_us` is the
    roofline's time at the specified clock; `bound_percent` and `observed_percent` are the parts of the roofline that
    were reached, at that clock and at the observed one. `failure`: the kind of failure (then all figures are 0 and
    `cache` is empty), described by `message`. `standing`: whether it belongs to the unit's present artifact.
    `comparisons`: with the previous artifact, the baseline and the vendor's library, as far as they exist.
    `flushed_instructions`: the instruction caches were flushed before each launch. `cycles`: the median of time ×
    clock, where the clock was read beside the times; under a power limit cycles repeat and times do not. `limited_by`:
    what held the clock down meanwhile, such as `power`. `noise_floor_us`: differences below it say nothing. `machine`:
    the host that has the device, where that is not the one of the daemon's worker.
    """

    id: int
    unit: str
    kernel: str
    instance: str
    arch: str
    shape: str
    cache: CacheName | Literal[""]
    device: str
    device_description: str
    pci: str | None = None
    sizes: dict[str, int] = Field(default_factory=dict)
    runtime: dict[str, float] = Field(default_factory=dict)
    parameters: dict[str, ParameterValue] = Field(default_factory=dict)
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
    artifact_key: str = ""
    benchmark_key: str = ""
    toolchain: str = ""
    commit: str | None = None
    taken_at: float = 0.0
    failure: str | None = None
    message: str = ""
    standing: Literal["fresh", "stale", "running"] = "fresh"
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


class Samples(Value):
    """The record of a measurement: raw samples, clocks, temperatures, versions."""

    times_us: tuple[float, ...]
    clocks_mhz: tuple[float, ...] = ()
    stop: str = ""
    readings: tuple[dict[str, float | None], ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    detail: str = ""


class TimingDetail(Samples):
    """A measurement with everything that was kept."""

    timing: Timing


class RankedTiming(Value):
    """An instance's place on a shape: its best timing, or why it has none.

    `sol_score`: how much of the gap between a baseline and the roofline's bound it closes, as SOL-ExecBench defines
    it: 0.5 is the baseline's, 1 the bound's. The baseline took `sol_baseline_us`: the vendor's library on this shape,
    else what `ckwatch baseline` named. Null where there is no bound or no baseline. `devices`: those that the ranked
    timings of this shape were taken on, where they are several; they are alike, and times differ by them too.
    """

    unit: str
    instance: str
    shape: str
    rank: int | None
    timing: Timing | None
    why_not: str = ""
    sol_score: float | None = None
    sol_baseline: Literal["library", "baseline", ""] = ""
    sol_baseline_us: float | None = None
    devices: tuple[str, ...] = ()


class BenchLine(Value):
    """A line of a benchmark's answer: `start`, `began`, a `stage`, a `timing`, `skipped` with why, `done` at the end.

    `shapes`: of `start` how many are to be timed, over all units; of a unit that is skipped how many with it. `known`:
    the timing comes from the history.
    """

    event: Literal["start", "began", "stage", "timing", "skipped", "done", "heartbeat"]
    unit: str | None = None
    shape: str | None = None
    timing: Timing | None = None
    shapes: int = 0
    known: bool = False
    text: str = ""


class Compared(Value):
    """A unit (`ours`) against something else (`theirs`) on one shape and cache state.

    `theirs` is another unit, `previous`, `library NAME`, or `baseline NAME`. When `comparison` is None, `why_not` says
    why. A library has no timing of its own: its median is in the comparison.
    """

    shape: str
    cache: CacheName
    ours: str
    theirs: str
    timing: Timing | None = None
    other: Timing | None = None
    comparison: Comparison | None = None
    why_not: str = ""


class Baseline(Value):
    """A name for timings to compare with, when it was last set for a unit (Unix seconds), and its size."""

    name: str
    set_at: float
    units: int
    timings: int


DeviceName = Annotated[
    str,
    Field(
        pattern=r"^(auto|([A-Za-z0-9][A-Za-z0-9._-]{0,252}/)?"
        r"(cpu|(hip|cuda):\d{1,3}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]))$"
    ),
]
BaselineName = Annotated[
    str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f:]+$", description="a baseline's name")
]
LimitUs = Annotated[float, Field(gt=0, allow_inf_nan=False)]
