"""The way to listings, which are loaded when somebody looks at instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.machine.state import UnitState
from ckwatch.runtime.analyses import Analyses
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.tools import Tools
from ckwatch.wire.analysis import Isa

if TYPE_CHECKING:
    from ckwatch.runtime.listings import Listings


class Isas:
    """Listings of artifacts."""

    def __init__(self, runtime: Runtime, tools: Tools, analyses: Analyses) -> None:
        self._from = runtime, tools, analyses
        self._listings: Listings | None = None

    async def of(self, unit: UnitState, name: str | None, *, lines: bool) -> Isa:
        """As `Listings.of`."""
        if self._listings is None:
            made = await to_thread.run_sync(self._load)
            self._listings = self._listings or made
        return await self._listings.of(unit, name, lines=lines)

    def _load(self) -> Listings:
        from ckwatch.runtime.listings import Listings

        return Listings(*self._from)
