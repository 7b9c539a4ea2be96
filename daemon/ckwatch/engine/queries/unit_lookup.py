"""Finds the units that a question names, once it is known which units there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyio import to_thread

from ckwatch.core.phases import Phase
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.loop import EngineLoop
from ckwatch.model.errors import UnknownUnitError
from ckwatch.model.unit_patterns import select_units, suggest_pattern

UNDECIDED = (Phase.WAITING, Phase.RENDERING, Phase.LOOKING)
"""Phases in which it is not known whether there is a result of the present input."""


class UnitLookup:
    """Units by id or pattern, as a view (`scope`) sees them."""

    def __init__(self, loop: EngineLoop) -> None:
        self._loop = loop

    async def loaded(self) -> None:
        """Return when the workspace is loaded, or cannot be."""
        main = self._loop.state.main
        while not main.started and main.problem is None:
            await self._loop.feed.wait(self._loop.feed.seq)

    async def one(self, scope: str, unit: str) -> UnitState:
        """The unit with this id (`id_of`), after the load. Raises UnknownUnitError."""
        found = self._loop.state.seen(scope, await self.id_of(scope, unit))
        if found is None:
            raise await self.unknown(scope, unit)
        return found

    async def id_of(self, scope: str, name: str) -> str:
        """The id of the unit called `KERNEL/INSTANCE@ARCH`, or `KERNEL/INSTANCE` for one arch; else the name as it is,
        after the load. Raises UnknownUnitError where the instance has several archs."""
        await self.loaded()
        members = self._loop.state.members(scope)
        if name in members:
            return name
        kernel, _, instance = name.partition("/")
        named = (unit for unit in members.values() if unit.kernel.name == kernel)
        found = sorted(unit.id for unit in named if unit.instance.name == instance)
        if len(found) > 1:
            raise UnknownUnitError(f"'{name}' is compiled for {len(found)} archs", f"name one: {', '.join(found)}")
        return found[0] if found else name

    async def looked_up(self, units: Iterable[UnitState]) -> list[UnitState]:
        """The units, as soon as it is known of each whether the store has its present input; without removed ones."""
        state = self._loop.state
        keys = [unit.key for unit in units]
        while any(unit.phase in UNDECIDED for unit in map(state.find, keys) if unit is not None):
            await self._loop.feed.wait(self._loop.feed.seq)
        return [unit for unit in map(state.find, keys) if unit is not None]

    async def names(self, scope: str, patterns: Sequence[str] | None) -> list[str]:
        """The ids that the patterns mean; all for None. Raises UnknownUnitError for a pattern that means none."""
        members = self._loop.state.members(scope)
        names, unknown = select_units(members, patterns)
        if unknown is not None:
            raise await self.unknown(scope, unknown)
        return names

    async def unknown(self, scope: str, name: str) -> UnknownUnitError:
        """The error to raise for a name that means no unit, with the nearest one that does."""
        units = list(self._loop.state.members(scope).values())
        hint = await to_thread.run_sync(suggest_pattern, units, name)
        return UnknownUnitError(f"no kernel, instance or unit is called '{name}'", hint)
