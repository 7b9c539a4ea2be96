"""The daemon's application on a real socket, over a fake engine."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
import httpx
from anyio.abc import TaskStatus

from ckwatch.server.app import make_app
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.uvicorn_server import HEAD_S, serve_on
from ckwatch.wire.endpoint import Endpoint, bind
from fakes.fake_engine import FakeEngine
from fakes.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Served:
    """A served page and a client of it."""

    http: httpx.AsyncClient
    engine: FakeEngine
    clients: Clients
    path: Path
    serving: anyio.CancelScope
    ended: anyio.Event

    def connect(self) -> socket.socket:
        """A bare connection."""
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        connection.connect(str(self.path))
        return connection


class Serve(Protocol):
    """Serves a fake engine as long as the context is open."""

    def __call__(self, engine: FakeEngine | None = None, **limits: float) -> AbstractAsyncContextManager[Served]: ...


@asynccontextmanager
async def serving(
    folder: Path, engine: FakeEngine | None = None, *, head_s: float = HEAD_S, **limits: float
) -> AsyncIterator[Served]:
    """Serve on a socket in `folder`, whose name must be short."""
    engine = engine or FakeEngine()
    within = Limits(**limits)  # type: ignore[arg-type]  # counts are whole numbers
    clients = Clients(engine.forget, within)
    path = folder / "d.sock"
    listener = bind(Endpoint(path, path, path))
    ended = anyio.Event()
    with anyio.fail_after(PATIENCE_S):
        async with clients.running(), anyio.create_task_group() as tasks, over(path) as http:
            app = make_app(engine, clients, limits=within, stop=engine.stop)

            async def serve(*, task_status: TaskStatus[anyio.CancelScope]) -> None:
                with anyio.CancelScope() as scope:
                    await serve_on(listener, app, started=lambda: task_status.started(scope), head_s=head_s)
                ended.set()

            scope = await tasks.start(serve)
            yield Served(http, engine, clients, path, scope, ended)
            scope.cancel()


def over(path: Path) -> httpx.AsyncClient:
    """A client on the socket at `path`."""
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/v1", timeout=PATIENCE_S)
