"""A judge's verdict on a kernel that is to take another's place: right on inputs that it cannot know, then faster."""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.lazy_dataclass import dataclass


class JudgedAs(StrEnum):
    """`not judged`: the reference is wrong or has nothing to be compared with, or one of the two cannot be executed."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_JUDGED = "not judged"


class SpeedBasis(StrEnum):
    """The basis of a comparison of two kernels: timings of both on a device, times that were predicted for both,
    or cycles that are estimated from instructions counted on the emulator."""

    TIMINGS = "timings"
    PREDICTION = "prediction"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRow:
    """The candidate against the reference on one shape: `ratio` is its time as a part of the other's, `verdict` FAST,
    SLOW, SAME or UNSURE. `cache`: of timings."""

    shape: str
    verdict: str
    ratio: float
    cache: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`verdict` with the `reasons` against the candidate, or why nothing was judged. `seed`: all that was drawn follows
    from it. `right`, `refused`: problems that the candidate computed, and that it does not support. `speed` by `basis`,
    None where it was not looked at, since the candidate is refused already."""

    candidate: str
    reference: str
    seed: int
    verdict: JudgedAs
    reasons: tuple[Diagnostic, ...] = ()
    right: int = 0
    refused: int = 0
    basis: SpeedBasis | None = None
    device: str = ""
    speed: tuple[SpeedRow, ...] = ()
