"""Runs short functions in one thread, one after another; those that wait go together."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
from anyio import to_thread

_Result = TypeVar("_Result")


class Turns:
    """One event loop's. Functions share a turn, so that what is the same for all is done once.

    A turn begins `apart_s` after the last one began, or sooner where `enough` functions wait or all that may come
    (`expected`, those that wait or run included) are there. The first does not wait.
    """

    def __init__(self, apart_s: float, enough: int, expected: Callable[[], int]) -> None:
        self._apart_s = apart_s
        self._enough = enough
        self._expected = expected
        self._waiting: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._turn: anyio.Event | None = None
        """The end of the present one."""
        self._complete = anyio.Event()
        self._began_s = float("-inf")

    async def run(self, function: Callable[[], _Result]) -> _Result:
        """Return what `function` returns, or raise what it raises. Must not be cancelled: others wait for this turn."""
        done: Future[_Result] = Future()
        self._waiting.append((function, done))
        if self._is_complete():
            self._complete.set()
        with anyio.CancelScope(shield=True):
            while not done.done():
                await (self._take_turn() if self._turn is None else self._turn.wait())
        return done.result()

    async def _take_turn(self) -> None:
        """Run what waits; it is known to all at once."""
        ended = self._turn = anyio.Event()
        try:
            if not self._is_complete():
                self._complete = anyio.Event()
                with anyio.move_on_after(max(0.0, self._began_s + self._apart_s - time.monotonic())):
                    await self._complete.wait()
            self._began_s = time.monotonic()
            jobs, self._waiting = self._waiting, []
            await to_thread.run_sync(_run, jobs)
        finally:
            self._turn = None
            ended.set()

    def _is_complete(self) -> bool:
        return len(self._waiting) >= min(self._enough, self._expected())


def _run(jobs: list[tuple[Callable[[], Any], Future[Any]]]) -> None:
    for function, done in jobs:
        try:
            done.set_result(function())
        except Exception as error:  # noqa: BLE001  # raised where it was asked for
            done.set_exception(error)
