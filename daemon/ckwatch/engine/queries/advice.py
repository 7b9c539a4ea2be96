"""Advice on units, once it has been found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field

from ckwatch.core.events import AdviceRequested
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(eq=False)
class AdviceQuery:
    """Asks for advice, and waits for it."""

    _loop: EngineLoop
    _lookup: UnitLookup
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1), init=False)

    async def advice(self, scope: str, patterns: Sequence[str] | None) -> list[Diagnostic]:
        """The advice on the units that the patterns mean, of those that are built. Raises UnknownUnitError."""
        state, feed = self._loop.state, self._loop.feed
        await self._lookup.loaded()
        names = await self._lookup.names(scope, patterns)
        number = next(self._numbers)
        await self._loop.post(AdviceRequested(number, tuple(names), scope))
        pending = dict.fromkeys(names)
        while pending:
            seq = feed.seq
            if state.advice_requests >= number:
                pending = {name: None for name in pending if self._is_wanted(scope, name)}
            if pending:
                await feed.wait(seq)
        seen = (state.seen(scope, name) for name in names)
        return [one for unit in seen if unit is not None for one in unit.advice_diagnostics]

    def _is_wanted(self, scope: str, name: str) -> bool:
        unit = self._loop.state.seen(scope, name)
        return unit is not None and unit.advice.wanted
