"""Benchmarks as clients see them: devices, timings, comparisons, baselines, and the requests for them."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ckwatch.model.gpu_specs import Device as Device
from ckwatch.model.roofline import ProcessorRoof as ProcessorRoof
from ckwatch.model.timings import Baseline as Baseline
from ckwatch.model.timings import CacheName, Comparison, Timing
from ckwatch.wire.values import Value


class Devices(Value):
    """The devices, the best first, then those of other machines, and by kind why others cannot be used. `host`: the
    machine."""

    devices: tuple[Device, ...]
    absent: dict[str, str] = field(default_factory=dict)
    host: str = ""


class Samples(Value):
    """The record of a measurement: raw samples, clocks, temperatures, versions."""

    times_us: tuple[float, ...]
    clocks_mhz: tuple[float, ...] = ()
    stop: str = ""
    readings: tuple[dict[str, float | None], ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
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
