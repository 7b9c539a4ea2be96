"""Units in the form in which they are sent, made once for all who see the same state."""

from __future__ import annotations

from ckwatch.events import MAIN
from ckwatch.machine.state import UnitState
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.shown import unit_of
from ckwatch.wire import values as wire

KEPT = 1000
"""Units whose last states are kept: followers want the same ones at one time."""


class SentUnits:
    """The last ones that were asked for."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._kept: dict[tuple[str, str], tuple[int, wire.Unit]] = {}

    def named(self, scope: str, name: str) -> wire.Unit | None:
        """The unit as a client sees it; None if there is none."""
        unit = self._runtime.state.seen(scope, name)
        return None if unit is None else self.of(scope, unit)

    def of(self, scope: str, unit: UnitState) -> wire.Unit:
        """This state of a unit, which `scope` sees."""
        seq = self._runtime.feed.last(unit.key.scope, f"unit/{unit.key.unit}")
        key = (unit.key.scope, unit.key.unit)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == seq:
            return kept[1]
        shown = unit_of(unit)
        if scope == unit.key.scope or unit.key.scope == MAIN:
            self._kept.pop(key, None)
            self._kept[key] = (seq, shown)
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return shown

    def forget(self, client: str) -> None:
        """The client has gone, and its view."""
        self._kept = {key: value for key, value in self._kept.items() if key[0] != client}
