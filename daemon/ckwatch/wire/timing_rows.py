"""Timings as a table shows them among thousands: twenty of each of 5,000 units are 90 MB of JSON as `Timing`s."""

from __future__ import annotations

from typing import NamedTuple

from ckwatch.model.timings import Comparison, Standing, Timing
from ckwatch.wire.figures_text import STAND_IN

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


def timing_row(timing: Timing, standing: Standing) -> TimingRow:
    """A timing, whose standing may be another by now."""
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
        standing,
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
