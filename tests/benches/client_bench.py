"""A client, a fake daemon, and a relay between them on which connections can be lost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ckwatch.client.client import Client, status_of
from ckwatch.client.connection import Connection
from ckwatch.client.http import connection_to
from ckwatch.model.errors import CkwatchError, DaemonGoneError
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import AnyEndpoint
from ckwatch.server.app import make_app
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.uvicorn_server import serve_on
from ckwatch.wire import endpoint as address
from ckwatch.wire.state import Status
from fakes.fake_engine import FakeEngine, unit_of
from fakes.patience import PATIENCE_S

SECONDS = PATIENCE_S


class ClientEngine(FakeEngine):
    """`process` is what the status tells. The text `refused` is."""

    process = os.getpid()

    async def answer(self, endpoint: AnyEndpoint, **given: Any) -> Any:
        found = await super().answer(endpoint, **given)
        if endpoint is ClientQuestions.overlay and given["request"].text == "refused":
            raise CkwatchError("it is refused")
        return found

    def begin_anew(self, *names: str) -> None:
        """As another daemon, which counts from the beginning."""
        self.seq = 0
        self.states.clear()
        for name in names:
            self.change(f"unit/{name}", unit_of(name))

    def present_status(self) -> Status:
        return replace(super().present_status(), pid=self.process)


class Relay:
    """Listens at `path` and passes everything on to `target`, while it is up."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self.connections = 0
        self.limit_bytes: int | None = None
        """The connection after the next attempt to meet the daemon is cut when so much was answered."""
        self.target = target
        self._open: set[anyio.CancelScope] = set()
        self._changed = anyio.Event()
        self._listening: anyio.Event | None = None

    async def up(self, tasks: TaskGroup) -> None:
        """Accept connections."""
        self._listening = await tasks.start(self._serve)

    async def down(self) -> None:
        """As when the daemon was killed: connections are lost, new ones refused."""
        await self.refuse()
        await self.cut()

    async def refuse(self) -> None:
        """Refuse new connections."""
        if self._listening is not None:
            self._listening.set()
            self._listening = None
        self.path.unlink(missing_ok=True)

    async def cut(self) -> None:
        """Lose all connections that are open."""
        for scope in list(self._open):
            scope.cancel()
        await self.until_open(0)

    async def until_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        while len(self._open) != count:
            await self._changed.wait()

    async def _serve(self, *, task_status: TaskStatus[anyio.Event]) -> None:
        refuse = anyio.Event()
        async with anyio.create_task_group() as connections:
            with address.bind(address.Endpoint(self.path, self.path, self.path)) as listener:
                task_status.started(refuse)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._accept, listener, connections)
                    await refuse.wait()
                    tasks.cancel_scope.cancel()

    async def _accept(self, listener: socket, tasks: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            tasks.start_soon(self._pass_on, listener.accept()[0])

    async def _pass_on(self, client: socket) -> None:
        self.connections += 1
        limit, self.limit_bytes = self.limit_bytes, None
        with client, await connection_to(self.target) as daemon, anyio.CancelScope() as scope:
            client.setblocking(False)
            self._open.add(scope)
            self._moved()
            try:
                async with anyio.create_task_group() as both:
                    both.start_soon(_pump, client, daemon, None, scope)
                    both.start_soon(_pump, daemon, client, limit, scope)
            finally:
                self._open.discard(scope)
                self._moved()

    def _moved(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _pump(source: socket, sink: socket, left: int | None, end: anyio.CancelScope) -> None:
    """Pass on what comes, `left` bytes at most."""
    with suppress(ConnectionError):
        while left is None or left > 0:
            await anyio.wait_readable(source)
            data = source.recv(2**16)[:left]
            if not data:
                break
            left = None if left is None else left - len(data)
            while data:
                await anyio.wait_writable(sink)
                data = data[sink.send(data) :]
    end.cancel()


class Bench:
    """`starts` counts how often a client started the daemon."""

    def __init__(self, engine: ClientEngine, clients: Clients, relay: Relay, tasks: TaskGroup, limits: Limits) -> None:
        self.engine = engine
        self.clients = clients
        self.relay = relay
        self.serving = anyio.CancelScope()
        self.starts = 0
        self._tasks = tasks
        self._limits = limits

    @asynccontextmanager
    async def client(self, *, start: bool = True) -> AsyncIterator[Client]:
        """A client, made as `connect` makes it."""

        async def reach(may_start: bool) -> Path:
            try:
                (await connection_to(self.relay.path)).close()
            except DaemonGoneError:
                if not (start and may_start):
                    raise
                self.starts += 1
                await self.up()
            return self.relay.path

        access = Connection(reach)
        status = await status_of(access)
        async with anyio.create_task_group() as tasks:
            client = Client(access, tasks, Path("/w"), status, "me")
            try:
                yield client
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(30, shield=True):
                    await client.leave()

    async def up(self) -> None:
        """The daemon answers."""
        await self.relay.up(self._tasks)

    async def killed(self) -> None:
        """The daemon is gone without a word, and with it all that clients lent."""
        await self.relay.down()
        await self.clients.remove("me")

    async def stopped(self) -> None:
        """The daemon was stopped, and ended its streams in order."""
        await self.relay.refuse()
        self.serving.cancel()
        await self.relay.until_open(0)

    async def ready_again(self) -> None:
        """A client may start another daemon after the one that was stopped."""
        await self._tasks.start(self.serve)

    async def restarted(self) -> None:
        """Another daemon is there after the one that was stopped."""
        await self.ready_again()
        await self.up()

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Serve the engine until `serving` is cancelled."""
        app = make_app(self.engine, self.clients, limits=self._limits, stop=self.engine.stop)
        path = self.relay.target
        with anyio.CancelScope() as self.serving:
            await serve_on(address.bind(address.Endpoint(path, path, path)), app, started=task_status.started)


@asynccontextmanager
async def bench(
    folder: Path, engine: ClientEngine | None = None, *, socket: Path | None = None, **limits: float
) -> AsyncIterator[Bench]:
    """A fake daemon behind a relay, both with sockets in `folder`; the daemon's own may be given."""
    engine = engine or ClientEngine()
    within = Limits(**limits)  # type: ignore[arg-type]  # counts are whole numbers
    path = socket or folder / "d.sock"
    clients = Clients(engine.forget, within)
    with anyio.fail_after(SECONDS):
        async with clients.running(), anyio.create_task_group() as tasks:
            made = Bench(engine, clients, Relay(folder / "r.sock", path), tasks, within)
            await tasks.start(made.serve)
            await made.up()
            yield made
            tasks.cancel_scope.cancel()
