"""What compilers say while they run, told as diagnostics before they end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from ckwatch.compile.plan import Side
from ckwatch.errors import plain_errors
from ckwatch.model.diagnostic import Diagnostic

COALESCE_S = 0.02
"""A message and its notes come in several pieces; so long they are waited for."""

BETWEEN_S = 0.25
"""After the first message others are told at most so often: reading a long log again takes a while."""


class Listener:
    """Gathers the lines of both passes, and tells the diagnostics in them.

    `place` makes diagnostics of a log; it runs in a thread. `tell` gets them, only when there are others than before.
    """

    def __init__(
        self, place: Callable[[str], tuple[Diagnostic, ...]], tell: Callable[[tuple[Diagnostic, ...]], None]
    ) -> None:
        self._place = place
        self._tell = tell
        self._lines: dict[Side | None, list[str]] = {}
        self._news = anyio.Event()
        self._told: tuple[Diagnostic, ...] = ()

    def said(self, side: Side | None, line: str) -> None:
        """A line of a pass."""
        self._lines.setdefault(side, []).append(line)
        if "error: " in line:
            self._news.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Tell while the body runs."""
        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            yield
            tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(COALESCE_S)
            self._news = anyio.Event()
            sides = sorted(self._lines.items(), key=lambda one: one[0] is Side.DEVICE)
            log = "".join(f"{line}\n" for _, lines in sides for line in lines)
            found = await anyio.to_thread.run_sync(self._place, log)
            if found and found != self._told:
                self._told = found
                self._tell(found)
            await anyio.sleep(BETWEEN_S)
