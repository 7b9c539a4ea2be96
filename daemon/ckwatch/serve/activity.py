"""Whether anybody uses the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio

_LONGEST_PAUSE_S = 60.0


class Activity:
    """Counts requests, streams among them."""

    def __init__(self) -> None:
        self._requests = 0
        self._last = anyio.current_time()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is in progress as long as the context is open."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._last = anyio.current_time()

    async def until_idle(self, ask: Callable[[], Awaitable[tuple[bool, float]]]) -> float:
        """Return when for long enough no request came, none was in progress, and there was no work.

        `ask` tells whether there is work, and how many seconds are enough; 0 for never. They are returned. By the
        monotonic clock: neither a set clock nor a suspended machine counts.
        """
        quiet_since = anyio.current_time()
        while True:
            busy, idle_s = await ask()
            now = anyio.current_time()
            if busy or self._requests:
                quiet_since = now
            left_s = max(quiet_since, self._last) + idle_s - now
            if idle_s and left_s <= 0:
                return idle_s
            pause_s = min(left_s, max(idle_s / 10, 0.01), _LONGEST_PAUSE_S) if idle_s else _LONGEST_PAUSE_S
            await anyio.sleep(pause_s)
