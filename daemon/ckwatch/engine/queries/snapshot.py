"""The state of a workspace: everything at once, what changed since, the diagnostics of a file.

Each unit is converted once for everybody who sees the same state, and in a snapshot only when it is its turn to be
sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from anyio import to_thread

from ckwatch.core.events import MAIN
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.file_diagnostics import file_diagnostics, fold_diagnostics, normal_path, refused_shapes
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.changes import ChangePages, TopicState
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.to_wire import shown_to_wire, unit_to_wire, workspace_to_wire
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.topics import WORKSPACE, Topic
from ckwatch.wire import state as wire
from ckwatch.wire.rows import Overview, UnitRow, unit_row

SENT_UNITS_KEPT = 200
"""Units whose last states are kept, 4 KB each with their JSON: followers that come together want the same."""


class SentUnitCache:
    """The units that were asked for last, as they were sent."""

    def __init__(self, loop: EngineLoop) -> None:
        self._loop = loop
        self._kept: dict[tuple[str, str], tuple[int, wire.Unit]] = {}

    def named(self, scope: str, name: str) -> wire.Unit | None:
        """The unit as a client sees it; None if there is none."""
        unit = self._loop.state.seen(scope, name)
        return None if unit is None else self.of(scope, unit)

    def of(self, scope: str, unit: UnitState) -> wire.Unit:
        """This state of a unit, which `scope` sees."""
        seq = self._loop.feed.last(unit.key.scope, Topic.unit(unit.key.unit))
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

    def clear(self) -> None:
        """Nobody has asked for a while."""
        self._kept.clear()

    def forget(self, client: str) -> None:
        """Drop the units of a client's view."""
        self._kept = {key: value for key, value in self._kept.items() if key[0] != client}


class LazySnapshot(Mapping[Topic, TopicState]):
    """By topic: `others`, then what `shown` makes of what `seen` gives for each of `names`; None leaves it out."""

    def __init__(
        self,
        others: Mapping[Topic, TopicState],
        names: Iterable[str],
        seen: Callable[[str], UnitState | None],
        shown: Callable[[UnitState], wire.Unit | UnitRow],
    ) -> None:
        self._others = others
        self._names = tuple(names)
        self._seen = seen
        self._shown = shown

    def __getitem__(self, topic: Topic) -> TopicState:
        if topic in self._others:
            return self._others[topic]
        unit = self._seen(topic.name) if topic.kind == "unit" else None
        if unit is None:
            raise KeyError(topic)
        return self._shown(unit)

    def __iter__(self) -> Iterator[Topic]:
        yield from self._others
        for name in self._names:
            if self._seen(name) is not None:
                yield Topic.unit(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SnapshotQueries:
    """Questions that followers ask."""

    def __init__(self, loop: EngineLoop, lookup: UnitLookup, sent: SentUnitCache) -> None:
        self._loop = loop
        self._lookup = lookup
        self._sent = sent
        self._pages = ChangePages(loop.feed, loop.state.views, self._topic)
        self._row_pages = ChangePages(loop.feed, loop.state.views, self._row_topic)

    @property
    def _state(self) -> State:
        return self._loop.state

    async def snapshot(self, scope: str) -> wire.Snapshot:
        """Everything; each unit as it is when it is read."""
        seq, states = await self._everything(scope, partial(self._sent.of, scope))
        return wire.Snapshot(seq=seq, states=states)  # type: ignore[arg-type]  # of whole units

    async def overview(self, scope: str) -> Overview:
        """Everything but timings, with units as rows."""
        seq, states = await self._everything(
            scope, lambda unit: unit_row(unit_to_wire(unit, timings=False), untimed=True)
        )
        return Overview(seq=seq, states=states)

    async def unit_rows(self, scope: str, units: Sequence[str]) -> Iterator[UnitRow]:
        """Those of the units that are there, each as it is when it is read."""
        return map(unit_row, filter(None, map(partial(self._sent.named, scope), units)))

    async def _everything(
        self, scope: str, shown: Callable[[UnitState], wire.Unit | UnitRow]
    ) -> tuple[int, LazySnapshot]:
        seq = self._loop.feed.seq
        states: dict[Topic, TopicState] = {WORKSPACE: workspace_to_wire(self._state, scope)}
        paths = {*self._loop.diagnosed.paths(MAIN), *self._state.main.diagnostics}
        view = self._state.views.get(scope)
        if view is not None:
            paths |= {*self._loop.diagnosed.paths(scope), *view.diagnostics}
        for path in sorted(paths):
            states[Topic.file(path)] = await self.file(scope, path)
        # What changes until a unit is read comes again as a change after `seq`.
        units = LazySnapshot(states, self._state.members(scope), partial(self._state.seen, scope), shown)
        return seq, units

    async def changes(self, scope: str, after: int, *, rows: bool = False) -> Sequence[wire.Change]:
        """The next topics that changed after `after`, units as `rows` or whole; waits until there is one."""
        return await (self._row_pages if rows else self._pages).after(scope, after)

    async def units(self, scope: str, patterns: Sequence[str] | None) -> Iterator[wire.Unit]:
        """The units that the patterns mean, each as it is when it is read: five thousand at once would be 10 MB. Raises
        UnknownUnitError for a pattern that means none."""
        await self._lookup.loaded()
        return filter(None, map(partial(self._sent.named, scope), await self._lookup.names(scope, patterns)))

    def rest(self) -> None:
        """Forget what was sent: nothing has happened for a while."""
        self._sent.clear()
        self._pages.clear()
        self._row_pages.clear()

    async def file(self, scope: str, path: str) -> wire.File:
        """The diagnostics of a file."""
        loop, normal = self._loop, normal_path(path)
        inputs = file_diagnostics(self._state, loop.diagnosed, scope, normal)
        shapes = refused_shapes(self._state, loop.diagnosed, loop.shape_refusals, scope, normal)
        seen = {name: self._state.seen(scope, name) for name in inputs[1]}
        generations = {name: unit.input.generation for name, unit in seen.items() if unit is not None}
        diagnostics: tuple[Diagnostic, ...] = ()
        if any(inputs[:3]) or shapes is not None:
            diagnostics = await to_thread.run_sync(fold_diagnostics, *inputs, shapes or tuple)
        return wire.File(path=path, diagnostics=diagnostics, generations=generations)

    async def _row_topic(self, scope: str, topic: Topic) -> TopicState | None:
        state = await self._topic(scope, topic)
        return unit_row(state) if isinstance(state, wire.Unit) else state

    async def _topic(self, scope: str, topic: Topic) -> TopicState | None:
        if topic.kind == "unit":
            return self._sent.named(scope, topic.name)
        if topic.kind == "file":
            return await self.file(scope, topic.name)
        if topic.kind == "show":
            return shown_to_wire(self._state)
        return workspace_to_wire(self._state, scope)
