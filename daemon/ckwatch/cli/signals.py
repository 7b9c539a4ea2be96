"""Ends a command on SIGTERM or SIGHUP as cleanly as on Ctrl-C: its compilers go with it.

This module is loaded by every command; anyio is not, until a command waits for something.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended."""


_ENDING = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(Exception):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def raising() -> Iterator[None]:
    """Raise TerminatedError in the body when SIGTERM or SIGHUP arrives, unless it is ignored, as under nohup."""

    def end(number: int, _frame: object) -> None:
        raise TerminatedError(number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@asynccontextmanager
async def stoppable() -> AsyncIterator[None]:
    """Cancel the body when SIGTERM or SIGHUP arrives, wait for its end, and raise TerminatedError.

    A signal that is ignored, as under nohup, stays ignored.
    """
    import anyio

    from ckwatch.model.errors import plain_errors

    wanted = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    received: list[int] = []
    async with plain_errors(), anyio.create_task_group() as tasks:

        async def watch(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
            with anyio.open_signal_receiver(*wanted) as signals:
                task_status.started()
                async for number in signals:
                    received.append(number)
                    tasks.cancel_scope.cancel()
                    return

        if wanted:
            await tasks.start(watch)
        yield
        tasks.cancel_scope.cancel()
    if received:
        raise TerminatedError(received[0])
