"""The result of a benchmark: a report with raw samples, or a failure that says why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.roofline import CacheState


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableKind:
    """A kind of device that cannot be used here, and why: no driver library, a wrong version, no device."""

    kind: str
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices that a worker finds on its machine, the best first; behind them the devices of other machines."""

    devices: tuple[DeviceFacts, ...]
    absent: tuple[UnavailableKind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """The state of a device at a moment; None for what cannot be read."""

    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled_by: tuple[str, ...] = ()


class StopReason(StrEnum):
    """Why a measurement ended: precise enough, noise that more samples do not change, out of time or samples, or
    certainly above its limit."""

    PRECISE = "precise"
    STEADY_NOISE = "steady noise"
    BUDGET = "budget"
    SLOWER = "slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Raw samples in microseconds, in the order in which they were taken, and the clock at each where it can be read.

    `discarded` samples were taken below the clock floor and are not among them. `blocks`: the contestant had so many
    turns; the samples are its blocks one after the other, of equal length as far as that goes.
    """

    cache: CacheState
    times_us: tuple[float, ...]
    clocks_mhz: tuple[float, ...] = ()
    discarded: int = 0
    stop: StopReason = StopReason.BUDGET
    blocks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericsVerification:
    """How the numerics were verified, before and after timing. `compared` elements of each seed's output.

    `worst_error` is the largest |y - reference| / (absolute_tolerance + relative_tolerance * |reference|): up to 1 is
    right.
    """

    seeds: tuple[int, ...]
    compared: int
    worst_error: float
    relative_tolerance: float
    absolute_tolerance: float
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantResult:
    """One contestant's samples. `verification` None: what it computes is not known."""

    contestant: str
    samples: tuple[Samples, ...]
    workspace_bytes: int = 0
    verification: NumericsVerification | None = None

    def of(self, cache: CacheState) -> Samples | None:
        return next((samples for samples in self.samples if samples.cache is cache), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """The resolution of a device's events in microseconds: the least difference of times, and the spread of pairs of
    events with nothing between."""

    resolution_us: float
    jitter_us: float

    @property
    def us(self) -> float:
        """Differences below it say nothing of a kernel."""
        return max(self.resolution_us, self.jitter_us)


class FailureKind(StrEnum):
    """Why there is no timing, by whose fault it is."""

    # the kernel's
    REFUSED = "not supported"
    ERROR_CODE = "error code"
    FAULT = "device fault"
    CRASHED = "crashed"
    HUNG = "does not end"
    WRONG = "wrong result"
    UNWRITTEN = "output not written"
    OUT_OF_BOUNDS = "written out of bounds"
    NONDETERMINISTIC = "not deterministic"
    IMPOSSIBLE = "faster than possible"
    LOCAL_MEMORY = "too much LDS"
    UNLOADABLE = "cannot be loaded"
    # the request's or the machine's
    NO_MEMORY = "too little device memory"
    NO_DEVICE = "no device"
    WRONG_ARCH = "another arch"
    BUSY = "device in use"
    REFERENCE = "wrong reference"
    # the host's
    NO_DRIVER = "no driver"
    LOST = "device lost"
    LAUNCHER = "worker not started"
    GARBLED = "no answer that makes sense"
    BROKEN = "worker broke down"


KERNEL_FAILURES = frozenset(
    {
        *(FailureKind.REFUSED, FailureKind.ERROR_CODE, FailureKind.FAULT, FailureKind.CRASHED, FailureKind.HUNG),
        *(FailureKind.WRONG, FailureKind.UNWRITTEN, FailureKind.OUT_OF_BOUNDS, FailureKind.NONDETERMINISTIC),
        *(FailureKind.IMPOSSIBLE, FailureKind.LOCAL_MEMORY, FailureKind.UNLOADABLE),
    }
)
"""Failures that say something of the kernel: an error diagnostic. All others say something of the machine."""

DETERMINISTIC_FAILURES = frozenset(
    {FailureKind.REFUSED, FailureKind.WRONG, FailureKind.UNWRITTEN, FailureKind.LOCAL_MEMORY, FailureKind.ERROR_CODE}
)
"""Failures that come again when the same artifact is measured on the same shape: they are kept and not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFailure:
    """Why there is no timing. `message` is one sentence, `hint` what to do, `detail` all that is known: the kernel's
    standard error, the arguments. `contestant` is the one whose fault it is; a `mistake` of the user's reference is
    nobody's."""

    kind: FailureKind
    message: str
    hint: str = ""
    detail: str = ""
    contestant: str = ""
    device: DeviceFacts | None = None
    mistake: ReferenceMistake | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkReport:
    """A measurement that went well. `versions` of everything that took part (driver, runtime, worker); `readings`
    before the first warm-up, after each, and at the end. `started_at` in Unix seconds, for display.
    `warning`: why others may have measured at the same time. `raced`: taken as a `Race`.
    `flushed_instructions`: before each launch, instruction caches were flushed. `noise_floor`: None of those
    that were taken before it was. `slowed`: during which part of the blocks of launches something held the device's
    clock down, by what it was."""

    device: DeviceFacts
    measured: tuple[ContestantResult, ...]
    readings: tuple[DeviceReading, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    started_at: float = 0.0
    seconds: float = 0.0
    warning: str = ""
    raced: bool = False
    flushed_instructions: bool = False
    noise_floor: NoiseFloor | None = None
    slowed: Mapping[str, float] = field(default_factory=dict)
