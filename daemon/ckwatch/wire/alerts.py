"""News for somebody who looks elsewhere: a unit that fails, becomes wrong, or becomes slower.

Only what changed is an alert: what already was so when one began to look is none, nor is what goes on at the moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ckwatch.model.amounts import change
from ckwatch.model.kernels import Outcome
from ckwatch.model.verification import VerificationOutcome

if TYPE_CHECKING:
    from ckwatch.wire.state import Unit

Kind = Literal["failed", "wrong", "slower"]


@dataclass(frozen=True, slots=True)
class Alert:
    """A unit that was better before; `text` says what is wrong, without its name."""

    kind: Kind
    unit: str
    text: str

    @property
    def line(self) -> str:
        """The alert in one line."""
        return f"{self.unit}: {self.text}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A unit as alerts see it. `wrong`: what was found of its results; `slower`: the ratio by shape, cache and what it
    is compared with."""

    failed: bool = False
    wrong: frozenset[str] = frozenset()
    slower: Mapping[str, float] = field(default_factory=dict)


def standing_of(unit: Unit) -> Standing:
    """The standing of a unit, by what is known of its present artifact."""
    verified = unit.verification
    wrong = {
        f"{timing.shape}: {timing.message.partition(chr(10))[0] or timing.failure}"
        for timing in unit.timings
        if timing.failure and timing.standing == "fresh"
    }
    if verified is not None and verified.outcome == VerificationOutcome.FAILED.value and verified.standing == "fresh":
        wrong.add(verified.summary)
    slower = {
        f"{timing.shape}, {timing.cache}, against the {found.against.partition(' ')[0]}": found.ratio
        for timing in unit.timings
        if timing.standing == "fresh"
        for found in timing.comparisons
        if found.verdict == "SLOW" and found.against.startswith(("previous", "baseline"))
    }
    return Standing(unit.outcome in (Outcome.FAILED, Outcome.FAULTED), frozenset(wrong), slower)


def alerts(unit: str, before: Standing, now: Standing) -> Iterator[Alert]:
    """The news that is worse now than before."""
    if now.failed and not before.failed:
        yield Alert("failed", unit, "failed to build")
    for text in sorted(now.wrong - before.wrong):
        yield Alert("wrong", unit, text)
    for place in sorted(now.slower.keys() - before.slower.keys()):
        yield Alert("slower", unit, f"{change(now.slower[place])} on {place}")
