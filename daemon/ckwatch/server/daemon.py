"""A daemon's life: it gets the workspace's lock, opens the engine, serves it, and closes everything in order.

It ends by a signal, on request, when it has been idle for a while, and when no client can find it any more: its lock
file is gone, so that another may have taken its place, or its code was changed, so that clients look for one of the new
code. A second signal cuts the closing short. It may be killed at any moment; the next one replaces the socket that it
left.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from socket import socket

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from ckwatch.model.errors import plain_errors
from ckwatch.model.version import __version__
from ckwatch.server import ENDED, TAKEN
from ckwatch.server.app import make_app
from ckwatch.server.clients import Activity, Clients
from ckwatch.server.engine_api import Engine
from ckwatch.server.uvicorn_server import serve_on
from ckwatch.wire.endpoint import (
    Endpoint,
    acquire,
    bind,
    endpoint_of,
    is_in_place,
    note_start,
    prepare_folder,
    release,
    withdraw,
)
from ckwatch.workspace.trust import require_trusted

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SWITCH_S = 0.0005
"""For so long a thread may keep the interpreter that the event loop is waiting for. By default it is 5 ms, and several
threads that read or hash take turns before the loop gets its own. The price is a tenth of what they do at once."""

IN_PLACE_S = 5.0
"""How often the daemon checks that it can still be found, which clients wait for that do not find it; this also keeps
its files from looking abandoned."""

CODE_EVERY = 12
"""One of so many times it looks whether its code was changed."""

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]


async def run_daemon(
    root: Path,
    *,
    open_engine: OpenEngine,
    idle_exit_s: float | None = None,
    in_place_s: float = IN_PLACE_S,
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Be the daemon of the workspace at `root`, an absolute path, until it ends; ENDED, or TAKEN at once.

    `open_engine(root, log_file=…)` opens it. After `idle_exit_s` without use the daemon ends, 0 for never, None for
    what the engine's status says. Every `in_place_s` it checks that clients can find it. `on_ready` is called as soon
    as requests are answered. To be run in the main thread. Raises UntrustedError, CkwatchError for a folder or socket
    that cannot be used, and what `open_engine` raises.
    """
    sys.setswitchinterval(SWITCH_S)
    require_trusted(root)
    endpoint = endpoint_of(root)
    prepare_folder(endpoint.socket.parent)
    lock = acquire(endpoint)
    if lock is None:
        _log.warning("another daemon has %s", root)
        return TAKEN
    noting = _NoteStart(lock)

    def ready() -> None:
        noting.end()
        on_ready()

    try:
        listener = bind(endpoint)
        _log.info("ckwatch %s, process %d, for %s", __version__, os.getpid(), root)
        try:
            await _Lifecycle(endpoint, lock, idle_exit_s, in_place_s).run(root, open_engine, listener, ready)
        finally:
            listener.close()
    finally:
        noting.end()
        release(endpoint, lock)
        _log.info("ended")
    return ENDED


class _NoteStart(logging.Handler):
    """Writes what is logged while the daemon starts into its lock, for clients that wait."""

    def __init__(self, lock: int) -> None:
        super().__init__(logging.INFO)
        self._lock = lock
        note_start(lock, "starting")
        logging.getLogger("ckwatch").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        note_start(self._lock, record.getMessage())

    def end(self) -> None:
        """The daemon answers, or ends."""
        logging.getLogger("ckwatch").removeHandler(self)
        note_start(self._lock, "")


class _Lifecycle:
    """`end` cancels what there is to cancel: the opening of the engine, or serving it, but not its closing."""

    def __init__(self, endpoint: Endpoint, lock: int, idle_exit_s: float | None, in_place_s: float) -> None:
        self._endpoint = endpoint
        self._lock = lock
        self._idle_exit_s = idle_exit_s
        self._in_place_s = in_place_s
        self._scope = anyio.CancelScope()

    def end(self, why: str) -> None:
        """Begin to end."""
        _log.info("ending: %s", why)
        self._scope.cancel()

    async def run(self, root: Path, open_engine: OpenEngine, listener: socket, on_ready: Callable[[], None]) -> None:
        """Everything between the socket's appearance and its going."""
        async with plain_errors(), anyio.create_task_group() as tasks:
            await tasks.start(self._end_by_signal, tasks.cancel_scope)
            with self._scope:
                async with open_engine(root, log_file=self._endpoint.log) as engine:
                    with anyio.CancelScope() as self._scope:
                        await self._serve(root, engine, listener, on_ready)
                    # Whoever comes now shall not wait for one that closes.
                    withdraw(self._endpoint, self._lock)
            tasks.cancel_scope.cancel()

    async def _serve(self, root: Path, engine: Engine, listener: socket, on_ready: Callable[[], None]) -> None:
        activity = Activity()
        clients = Clients(engine.forget)
        app = make_app(engine, clients, activity=activity, stop=lambda: self.end("asked to"))
        async with clients.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_when_idle, engine, activity)
            tasks.start_soon(self._end_when_displaced, root)
            await serve_on(listener, app, started=on_ready)

    async def _end_by_signal(
        self, at_once: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        wanted = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            again = False
            async for number in signals:
                if again:
                    at_once.cancel()
                    return
                self.end(signal.Signals(number).name)
                again = True

    async def _end_when_idle(self, engine: Engine, activity: Activity) -> None:
        async def ask() -> tuple[bool, float]:
            if self._idle_exit_s == 0:
                return False, 0.0
            status = await engine.status()
            return status.busy, status.idle_exit_s if self._idle_exit_s is None else self._idle_exit_s

        idle_s = await activity.until_idle(ask)
        self.end(f"idle for {idle_s:g} s")

    async def _end_when_displaced(self, root: Path) -> None:
        for number in count():
            if not await to_thread.run_sync(is_in_place, self._endpoint, self._lock):
                break
            if number % CODE_EVERY == 0 and await to_thread.run_sync(endpoint_of, root) != self._endpoint:
                # Clients look for a daemon of the new code, and two of them would do everything twice.
                self.end("its code was changed")
                return
            await anyio.sleep(self._in_place_s)
        self.end(f"its lock or socket is gone from {self._endpoint.lock.parent}")
