"""The units and messages that a watcher shows. Plain values, changed by `note` alone; all times are Unix seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import nsmallest
from typing import TYPE_CHECKING

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.unit_patterns import UnitPattern
from ckwatch.wire.figures_text import AT_WORK, state_of

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.state import Change, File, Unit, Workspace


class UnitFilter:
    """The units that any of `patterns` names, as `ckwatch.model.unit_patterns` says; without patterns all."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._compiled = tuple(map(UnitPattern, patterns))
        self._known: dict[tuple[str, str], bool] = {}

    @property
    def everything(self) -> bool:
        """True if there is no limit."""
        return not self.patterns

    def __contains__(self, unit: Unit) -> bool:
        if self.everything:
            return True
        key = (unit.id, unit.place.path)
        found = self._known.get(key)
        if found is None:
            found = any(
                pattern.matches(unit.kernel, unit.instance, unit.id, unit.place.path) for pattern in self._compiled
            )
            self._known[key] = found
        return found


def is_broken(unit: Unit) -> bool:
    """Return True if the unit failed or has errors, and nothing works on it."""
    state = state_of(unit)
    return state not in AT_WORK and (state in ("failed", "faulted") or unit.errors > 0)


Rank = tuple[int, float, str]


@dataclass(frozen=True, slots=True)
class WorkRound:
    """Units that were worked on between two moments of quiet."""

    began_at: float
    ended_at: float | None
    units: int
    settled: int


class Board:
    """The units that `meant` holds, and the messages that concern them."""

    def __init__(self, meant: UnitFilter | None = None) -> None:
        self.workspace: Workspace | None = None
        self.units: dict[str, Unit] = {}
        self.files: dict[str, File] = {}
        self._meant = meant or UnitFilter()
        self._since: dict[str, float] = {}
        self._ranks: dict[str, Rank] = {}
        self._counts: Counter[str] = Counter()
        self._working: set[str] = set()
        self._round: set[str] = set()
        self._began_at = 0.0
        self._ended_at: float | None = None

    def note(self, change: Change, now: float) -> bool:
        """Take in a change; whether it concerns these units."""
        kind, name = change.topic.kind, change.topic.name
        state = change.state
        if state is None:
            if kind == "unit":
                return self._remove_unit(name, now)
            return kind != "file" or self.files.pop(name, None) is not None
        if state.kind == "workspace":
            self.workspace = state
        elif state.kind == "file":
            self.files[state.path] = state
        elif state.kind == "unit" and state in self._meant:
            self._note_unit(state, now)
        else:
            return False
        return True

    def since(self, unit: Unit) -> float:
        """When the unit came into its phase, or the earliest that is known."""
        return self._since.get(unit.id, 0.0)

    def waits_for(self, unit: Unit) -> str:
        """Return what a unit at work waits for; empty if nothing."""
        if unit.phase == "queued":
            return "" if self.workspace is None else self.workspace.waits_for
        return unit.waits_for

    def first(self, number: int, wanted: Callable[[Unit], bool] | None = None) -> list[Unit]:
        """The units that matter most, of the `wanted` ones: those that failed; then those at work, the most advanced
        first; then the others.

        In each group the most recent come first, of those at work the ones that have been at it for longest.
        """
        names = self._ranks if wanted is None else [name for name in self._ranks if wanted(self.units[name])]
        return [self.units[name] for name in nsmallest(number, names, key=self._ranks.__getitem__)]

    @property
    def working(self) -> AbstractSet[str]:
        """The units that are at work."""
        return self._working

    @property
    def busy(self) -> bool:
        """True if a unit is at work."""
        return bool(self._working)

    @property
    def round(self) -> WorkRound | None:
        """The present round of work, or else the last one."""
        if not self._round:
            return None
        settled = len(self._round) - len(self._working)
        return WorkRound(self._began_at, self._ended_at, len(self._round), settled)

    @property
    def counts(self) -> Counter[str]:
        """How many units are in each state, by the word for it."""
        return +self._counts

    def diagnostics(self) -> Iterator[Diagnostic]:
        """The messages of all files that concern these units, or no unit."""
        for path in sorted(self.files):
            for found in self.files[path].diagnostics:
                if self._meant.everything or not found.units or any(unit in self.units for unit in found.units):
                    yield found

    def _note_unit(self, unit: Unit, now: float) -> None:
        before = self.units.get(unit.id)
        self.units[unit.id] = unit
        if before is None:
            # it may have been in this phase for long
            self._since[unit.id] = unit.cause[0].at if unit.cause else now
        elif before.phase != unit.phase:
            self._since[unit.id] = now
        if before is not None:
            self._counts[state_of(before)] -= 1
        self._counts[state_of(unit)] += 1
        self._ranks[unit.id] = self._rank(unit)
        if unit.phase not in AT_WORK:
            self._settle(unit.id, now)
            return
        if not self._working:
            self._round.clear()
            self._began_at, self._ended_at = now, None
        self._working.add(unit.id)
        self._round.add(unit.id)

    def _remove_unit(self, name: str, now: float) -> bool:
        unit = self.units.pop(name, None)
        if unit is None:
            return False
        self._counts[state_of(unit)] -= 1
        del self._since[name], self._ranks[name]
        self._settle(name, now)
        return True

    def _rank(self, unit: Unit) -> Rank:
        state = state_of(unit)
        if state in AT_WORK:
            return 1 + AT_WORK.index(state), self.since(unit), unit.id
        group = 0 if is_broken(unit) else len(AT_WORK) + (2 if state == "not built" else 1)
        return group, -(unit.cause[0].at if unit.cause else 0.0), unit.id

    def _settle(self, unit: str, now: float) -> None:
        if unit in self._working:
            self._working.discard(unit)
            if not self._working:
                self._ended_at = now
