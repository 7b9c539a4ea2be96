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

    async def until_idle(self, idle_s: float, busy: Callable[[], Awaitable[bool]]) -> None:
        """Return when for `idle_s` no request came, none was in progress, and `busy` was false each time it was asked.

        By the monotonic clock: neither a set clock nor a suspended machine counts.
        """
        quiet_since = anyio.current_time()
        while True:
            if self._requests or await busy():
                quiet_since = anyio.current_time()
            left_s = max(quiet_since, self._last) + idle_s - anyio.current_time()
            if left_s <= 0 and not self._requests:
                return
            await anyio.sleep(min(left_s, max(idle_s / 10, 0.01), _LONGEST_PAUSE_S))
