"""Runs something once for all calls that come within a short while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import anyio

from ckwatch.model.delays import Delay


class Debouncer:
    """Awaits `run` `delay` after the first call since the last run, with what it and the calls in between were given,
    each once. `start` runs a function in the background.
    """

    def __init__(self, start: Callable[..., Any], run: Callable[..., Awaitable[None]], delay: Delay) -> None:
        self._start = start
        self._run = run
        self._delay = delay
        self._given: dict[Any, None] | None = None
        """None while nothing is to be run."""

    def __call__(self, *given: Hashable) -> None:
        """Run soon."""
        if self._given is None:
            self._given = {}
            self._start(self._wait)
        self._given.update(dict.fromkeys(given))

    async def _wait(self) -> None:
        await anyio.sleep(self._delay.seconds)
        given, self._given = self._given or {}, None
        await self._run(*given)
