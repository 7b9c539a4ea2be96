"""Runs something once for all calls that come within a short while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from ckwatch_lsp.session.session import Session


class Debouncer:
    """`run` is awaited `after_s` seconds after the first call since the last run; calls in between are part of it."""

    def __init__(self, session: Session, run: Callable[[], Awaitable[None]], after_s: float = 0.1) -> None:
        self._session = session
        self._run = run
        self._after_s = after_s
        self._waits = False

    def __call__(self) -> None:
        """There is a reason."""
        if not self._waits:
            self._waits = True
            self._session.start(self._wait)

    async def _wait(self) -> None:
        await anyio.sleep(self._after_s)
        self._waits = False
        await self._run()
