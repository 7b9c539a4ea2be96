"""Questions about benchmarks, answered from the history and the machine's state."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from anyio import to_thread

from ckwatch.errors import CkwatchError, UnknownUnitError
from ckwatch.events import MAIN, AnalyzeRequested
from ckwatch.history import HistoryError, Timings
from ckwatch.history.comparing import compared
from ckwatch.history.ranking import ranked
from ckwatch.history.summaries import wire_details, wire_timings
from ckwatch.machine.state import State, UnitState
from ckwatch.model.diagnostic import Severity
from ckwatch.model.outcome import Outcome
from ckwatch.model.selection import chosen, suggestion
from ckwatch.runtime.benches import Benches
from ckwatch.runtime.measuring import Measurements
from ckwatch.runtime.memoirs import Memoirs
from ckwatch.runtime.runtime import Runtime
from ckwatch.timing.job import Cache
from ckwatch.timing.report import Failure
from ckwatch.wire.compared import Baseline, Compared
from ckwatch.wire.timings import BenchLine, Device, Devices, Ranked, Timing, TimingDetail

FROM_ELSEWHERE = ("previous", "library", "baseline")
"""What a unit may be compared with besides units; `baseline:NAME` too."""


AT_ONCE = 50
"""Units that one event names."""


class TimingAnswers:
    """Fits `ckwatch.serve.engine.BenchmarkEngine`."""

    def __init__(self, runtime: Runtime, benches: Benches, measurements: Measurements, memoirs: Memoirs) -> None:
        self._runtime = runtime
        self._benches = benches
        self._measurements = measurements
        self._memoirs = memoirs

    @property
    def _state(self) -> State:
        return self._runtime.state

    async def devices(self, *, again: bool) -> Devices:
        """What units can be timed on. Raises CkwatchError when the worker cannot be asked."""
        found = await self._measurements.devices(again=again)
        if isinstance(found, Failure):
            raise CkwatchError(found.message, found.hint or None)
        launcher = self._measurements.settings.launcher
        return Devices(
            devices=tuple(
                Device(name=one.name, description=one.description, arch=one.arch, pci=one.pci, driver=one.driver)
                for one in found.devices
            ),
            absent={one.kind: f"{one.why}\n{one.hint}" if one.hint else one.why for one in found.absent},
            host=" ".join(launcher) if launcher else socket.gethostname(),
        )

    def bench(
        self, patterns: Sequence[str] | None, shapes: Sequence[str] | None, *, device: str | None, force: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[BenchLine]]:
        """As the protocol says."""
        return self._benches.bench(patterns, shapes, device=device, force=force)

    async def timings(self, unit: str, shape: str | None, limit: int) -> list[Timing]:
        """Past timings, newest first; those of a unit that is no more too. Raises UnknownUnitError, HistoryError."""
        timings = self._timings()
        records = await to_thread.run_sync(timings.of_unit, unit, shape, limit)
        if not records and unit not in self._state.main.members:
            raise await self._unknown(unit)
        present = self._present([unit])[unit]
        return await to_thread.run_sync(lambda: [row for one in records for row in wire_timings(one, present)])

    async def timing(self, number: int) -> list[TimingDetail]:
        """A measurement with its samples, one for each cache state. Raises CkwatchError for an unknown number."""
        record = await to_thread.run_sync(self._timings().one, number)
        if record is None:
            raise CkwatchError(f"there is no measurement {number}", "`ckwatch history UNIT --json` tells the numbers")
        present = self._present([record.unit])[record.unit]
        return await to_thread.run_sync(wire_details, record, present)

    async def best(self, kernel: str, shape: str | None) -> list[Ranked]:
        """A kernel's instances by time. Raises UnknownUnitError for an unknown kernel, CkwatchError for a shape."""
        kernels = {one.kernel.name: one for one in self._state.main.kernels.values()}
        known = kernels.get(kernel)
        if known is None:
            there = f"there are {', '.join(kernels)}" if kernels else None
            raise UnknownUnitError(f"there is no kernel '{kernel}'", there)
        shapes = [one.name for one in known.kernel.shapes]
        if shape is not None and shape not in shapes:
            raise CkwatchError(f"'{kernel}' has no shape '{shape}'", f"it has {', '.join(shapes) or 'none'}")
        units = [unit.id for unit in known.units]
        records = await to_thread.run_sync(self._timings().of_kernel, kernel, shape)
        present, refused = self._present(units), self._refused(units)
        cache = Cache.COLD if Cache.COLD in self._measurements.settings.caches else Cache.HOT
        return await to_thread.run_sync(ranked, records, present, refused, cache)

    async def compare(self, unit: str, against: str, shape: str | None) -> list[Compared]:
        """A unit's timings against another unit's, `previous`, `library`, `baseline` or `baseline:NAME`.

        Raises UnknownUnitError, and CkwatchError where there is nothing to compare.
        """
        ours = await self._one(unit)
        others = against.partition(":")[0] in FROM_ELSEWHERE
        theirs = against if others else await self._one(against)
        present = self._present([ours] if others else [ours, theirs])
        timings = self._timings()
        return await to_thread.run_sync(lambda: compared(timings, ours, theirs, shape, present=present))

    async def set_baseline(self, name: str, patterns: Sequence[str] | None) -> list[str]:
        """Let `name` mean the latest timings of units; those that have any. Raises UnknownUnitError, CkwatchError."""
        names, unknown = chosen(self._state.members(MAIN), None if patterns is None else tuple(patterns))
        if unknown is not None:
            raise await self._unknown(unknown)
        timings, at = self._timings(), time.time()
        found = await to_thread.run_sync(lambda: [unit for unit in names if timings.set_baseline(unit, name, at) > 0])
        if not found:
            raise CkwatchError("none of these units has been timed", "`ckwatch bench` takes timings")
        await self._compare_anew(found)
        return found

    async def baselines(self) -> list[Baseline]:
        """All baselines, the one that was set last first."""
        found = await to_thread.run_sync(self._timings().baselines)
        return [Baseline(name=one.name, set_at=one.set_at, units=one.units, timings=one.timings) for one in found]

    async def remove_baseline(self, name: str) -> int:
        """Let `name` mean nothing; of how many units. Raises CkwatchError when it means nothing already."""
        units = await to_thread.run_sync(self._timings().units_of_baseline, name)
        count = await to_thread.run_sync(self._timings().remove_baseline, name)
        if not count:
            raise CkwatchError(f"there is no baseline '{name}'", "`ckwatch baseline list` lists them")
        await self._compare_anew(units)
        return count

    async def _compare_anew(self, units: Sequence[str]) -> None:
        """The figures of these units have another baseline."""
        for first in range(0, len(units), AT_ONCE):
            some = tuple(units[first : first + AT_ONCE])
            await self._runtime.post(AnalyzeRequested(MAIN, some, again=True, at=time.time()))

    def _timings(self) -> Timings:
        timings = self._memoirs.timings
        if timings is None:
            raise HistoryError(self._memoirs.problem or "the history cannot be used")
        return timings

    def _present(self, units: Sequence[str]) -> dict[str, str | None]:
        """The present artifact of each unit."""
        return {name: _artifact(self._state.main.units.get(name)) for name in units}

    def _refused(self, units: Sequence[str]) -> dict[str, str]:
        """Why units have no artifact."""
        reasons = {}
        for name in units:
            unit = self._state.main.units.get(name)
            if unit is not None and unit.outcome is Outcome.FAILED:
                errors = [one.message for one in unit.diagnostics if one.severity is Severity.ERROR]
                reasons[name] = errors[0] if errors else "it does not compile"
        return reasons

    async def _one(self, pattern: str) -> str:
        """The one unit that a pattern names."""
        names, unknown = chosen(self._state.members(MAIN), (pattern,))
        if unknown is not None:
            raise await self._unknown(pattern)
        if len(names) != 1:
            listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            raise CkwatchError(f"'{pattern}' names {len(names)} units", f"name one of them: {listed}")
        return names[0]

    async def _unknown(self, name: str) -> CkwatchError:
        units = list(self._state.members(MAIN).values())
        hint = await to_thread.run_sync(suggestion, units, name)
        return UnknownUnitError(f"no kernel, instance or unit is called '{name}'", hint)


def _artifact(unit: UnitState | None) -> str | None:
    if unit is None or not unit.fresh or unit.outcome is not Outcome.BUILT or unit.result is None:
        return None
    return unit.result.artifact
