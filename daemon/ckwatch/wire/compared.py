"""Two timings side by side, and baselines, as clients see them."""

from __future__ import annotations

from ckwatch.wire.timings import CacheName, Comparison, Timing
from ckwatch.wire.value import Value


class Compared(Value):
    """A unit (`ours`) against something else (`theirs`) on one shape and cache state.

    `theirs` is another unit, `previous`, `library NAME`, or `baseline NAME`. `comparison` None: there is none, and
    `why_not` says why. What a library takes has no timing of its own, its median is in the comparison.
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
    """A name for timings to compare with, when it was last set for a unit (Unix seconds), and how much it holds."""

    name: str
    set_at: float
    units: int
    timings: int
