"""Units as clients are sent them, converted once for everybody who sees the same state.

In a snapshot each is converted when it is its turn to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ckwatch.core.events import MAIN
from ckwatch.core.state import UnitState
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.to_wire import unit_to_wire
from ckwatch.wire import state as wire

SENT_UNITS_KEPT = 1000
"""Units whose last states are kept: followers want the same ones at one time."""


class SentUnitCache:
    """The last ones that were asked for."""

    def __init__(self, runtime: EngineLoop) -> None:
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
        shown = unit_to_wire(unit)
        if scope == unit.key.scope or unit.key.scope == MAIN:
            self._kept.pop(key, None)
            self._kept[key] = (seq, shown)
            if len(self._kept) > SENT_UNITS_KEPT:
                del self._kept[next(iter(self._kept))]
        return shown

    def forget(self, client: str) -> None:
        """The client has gone, and its view."""
        self._kept = {key: value for key, value in self._kept.items() if key[0] != client}


TopicState = wire.Unit | wire.File | wire.Workspace


class LazySnapshot(Mapping[str, TopicState]):
    """By topic: `others`, then what `unit` gives for each of `names`; None leaves it out."""

    def __init__(
        self, others: Mapping[str, TopicState], names: Iterable[str], unit: Callable[[str], wire.Unit | None]
    ) -> None:
        self._others = others
        self._names = tuple(names)
        self._unit = unit

    def __getitem__(self, topic: str) -> TopicState:
        if topic in self._others:
            return self._others[topic]
        kind, _, name = topic.partition("/")
        unit = self._unit(name) if kind == "unit" else None
        if unit is None:
            raise KeyError(topic)
        return unit

    def __iter__(self) -> Iterator[str]:
        yield from self._others
        for name in self._names:
            if self._unit(name) is not None:
                yield f"unit/{name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)
