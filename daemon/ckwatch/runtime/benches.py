"""Benchmarks that somebody follows: units are built first, then timed, and each timing is told when it is there."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio import CancelScope
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.errors import CkwatchError, plain_errors
from ckwatch.events import MAIN, MeasureDropped, MeasureRequested
from ckwatch.machine.state import UnitState
from ckwatch.model.selection import chosen
from ckwatch.runtime.builds import Builds
from ckwatch.runtime.measuring import Measurements
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.shown import timings_of
from ckwatch.wire.timings import BenchLine

NOT_BUILT = "it was not built"
GONE = "it is no more"
CHANGED = "it was edited or cancelled meanwhile"


@dataclass(slots=True)
class _Following:
    """One request. `pending`: shapes that are not told yet, by unit, and the number of the request for them."""

    send: MemoryObjectSendStream[BenchLine]
    shapes: tuple[str, ...] | None
    force: bool
    device: str | None
    pending: dict[str, tuple[int, dict[str, None]]] = field(default_factory=dict)
    begun: set[tuple[str, str]] = field(default_factory=set)
    built: bool = False
    ended: bool = False

    def tell(self, line: BenchLine) -> None:
        """Lines are no more than a few for each unit and shape."""
        if not self.ended:
            self.send.send_nowait(line)

    def end_if_all_is_told(self) -> None:
        """Tell the end, once."""
        if self.built and not self.pending and not self.ended:
            self.tell(BenchLine(event="done"))
            self.ended = True
            self.send.close()


class Benches:
    """The benchmarks that are followed now."""

    def __init__(self, runtime: Runtime, builds: Builds, measurements: Measurements) -> None:
        self._runtime = runtime
        self._builds = builds
        self._numbers = itertools.count(1)
        self._followed: list[_Following] = []
        measurements.on_stage = self._stage

    @asynccontextmanager
    async def bench(
        self,
        patterns: Sequence[str] | None,
        shapes: Sequence[str] | None,
        *,
        device: str | None = None,
        force: bool = False,
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        """The lines of a benchmark; leaving the context before `done` gives up what nobody else wants.

        Raises UnknownUnitError when a pattern means no unit, CkwatchError when no unit has such a shape.
        """
        async with self._builds.build(MAIN, patterns, force=False, check_only=False) as lines:
            self._require_shapes(patterns, shapes)
            send, receive = anyio.create_memory_object_stream[BenchLine](float("inf"))
            following = _Following(send, None if shapes is None else tuple(shapes), force, device)
            self._followed.append(following)
            try:
                async with plain_errors(), anyio.create_task_group() as tasks:

                    async def build() -> None:
                        async for line in lines:
                            if line.event == "unit" and line.id is not None:
                                await self._built(following, line.id, line.problem)
                        following.built = True
                        following.end_if_all_is_told()

                    tasks.start_soon(build)
                    tasks.start_soon(self._watch, following)
                    yield receive
                    tasks.cancel_scope.cancel()
            finally:
                self._followed.remove(following)
                send.close()
                receive.close()
                if following.pending:
                    with CancelScope(shield=True):
                        await self._runtime.post(MeasureDropped(tuple(following.pending), at=time.time()))

    def _require_shapes(self, patterns: Sequence[str] | None, shapes: Sequence[str] | None) -> None:
        members = self._runtime.state.members(MAIN)
        names, _ = chosen(members, None if patterns is None else tuple(patterns))
        there = dict.fromkeys(shape.name for name in names for shape in members[name].kernel.shapes)
        for shape in shapes or ():
            if shape not in there:
                known = f"there are {', '.join(there)}" if there else "their kernel files have no [[shape]]"
                raise CkwatchError(f"none of these units has a shape '{shape}'", known)

    async def _built(self, following: _Following, name: str, problem: str | None) -> None:
        unit = self._runtime.state.main.units.get(name)
        if unit is None or problem is not None or unit.outcome != "built":
            following.tell(BenchLine(event="skipped", unit=name, text=problem or NOT_BUILT))
            return
        shapes = [shape.name for shape in unit.unit.kernel.shapes]
        wanted = dict.fromkeys(name for name in shapes if following.shapes is None or name in following.shapes)
        if not wanted:
            text = "its kernel file has no [[shape]] to be timed on" if not shapes else "it has none of these shapes"
            following.tell(BenchLine(event="skipped", unit=name, text=text))
            return
        number = next(self._numbers)
        following.pending[name] = (number, wanted)
        await self._runtime.post(
            MeasureRequested(number, (name,), tuple(wanted), following.force, following.device, at=time.time())
        )

    async def _watch(self, following: _Following) -> None:
        """Tell what is there after each change, until cancelled."""
        feed = self._runtime.feed
        while True:
            seq = feed.seq
            for name in list(following.pending):
                self._look(following, name)
            following.end_if_all_is_told()
            await feed.wait(seq)

    def _look(self, following: _Following, name: str) -> None:
        number, shapes = following.pending[name]
        state = self._runtime.state
        if state.measure_requests < number:
            return
        unit = state.main.units.get(name)
        for shape in list(shapes):
            if unit is None or shape not in unit.to_measure:
                del shapes[shape]
                self._tell(following, name, unit, shape)
        if not shapes:
            del following.pending[name]

    def _tell(self, following: _Following, name: str, unit: UnitState | None, shape: str) -> None:
        rows = [] if unit is None else [row for row in timings_of(unit) if row.shape == shape]
        fresh = [row for row in rows if row.standing == "fresh"]
        for row in fresh:
            following.tell(BenchLine(event="timing", unit=name, shape=shape, timing=row))
        if not fresh:
            why = GONE if unit is None else unit.unmeasured or CHANGED
            following.tell(BenchLine(event="skipped", unit=name, shape=shape, text=why))

    def _stage(self, unit: str, shape: str, stage: str) -> None:
        for following in self._followed:
            if unit not in following.pending or shape not in following.pending[unit][1]:
                continue
            if (unit, shape) not in following.begun:
                following.begun.add((unit, shape))
                following.tell(BenchLine(event="began", unit=unit, shape=shape))
            following.tell(BenchLine(event="stage", unit=unit, shape=shape, text=stage))
