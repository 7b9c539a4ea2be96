"""A client asks where the compile time goes."""

from __future__ import annotations

import anyio
import pytest

from ckwatch.client import Client, DaemonGoneError
from ckwatch.errors import CkwatchError, UnknownUnitError
from client_bench import Bench

pytestmark = pytest.mark.usefixtures("nothing_blocks")

ONE = "gemm/m128@gfx942"


async def test_the_result(client: Client, daemon: Bench) -> None:
    assert (await client.time_trace(ONE)).unit == ONE
    found = await client.time_trace((await client.units())[0], "out/t.json")
    assert found.path == "/w/out/t.json"
    assert daemon.engine.of("time_trace") == [(None, ONE, None), (None, ONE, "/w/out/t.json")]


async def test_what_is_wrong(client: Client, daemon: Bench) -> None:
    with pytest.raises(UnknownUnitError, match="no unit is called `gemm/x@y`"):
        await client.time_trace("gemm/x@y")
    daemon.engine.fault_in_trace = CkwatchError("it crashed", "try again")
    with pytest.raises(CkwatchError, match="it crashed") as raised:
        await client.time_trace(ONE)
    assert raised.value.hint == "try again"


async def test_being_cancelled_gives_it_up(client: Client, daemon: Bench) -> None:
    daemon.engine.traced = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.time_trace, ONE)
        while not daemon.engine.tracing:
            await daemon.engine.changed.wait()
        tasks.cancel_scope.cancel()
    while daemon.engine.tracing:
        await daemon.engine.changed.wait()


async def test_it_is_not_compiled_twice_for_a_lost_daemon(client: Client, daemon: Bench) -> None:
    daemon.engine.traced = False
    failures: list[CkwatchError] = []

    async def ask() -> None:
        try:
            await client.time_trace(ONE)
        except DaemonGoneError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not daemon.engine.tracing:
            await daemon.engine.changed.wait()
        await daemon.killed()
    assert len(failures) == 1
    assert len(daemon.engine.of("time_trace")) == 1
