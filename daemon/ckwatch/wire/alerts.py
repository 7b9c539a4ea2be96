"""News for somebody who looks elsewhere: a unit that fails, becomes wrong, or becomes slower.

Only what changed is an alert: what already was so when one began to look is none, nor is what goes on at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from ckwatch.model.amounts import change
from ckwatch.model.kernels import Outcome
from ckwatch.model.lazy_dataclass import dataclass
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


class TimedShape(Protocol):
    """The part of a timing that alerts see."""

    @property
    def shape(self) -> str: ...
    @property
    def cache(self) -> str: ...
    @property
    def standing(self) -> str: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def message(self) -> str: ...


Timed = TypeVar("Timed", bound=TimedShape)
Verdicts = Iterable[tuple[str, str, float]]
"""With what a timing is compared, the verdict, and the ratio."""


def standing_of(unit: Unit) -> Standing:
    """The standing of a unit, by what is known of its present artifact."""
    verified = unit.verification
    refuted = None
    if verified is not None and verified.outcome == VerificationOutcome.FAILED.value and verified.standing == "fresh":
        refuted = verified.summary
    return standing(
        unit.outcome,
        unit.timings,
        lambda timing: (
            (found.against.partition(" ")[0], found.verdict, found.ratio)
            for found in timing.comparisons
            if found.against.startswith(("previous", "baseline"))
        ),
        refuted,
    )


def standing(
    outcome: str | None, timings: Iterable[Timed], compared: Callable[[Timed], Verdicts], refuted: str | None
) -> Standing:
    """The standing of a unit by its parts; `refuted` is what a verification of its present artifact found."""
    fresh = [timing for timing in timings if timing.standing == "fresh"]
    wrong = {f"{one.shape}: {one.message.partition(chr(10))[0] or one.failure}" for one in fresh if one.failure}
    if refuted is not None:
        wrong.add(refuted)
    slower = {
        f"{one.shape}, {one.cache}, against the {against}": ratio
        for one in fresh
        for against, verdict, ratio in compared(one)
        if verdict == "SLOW"
    }
    return Standing(outcome in (Outcome.FAILED, Outcome.FAULTED), frozenset(wrong), slower)


def alerts(unit: str, before: Standing, now: Standing) -> Iterator[Alert]:
    """Changes for the worse."""
    if now.failed and not before.failed:
        yield Alert("failed", unit, "failed to build")
    for text in sorted(now.wrong - before.wrong):
        yield Alert("wrong", unit, text)
    for place in sorted(now.slower.keys() - before.slower.keys()):
        yield Alert("slower", unit, f"{change(now.slower[place])} on {place}")
