"""Asynchronous fixtures whose context belongs to one task.

pytest-asyncio runs the two halves of a fixture in two tasks, and anyio's cancel scopes have to be left by the task that
entered them. So a task of its own enters the context, waits for the test, and leaves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

Value = TypeVar("Value")


@asynccontextmanager
async def in_own_task(context: AbstractAsyncContextManager[Value]) -> AsyncIterator[Value]:
    """Yield the value of `context`. Errors that it raises while the test runs are raised at the test's end."""
    entered: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with context as value:
            entered.set_result(value)
            await leave.wait()

    task = asyncio.create_task(hold())
    try:
        await asyncio.wait((task, entered), return_when=asyncio.FIRST_COMPLETED)
        if entered.done():
            yield entered.result()
    finally:
        leave.set()
        await task
