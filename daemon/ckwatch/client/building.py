"""A build that is under way, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckwatch.client.access import parsed
from ckwatch.client.failures import DaemonGoneError
from ckwatch.client.http import Exchange
from ckwatch.client.results import UnitResult, unit_result

if TYPE_CHECKING:
    from ckwatch.client.sweep import Parameters
    from ckwatch.wire.messages import BuildLine


class BuildLines:
    """Iterates over `start`, a `unit` for each that settles, and `done`. May be waited for with a time limit."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._done = False

    def __aiter__(self) -> BuildLines:
        return self

    async def __anext__(self) -> BuildLine:
        """The next line. Raises DaemonGoneError when the daemon ends before the build."""
        from ckwatch.wire.messages import BuildLine

        while not self._done:
            data = await self._exchange.line()
            if data is None:
                raise DaemonGoneError("the daemon was stopped during the build", began=True)
            line = parsed(BuildLine, data)
            self._done = line.event == "done"
            if line.event != "heartbeat":
                return line
        raise StopAsyncIteration


class Sweep:
    """Iterates over the results of a sweep as they settle. `units` are the parameters of all its units, by id."""

    def __init__(self, lines: BuildLines, units: Mapping[str, Parameters]) -> None:
        self.units = units
        self._lines = lines

    def __aiter__(self) -> Sweep:
        return self

    async def __anext__(self) -> UnitResult:
        """The next result. Raises as `BuildLines`."""
        async for line in self._lines:
            if line.event == "unit":
                result = unit_result(line)
                return unit_result(line, self.units.get(result.id))
        raise StopAsyncIteration
