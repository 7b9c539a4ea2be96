"""Units and timings as a table shows them among thousands, which JSON has as arrays: 5,000 units with 100,000 timings
are 90 MB of it as `Unit`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.timings import Comparison, Timing
from ckwatch.model.topics import Topic
from ckwatch.model.verification import VerificationOutcome
from ckwatch.wire.alerts import Standing, standing
from ckwatch.wire.figures_text import AT_WORK, STAND_IN, toolchain_words
from ckwatch.wire.state import TaggedState, Unit

FLUSHED = ", instruction caches flushed"


class TimingRow(NamedTuple):
    """The visible part of a timing, in µs; see `ckwatch.Timing`. The verdicts are those against the baseline and the
    previous artifact, empty if there is none, with the ratios of the medians. With flushed instruction caches `device`
    says so, for such timings are as those of another one. `device` is a product, and `place` says which: `hip:0`."""

    id: int
    shape: str
    cache: str
    device: str
    median_us: float
    tflops: float | None
    gbps: float | None
    bound_us: float | None
    bound_percent: float | None
    verified: bool
    standing: str
    taken_at: float
    failure: str
    message: str
    baseline_verdict: str
    baseline_ratio: float | None
    previous_verdict: str
    previous_ratio: float | None
    observed_percent: float | None = None
    place: str = ""

    @property
    def is_time(self) -> bool:
        """True if there is a time, and it is that of a device, not of a stand-in."""
        return not self.failure and self.median_us > 0 and STAND_IN not in self.device

    @property
    def standing_words(self) -> str:
        """`fresh`, or `stale, not verified`."""
        return self.standing if self.verified else f"{self.standing}, not verified"


class UnitRow(NamedTuple):
    """The visible part of a unit; see `ckwatch.Unit`. `place` is `PATH:LINE:COLUMN`, counted from one. `to_measure`
    counts shapes; `cause` is the newest one; `artifact` is what was analyzed last. `verification` is its summary, or
    why there is none; `verification_fresh` says that it is of the present artifact. `toolchains`: results with other
    toolchains. `timed_at`: when the last of its timings was taken (Unix seconds). `untimed`: they are left out."""

    id: str
    kernel: str
    instance: str
    arch: str
    place: str
    phase: str
    outcome: str
    fresh: bool
    errors: int
    seconds: float
    finished_at: float
    cause: str
    measuring: str
    to_measure: int
    unmeasured: str
    headline: str
    artifact: str
    verification: str
    verification_outcome: str
    verifying: bool
    slow: str
    profiled_at: float = 0.0
    generation: int = 0
    verification_fresh: bool = False
    toolchains: str = ""
    timed_at: float = 0.0
    untimed: bool = False
    timings: tuple[TimingRow, ...] = ()

    @property
    def standing(self) -> Standing:
        """The unit as alerts see it."""
        failed = self.verification_fresh and self.verification_outcome == VerificationOutcome.FAILED
        return standing(
            self.outcome,
            self.timings,
            lambda timing: (
                ("previous", timing.previous_verdict, timing.previous_ratio or 1.0),
                ("baseline", timing.baseline_verdict, timing.baseline_ratio or 1.0),
            ),
            self.verification if failed else None,
        )

    @property
    def state(self) -> str:
        """One word: what it is doing, else its outcome, as the command line says it."""
        if self.measuring:
            return "timing"
        if self.verifying:
            return "verifying"
        if self.phase in AT_WORK:
            return self.phase
        return self.outcome or self.phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A `Snapshot` with units as rows without their timings."""

    seq: int
    states: Mapping[Topic, TaggedState | UnitRow]


def unit_row(unit: Unit, *, untimed: bool = False) -> UnitRow:
    """A unit, whose timings may be left out."""
    start, figures, verification = unit.place.start, unit.figures, unit.verification
    return UnitRow(
        unit.id,
        unit.kernel,
        unit.instance,
        unit.arch,
        f"{unit.place.path}:{start.line + 1}:{start.column + 1}",
        unit.phase,
        unit.outcome or "",
        unit.fresh,
        unit.errors,
        unit.seconds,
        unit.finished_at or 0.0,
        unit.cause[0].what if unit.cause else "",
        unit.measuring or "",
        len(unit.to_measure),
        unit.unmeasured,
        "" if figures is None else figures.headline,
        "" if figures is None else figures.artifact_key,
        unit.unverified if verification is None else verification.summary or unit.unverified,
        "" if verification is None else verification.outcome,
        unit.verifying,
        unit.slow,
        unit.profiled_at or 0.0,
        unit.generation,
        verification is not None and verification.standing == "fresh",
        toolchain_words((one.name, one.outcome, one.working) for one in unit.toolchains),
        0.0 if untimed else max((timing.taken_at for timing in unit.timings), default=0.0),
        untimed,
        () if untimed else tuple(map(timing_row, unit.timings)),
    )


def read_row(raw: Sequence[Any]) -> UnitRow:
    """A unit as JSON has it."""
    return UnitRow._make((*raw[:-1], tuple(map(TimingRow._make, raw[-1]))))


def timing_row(timing: Timing) -> TimingRow:
    """A timing."""
    baseline, previous = (_comparison(timing, kind) for kind in ("baseline", "previous"))
    return TimingRow(
        timing.id,
        timing.shape,
        timing.cache,
        timing.device_description + (FLUSHED if timing.flushed_instructions else ""),
        timing.median_us,
        timing.tflops,
        timing.gbps,
        timing.bound_us,
        timing.bound_percent,
        timing.verified,
        timing.standing,
        timing.taken_at,
        timing.failure or "",
        timing.message,
        "" if baseline is None else baseline.verdict,
        None if baseline is None else baseline.ratio,
        "" if previous is None else previous.verdict,
        None if previous is None else previous.ratio,
        timing.observed_percent,
        timing.place,
    )


def _comparison(timing: Timing, kind: str) -> Comparison | None:
    return next((one for one in timing.comparisons if one.against.partition(" ")[0] == kind), None)
