"""A daemon inside the client's process, on a socket of its own: for scripts that leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.server.app import make_app
from ckwatch.server.clients import Clients
from ckwatch.server.engine_api import Engine
from ckwatch.server.uvicorn_server import serve_on
from ckwatch.wire.endpoint import Endpoint, bind

OpenEngine = Callable[[Path], AbstractAsyncContextManager[Engine]]


@asynccontextmanager
async def private_daemon(root: Path, open_engine: OpenEngine | None = None) -> AsyncIterator[Path]:
    """Run a daemon for the workspace as long as the context is open, and give its socket.

    It takes no lock: another daemon of the workspace may run meanwhile. Raises what opening the workspace raises, and
    CkwatchError where no temporary folder can be made.
    """
    folder = await to_thread.run_sync(_folder)
    opening = open_engine or _real_engine(Path(folder.name))
    try:
        path = Path(folder.name) / "socket"
        async with opening(root) as engine, plain_errors(), anyio.create_task_group() as tasks:
            clients = Clients(engine.forget)
            serving = anyio.CancelScope()
            app = make_app(engine, clients, stop=serving.cancel)

            async def serve(*, task_status: TaskStatus[None]) -> None:
                with serving, bind(Endpoint(path, path.with_name("lock"), path.with_name("log"))) as listener:
                    async with clients.running():
                        await serve_on(listener, app, started=task_status.started)

            await tasks.start(serve)
            yield path
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(folder.cleanup)


def _real_engine(folder: Path) -> OpenEngine:
    from ckwatch.engine.bootstrap import open_engine

    # The workspace's own history is that of its daemon.
    return partial(open_engine, history=folder / "history.sqlite")


def _folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="ckwatch-")
    except OSError as error:
        message = f"a folder for temporary files cannot be made: {error.strerror}"
        raise CkwatchError(message, "Free some space, or set TMPDIR to a folder that may be written.") from error
