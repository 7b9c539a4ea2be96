"""Record: writes results to the history, which the next daemon reads when it starts."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio.lowlevel
from anyio import to_thread

from ckwatch.bench.history.artifacts import Artifacts
from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.imported import ImportedTimings
from ckwatch.bench.history.results import Results
from ckwatch.bench.history.runs import History, UnitRecord
from ckwatch.bench.history.timings import Timings
from ckwatch.core.effects import Record
from ckwatch.core.events import Cause, RecordFinished, RememberedUnit, UnitKey, Work, WorkKind
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.remembered_results import SettledUnit, settled_unit, stored_results

UNITS_AT_ONCE = 50
"""Units that are examined before other tasks get the event loop: two milliseconds."""

TOGETHER_S = 0.1
"""A transaction costs as much as ten results."""

RETRY_S = 30.0
"""After a failed write the history is left alone for so long; results stay in memory."""

Mark = tuple[int, float]
"""A hash of what distinguishes a record, and when it was made: enough to tell whether it is written already."""


class HistoryRecorder:
    """The history of one workspace, used by one task at a time. `problem` is shown to users."""

    def __init__(self, path: Path, state: State) -> None:
        self._history = History(path)
        self._state = state
        self._opened = False
        self._settled: dict[str, None] = {}
        """Units whose results are not written yet."""
        self._unwritten: dict[str, UnitRecord] = {}
        self._removed: dict[str, None] = {}
        self._known: dict[str, Mark] = {}
        self._tried_at = 0.0
        self.problem: str | None = None
        self.has_results = False
        """An earlier daemon has left results that may hold."""

    @property
    def results(self) -> Results | None:
        """The results that the next daemon takes for known, None while the history cannot be used."""
        return self._history.results if self._opened else None

    @property
    def timings(self) -> Timings | None:
        """The timings of units, None while the history cannot be used."""
        return self._history.timings if self._opened else None

    @property
    def artifacts(self) -> Artifacts | None:
        """The previous artifacts of units, None while the history cannot be used."""
        return self._history.artifacts if self._opened else None

    @property
    def imported(self) -> ImportedTimings | None:
        """Timings that others measured, None while the history cannot be used."""
        return self._history.imported if self._opened else None

    async def open(self) -> Mapping[str, RememberedUnit]:
        """Return the records of earlier daemons; none, and a `problem`, when they cannot be read."""
        try:
            return await to_thread.run_sync(self._remember)
        except HistoryError as error:
            self.problem = str(error)
            return {}

    async def record(self, effect: Record) -> RecordFinished:
        """Write new results, those of a while together."""
        self._settled |= dict.fromkeys(effect.units)
        await anyio.sleep(max(0.0, self._tried_at + TOGETHER_S - time.monotonic()))
        problem = await self._write(effect, effect.units)
        for name in effect.units:
            self._settled.pop(name, None)
        return RecordFinished(effect.work, problem)

    async def _write(self, effect: Record, settled: Collection[str]) -> str | None:
        """Write what is new, and the results of units that have just `settled`; what is wrong with the history, if
        anything."""
        results: list[SettledUnit] = []
        for count, name in enumerate(effect.units):
            if count % UNITS_AT_ONCE == UNITS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
            if name in settled and (found := settled_unit(self._state, name)) is not None:
                results.append(found)
            if (record := self._new_run(name)) is not None:
                self._known[name] = _mark_of(record)
                self._unwritten[name] = record
                self._removed.pop(name, None)
        for name in effect.removed:
            if name not in self._state.main.units:
                self._known.pop(name, None)
                self._unwritten.pop(name, None)
                self._removed[name] = None
        if not self._unwritten and not self._removed and not results:
            return self.problem
        if self.problem is not None and time.monotonic() - self._tried_at < RETRY_S:
            return self.problem
        records, removed = list(self._unwritten.values()), list(self._removed)
        self._tried_at = time.monotonic()
        try:
            if not self._opened:
                await to_thread.run_sync(self._open)
            await to_thread.run_sync(self._put, records, removed, results)
        except HistoryError as error:
            self.problem = str(error)
            return self.problem
        for record in records:
            if self._unwritten.get(record.unit) is record:
                del self._unwritten[record.unit]
        for name in removed:
            self._removed.pop(name, None)
        self.problem = self._history.notice
        return self.problem

    async def runs(self, unit: str, limit: int) -> list[UnitRecord]:
        """The unit's compiles, newest first, with one that is not written yet. Raises HistoryError."""
        latest = self._new_run(unit) or self._unwritten.get(unit)
        written = await to_thread.run_sync(self._history.runs, unit, limit) if self._opened else []
        if latest is None or (written and _mark_of(written[0]) == _mark_of(latest)):
            return written
        return [latest, *written][:limit]

    def _new_run(self, name: str) -> UnitRecord | None:
        unit = self._state.main.units.get(name)
        record = None if unit is None else _record_of(unit)
        return None if record is None or _is_known(self._known.get(name), record) else record

    async def note_start(self, pid: int, version: str) -> None:
        """Record that a daemon started."""
        if self._opened:
            try:
                await to_thread.run_sync(self._history.note_start, time.time(), pid, version)
            except HistoryError as error:
                self.problem = str(error)

    async def rest(self) -> None:
        """Keep little in memory."""
        await to_thread.run_sync(self._history.rest)

    async def close(self) -> None:
        """The daemon ends: write what is not written yet."""
        if self._opened and self.problem is None:
            last = Work(0, WorkKind.RECORD, UnitKey("", ""))
            await self._write(
                Record(last, tuple(self._state.main.units), tuple(self._state.removed)),
                {*self._state.unrecorded, *self._settled},
            )
        if self._opened:
            await to_thread.run_sync(self._close)

    def _put(self, records: list[UnitRecord], removed: list[str], results: list[SettledUnit]) -> None:
        self._history.record(records, removed)
        self._history.results.put(stored_results(self._state.root, results))

    def _remember(self) -> Mapping[str, RememberedUnit]:
        records = self._open()
        self._known = {name: _mark_of(record) for name, record in records.items()}
        self.has_results = self._history.results.any()
        return {name: _remembered(record) for name, record in records.items()}

    def _open(self) -> dict[str, UnitRecord]:
        self._history.open()
        self._opened = True
        self.problem = self._history.notice
        return self._history.units()

    def _close(self) -> None:
        try:
            self._history.prune()
            self._history.note_end(time.time())
        except HistoryError:
            pass  # it was shown while the daemon ran
        finally:
            self._history.close()


def _record_of(unit: UnitState) -> UnitRecord | None:
    result, render = unit.compile.result, unit.render.facts
    if render is None or not render.ok or not unit.settled:
        return None
    cause = tuple((link.what, link.at) for link in unit.cause.chain)
    if result is None or result.tokens != render.tokens:
        return UnitRecord(unit.key.unit, render.tokens, "", "checked", 0.0, 0.0, 0, True, dict(render.reads), cause)
    return UnitRecord(
        unit.key.unit,
        render.tokens,
        result.key,
        result.outcome.value,
        result.finished_at,
        result.seconds,
        result.peak_memory_bytes,
        result.from_store,
        dict(render.reads),
        cause,
    )


def _mark_of(record: UnitRecord) -> Mark:
    return hash((record.token_key, record.key, record.outcome, frozenset(record.reads.items()))), record.finished_at


def _is_known(old: Mark | None, new: UnitRecord) -> bool:
    """Return True if `new` is the same result, perhaps found in the store once more."""
    mark = _mark_of(new)
    return old is not None and old[0] == mark[0] and (new.from_store or old[1] == mark[1])


def _remembered(record: UnitRecord) -> RememberedUnit:
    cause: Cause | None = None
    for what, at in reversed(record.cause):
        cause = Cause(what, at, cause)
    return RememberedUnit(
        record.token_key, record.reads, cause or Cause("an earlier run", record.finished_at),
        record.peak_memory_bytes, record.finished_at,
    )  # fmt: skip
