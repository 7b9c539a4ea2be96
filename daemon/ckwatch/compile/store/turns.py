"""Runs short functions in one thread, one after another; those that wait go together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import anyio
from anyio import to_thread

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Job(Generic[_Result]):
    function: Callable[[], _Result]
    called: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has run, or is the first of the next turn."""
    has_run: bool = False
    result: _Result | None = None
    error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self.function()
        except Exception as error:  # noqa: BLE001  # raised where it was asked for
            self.error = error
        self.has_run = True


class Turns:
    """One event loop's. A turn begins `apart_s` after the last one at the earliest, so that many share what is the same
    for all; the first does not wait."""

    def __init__(self, apart_s: float) -> None:
        self._apart_s = apart_s
        self._waiting: list[_Job[object]] = []
        self._is_running = False
        self._began_s = float("-inf")

    async def run(self, function: Callable[[], _Result]) -> _Result:
        """Return what `function` returns, or raise what it raises. Must not be cancelled: others wait for this turn."""
        job: _Job[_Result] = _Job(function)
        self._waiting.append(cast("_Job[object]", job))
        with anyio.CancelScope(shield=True):
            if self._is_running:
                await job.called.wait()
            if not job.has_run:
                await self._turn()
        if job.error is not None:
            raise job.error
        return cast("_Result", job.result)

    async def _turn(self) -> None:
        self._is_running = True
        await anyio.sleep(max(0.0, self._began_s + self._apart_s - time.monotonic()))
        self._began_s = time.monotonic()
        jobs, self._waiting = self._waiting, []
        await to_thread.run_sync(_run, jobs)
        for job in jobs:
            job.called.set()
        if self._waiting:
            self._waiting[0].called.set()
        else:
            self._is_running = False


def _run(jobs: list[_Job[object]]) -> None:
    for job in jobs:
        job.run()
