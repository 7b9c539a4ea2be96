"""What a program can ask of code objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.client.benchmarks import BenchmarkCalls
from ckwatch.errors import UnknownUnitError

if TYPE_CHECKING:
    from ckwatch.client.http import Query
    from ckwatch.wire.analysis import Analysis, Calibrated, Isa, PredictedRanking
    from ckwatch.wire.values import Unit


class AnalysisCalls(BenchmarkCalls):
    """The part of a client that needs no GPU to speak of performance."""

    async def analysis(self, unit: str | Unit) -> Analysis:
        """What the code object of `KERNEL/INSTANCE@ARCH`, which must have been built, tells."""
        from ckwatch.wire.analysis import Analysis

        return await self._access.get(Analysis, (*unit_path(unit), "analysis"), await self._view())

    async def isa(self, unit: str | Unit, kernel: str | None = None, *, lines: bool = True) -> Isa:
        """The disassembly of the unit's main kernel, or of that called `kernel` (`Isa.kernels`), as text with folds.

        `lines`: with source lines, for which its device code is compiled once more (seconds to a minute, then kept);
        without, only if that has been done already.
        """
        from ckwatch.client.slow_answers import result_in
        from ckwatch.wire.analysis import IsaAnswer

        query: Query = [
            *([] if kernel is None else [("symbol", kernel)]),
            *([] if lines else [("lines", "false")]),
            *await self._view(),
        ]
        async with self._access.answer("GET", (*unit_path(unit), "isa"), query) as exchange:
            return await result_in(exchange, IsaAnswer)

    async def calibration(self) -> Calibrated:
        """How far predictions were off, over all units with a fresh timing."""
        from ckwatch.wire.analysis import Calibrated

        return await self._access.get(Calibrated, ("calibration",))

    async def predicted(self, kernel: str, shape: str, *, arch: str | None = None, part: str = "") -> PredictedRanking:
        """The compiled instances of a kernel by predicted time on a shape, for a part (`MI300X`) of the arch."""
        from ckwatch.wire.analysis import PredictedRanking

        query: Query = [("kernel", kernel), ("shape", shape), ("part", part), *([("arch", arch)] if arch else [])]
        return await self._access.get(PredictedRanking, ("predictions",), query)

    async def _view(self) -> Query:
        """What tells the daemon whose view is asked for."""
        return ()


def unit_path(unit: str | Unit) -> tuple[str, str, str]:
    """Where the daemon has a unit. Raises UnknownUnitError for what is no unit's id."""
    name = unit if isinstance(unit, str) else unit.id
    kernel, slash, instance = name.partition("/")
    if not slash or not instance:
        raise UnknownUnitError(f"'{name}' is no unit", "a unit is called KERNEL/INSTANCE@ARCH")
    return "units", kernel, instance
