"""The choices of a view: a kernel, a unit, a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING

from ckwatch import CkwatchError
from ckwatch_web.content import Choice
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

Suits = Callable[["UnitRow"], bool]
"""True of a unit that a view has something to show of."""

MOST_NEAR = 5
COMPARED, COMPARED_LENGTH = 200, 200
"""So many names are compared letter by letter, and so much of one that may have any length."""


class GoneError(CkwatchError):
    """The address names something that is not there. `choice` has what is, with no value."""

    def __init__(self, choice: Choice, named: str) -> None:
        super().__init__(f"The address names {choice.key}={named}, which no longer exists here, or never did.")
        self.choice = choice
        self.named = named

    def near(self) -> list[str]:
        """Names like the one that is gone, the nearest first. Takes up to 0.1 s."""
        sought = self.named[:COMPARED_LENGTH]

        pairs = {*pairwise(sought)}

        def alike(name: str) -> int:
            return len(pairs & {*pairwise(name)})

        return get_close_matches(sought, nlargest(COMPARED, self.choice.options, key=alike), n=MOST_NEAR)


def choose(key: str, label: str, options: Iterable[str] | Mapping[str, str], query: Query, default: str = "") -> Choice:
    """A choice with what the address says; else `default`, or the first. Raises GoneError if what the address says is
    not among the options."""
    named = dict(options) if isinstance(options, Mapping) else {one: one for one in options}
    value = query.get(key, "")
    if value and value not in named:
        raise GoneError(Choice(key=key, label=label, options=named, value=""), value)
    if not value:
        value = default if default in named else next(iter(named), "")
    return Choice(key=key, label=label, options=named, value=value)


def kernel_choice(feed: Feed, query: Query, suits: Suits = bool) -> Choice:
    """A kernel of the workspace; by default that of `chosen_unit`."""
    last = feed.units.get(chosen_unit(feed, {}, suits))
    kernels = sorted({row.kernel for row in feed.units.values()})
    return choose("kernel", "Kernel", kernels, query, "" if last is None else last.kernel)


def unit_choice(feed: Feed, query: Query, suits: Suits = bool, *, label: str = "Unit") -> Choice:
    """A unit of the workspace; by default `chosen_unit`."""
    return choose("unit", label, sorted(feed.units), query, chosen_unit(feed, query, suits))


def chosen_unit(feed: Feed, query: Query, suits: Suits = bool) -> str:
    """The unit that the address names, also if it is gone, else the one that was timed or built last, of those that
    suit the view if there are any; empty without any."""
    if named := query.get("unit", ""):
        return named
    last = max(feed.units.values(), key=lambda row: (suits(row), row.timed_at, row.finished_at), default=None)
    return "" if last is None else last.id


def shapes_of(units: Iterable[UnitRow]) -> Sequence[str]:
    """The shapes that these units were timed on, in the order of their names' lengths and letters: 512 before 4096."""
    return sorted({timing.shape for row in units for timing in row.timings}, key=lambda name: (len(name), name))
