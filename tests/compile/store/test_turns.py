"""Functions that share turns. A turn that came too late would come after the test's time limit."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from ckwatch.compile.store.turns import Turns

NEVER_S = 1e6


async def test_the_first_and_those_that_come_alone_do_not_wait() -> None:
    turns = Turns(NEVER_S, 16, lambda: 1)
    assert [await turns.run(partial(int, number)) for number in range(3)] == [0, 1, 2]


async def test_as_many_as_are_enough_go_together() -> None:
    turns, done = Turns(NEVER_S, 3, lambda: 9), list[int]()
    await turns.run(lambda: done.append(0))
    async with anyio.create_task_group() as tasks:
        for number in (1, 2):
            tasks.start_soon(turns.run, partial(done.append, number))
        await anyio.wait_all_tasks_blocked()
        assert done == [0]
        await turns.run(lambda: done.append(3))
    assert done == [0, 1, 2, 3]


async def test_what_one_raises_is_its_own() -> None:
    turns = Turns(NEVER_S, 2, lambda: 9)
    await turns.run(int)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turns.run, int)
        with pytest.raises(ZeroDivisionError):
            await turns.run(lambda: 1 // 0)
