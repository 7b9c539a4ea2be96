"""Runs something once for all calls that come within a short while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ckwatch.model.delays import Delay


class Debouncer:
    """Awaits `run` `delay` after the first call since the last run; calls in between are part of it.

    `start` runs a function in the background.
    """

    def __init__(self, start: Callable[..., Any], run: Callable[[], Awaitable[None]], delay: Delay) -> None:
        self._start = start
        self._run = run
        self._delay = delay
        self._waits = False

    def __call__(self) -> None:
        """Run soon."""
        if not self._waits:
            self._waits = True
            self._start(self._wait)

    async def _wait(self) -> None:
        await anyio.sleep(self._delay.seconds)
        self._waits = False
        await self._run()
