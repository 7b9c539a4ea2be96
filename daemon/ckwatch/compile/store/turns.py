"""Runs short functions in one thread, one after another; those that wait go together."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
from anyio import to_thread

_Result = TypeVar("_Result")


class _Job:
    """`called` is set when the job has run, or is the first of the next turn."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.called = anyio.Event()
        self.done: Future[Any] = Future()

    def run(self) -> None:
        try:
            self.done.set_result(self._function())
        except Exception as error:  # noqa: BLE001  # raised where it was asked for
            self.done.set_exception(error)


class Turns:
    """One event loop's. A turn begins `apart_s` after the last one at the earliest, so that many share what is the same
    for all; the first does not wait."""

    def __init__(self, apart_s: float) -> None:
        self._apart_s = apart_s
        self._waiting: list[_Job] = []
        self._is_running = False
        self._began_s = float("-inf")

    async def run(self, function: Callable[[], _Result]) -> _Result:
        """Return what `function` returns, or raise what it raises. Must not be cancelled: others wait for this turn."""
        job = _Job(function)
        self._waiting.append(job)
        with anyio.CancelScope(shield=True):
            if self._is_running:
                await job.called.wait()
            if not job.done.done():
                await self._turn()
        result: _Result = job.done.result()
        return result

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


def _run(jobs: list[_Job]) -> None:
    for job in jobs:
        job.run()
