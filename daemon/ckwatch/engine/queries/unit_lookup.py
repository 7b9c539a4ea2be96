"""Finds the units that a question names, once it is known which units there are."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ckwatch.core.unit_state import UnitState
from ckwatch.engine.loop import EngineLoop
from ckwatch.model.errors import UnknownUnitError
from ckwatch.model.unit_patterns import select_units, suggest_pattern


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
        """The unit with this id, after the load. Raises UnknownUnitError."""
        await self.loaded()
        found = self._loop.state.seen(scope, unit)
        if found is None:
            raise await self.unknown(scope, unit)
        return found

    async def names(self, scope: str, patterns: Sequence[str] | None) -> list[str]:
        """The ids that the patterns mean; all for None. Raises UnknownUnitError for a pattern that means none."""
        members = self._loop.state.members(scope)
        names, unknown = select_units(members, None if patterns is None else tuple(patterns))
        if unknown is not None:
            raise await self.unknown(scope, unknown)
        return names

    async def unknown(self, scope: str, name: str) -> UnknownUnitError:
        """The error to raise for a name that means no unit, with the nearest one that does."""
        units = list(self._loop.state.members(scope).values())
        hint = await to_thread.run_sync(suggest_pattern, units, name)
        return UnknownUnitError(f"no kernel, instance or unit is called '{name}'", hint)
