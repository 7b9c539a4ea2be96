"""`connect`: the beginning and the end of a client."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.client import launch
from ckwatch.client.access import Access, Reach
from ckwatch.client.client import Client, status_of
from ckwatch.client.failures import DaemonGoneError
from ckwatch.client.http import connection_to
from ckwatch.client.lending import FAREWELL_S
from ckwatch.config.finding import find_workspace
from ckwatch.errors import plain_errors

if TYPE_CHECKING:
    from ckwatch.client.private import OpenEngine


@asynccontextmanager
async def connect(
    path: str | os.PathLike[str] = ".",
    *,
    start: bool = True,
    trust: bool = False,
    client_name: str | None = None,
    private: bool = False,
    open_engine: OpenEngine | None = None,
) -> AsyncIterator[Client]:
    """A client of the daemon of the workspace that `path` lies in, which is started unless `start` is false.

    `trust` puts the workspace on the user's list of those whose code may run here. `client_name` is what the daemon
    calls the client in its log. `private` runs a daemon inside this process instead, as long as the context is open;
    `open_engine` gives it another engine.

    Raises CkwatchError: there is no workspace or it is broken; UntrustedError where its code would have to be run
    and it is not trusted; DaemonGoneError if there is none and none may be started, or if it dies.
    """
    root = await to_thread.run_sync(find_workspace, Path(path))
    async with AsyncExitStack() as stack:
        if trust:
            await to_thread.run_sync(launch.trust, root)
        if private:
            from ckwatch.client.private import private_daemon

            socket = await stack.enter_async_context(private_daemon(root, open_engine))
            access = Access(_only(socket))
        else:
            access = Access(_found_or_started(root, start=start))
        status = await status_of(access)
        async with plain_errors(), anyio.create_task_group() as tasks:
            client = Client(access, tasks, root, status, _identity(client_name))
            try:
                yield client
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(FAREWELL_S, shield=True):
                    await client.leave()


def _found_or_started(root: Path, *, start: bool) -> Reach:
    async def reach(may_start: bool) -> Path:
        if start and may_start:
            return (await launch.ensure_daemon(root)).socket
        found = await launch.find_daemon(root)
        if found is None:
            raise DaemonGoneError(f"there is no daemon for {root}", "`ckwatch start` starts one")
        return found.socket

    return reach


def _only(socket: Path) -> Reach:
    async def reach(_may_start: bool) -> Path:
        try:
            (await connection_to(socket)).close()
        except DaemonGoneError:
            raise DaemonGoneError("the private daemon was stopped") from None
        return socket

    return reach


def _identity(name: str | None) -> str:
    """A name that no other client has."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name or "python")[:40]
    return f"{plain}-{os.urandom(8).hex()}"
