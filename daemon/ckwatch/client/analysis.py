"""What a program can ask of code objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.client.benchmarks import BenchmarkCalls

if TYPE_CHECKING:
    from ckwatch.client.http import Query
    from ckwatch.wire.analysis import Analysis, PredictedRanking
    from ckwatch.wire.values import Unit


class AnalysisCalls(BenchmarkCalls):
    """The part of a client that needs no GPU to speak of performance."""

    async def analysis(self, unit: str | Unit) -> Analysis:
        """What the code object of `KERNEL/INSTANCE@ARCH`, which must have been built, tells."""
        from ckwatch.wire.analysis import Analysis

        name = unit if isinstance(unit, str) else unit.id
        kernel, _, instance = name.partition("/")
        return await self._access.get(Analysis, ("units", kernel, instance, "analysis"))

    async def predicted(self, kernel: str, shape: str, *, arch: str | None = None, part: str = "") -> PredictedRanking:
        """The compiled instances of a kernel by predicted time on a shape, for a part (`MI300X`) of the arch."""
        from ckwatch.wire.analysis import PredictedRanking

        query: Query = [("kernel", kernel), ("shape", shape), ("part", part), *([("arch", arch)] if arch else [])]
        return await self._access.get(PredictedRanking, ("predictions",), query)
