"""Cancelled at every point at which it waits, a client leaves nothing behind."""

from __future__ import annotations

import gc
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.client_bench import ClientEngine, bench
from ckwatch.client import Client, connect
from ckwatch.wire import endpoint as endpoint_module
from ckwatch.wire.endpoint import endpoint_of, prepare_folder
from ckwatch.wire.state import BuildLine
from fakes.fake_engine import unit_of
from fakes.patience import PATIENCE_S

ONE = "gemm/m128@gfx942"
LINES = [BuildLine(event="start", units=(ONE,)), BuildLine(event="unit", id=ONE, unit=unit_of())]

Work = Callable[[Client], Awaitable[None]]


class Counted:
    """Awaits a coroutine and calls `at_nth` when it waits for the nth time."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], nth: int, at_nth: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._nth = nth
        self._at_nth = at_nth
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._coroutine.__await__()
        action: Callable[[], Any] = lambda: next(steps)  # noqa: E731  # replaced below
        while True:
            try:
                waited_for = action()
            except StopIteration:
                return
            self.waits += 1
            if self.waits == self._nth:
                self._at_nth()
            try:
                sent = yield waited_for
            except BaseException as error:  # noqa: BLE001  # whatever it is belongs to the coroutine
                thrown = error
                action = lambda: steps.throw(thrown)  # noqa: E731, B023
            else:
                action = lambda: steps.send(sent)  # noqa: E731, B023


async def overlays(client: Client) -> None:
    async with client.overlay("x", "one") as overlay:
        await overlay.change("two")
        await client.units()


async def follows(client: Client) -> None:
    async with client.events() as events:
        await anext(events)


async def builds(client: Client) -> None:
    assert (await client.build(ONE)).ok


async def watches_a_build(client: Client) -> None:
    async with client.building(ONE) as lines:
        async for _ in lines:
            pass


async def looks(client: Client) -> None:
    await client.focus("gemm")
    await client.view(archs=["gfx90a"])
    await client.diagnostics("x")


WORKS = [overlays, follows, builds, watches_a_build, looks]


@pytest.mark.parametrize("work", WORKS)
async def test_a_client_at_every_await(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "code_identity", lambda _package: b"not edited meanwhile")
    (tmp_path / "ckwatch.toml").touch()
    endpoint = endpoint_of(tmp_path)
    prepare_folder(endpoint.socket.parent)
    async with bench(endpoint.socket.parent, socket=endpoint.socket) as daemon:
        daemon.engine.lines = LINES
        sockets = _sockets()
        for nth in itertools.count(1):
            daemon.engine.asked.clear()
            finished = await _cancelled(nth, connect(tmp_path, start=False), work)
            await daemon.engine.until_building(0)
            await daemon.engine.until_waiting(0)
            lent = {call[1] for call in daemon.engine.asked if call[0] in ("overlay", "focus", "view")}
            assert {call[1] for call in daemon.engine.asked if call[0] == "forget"} >= lent
            if finished:
                break
        assert nth > 10
        assert _sockets() == sockets


async def test_a_private_daemon_at_every_await(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").touch()
    engine = ClientEngine()
    engine.lines = LINES
    opened = 0

    @asynccontextmanager
    async def open_engine(_root: Path) -> AsyncIterator[ClientEngine]:
        nonlocal opened
        opened += 1
        try:
            yield engine
        finally:
            opened -= 1

    sockets = _sockets()
    for nth in itertools.count(1):
        with anyio.fail_after(PATIENCE_S):
            finished = await _cancelled(nth, connect(tmp_path, private=True, open_engine=open_engine), overlays)
        assert (opened, engine.building, engine.waiting) == (0, 0, 0)
        if finished:
            break
    assert nth > 10
    assert _sockets() == sockets


async def _cancelled(nth: int, connected: AbstractAsyncContextManager[Client], work: Work) -> bool:
    """Cancel the whole client when it waits for the nth time; whether it had ended before."""

    async def whole() -> None:
        async with connected as client:
            await work(client)

    with anyio.CancelScope() as scope:
        await Counted(whole(), nth, scope.cancel)
    return not scope.cancel_called


def _sockets() -> set[str]:
    """The sockets that this process has open."""
    gc.collect()
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(link.readlink()))
    return {name for name in found if name.startswith("socket:")}
