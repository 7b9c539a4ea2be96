"""Who is there: a client exists from its first request that names it until a while after its last one.

What a client lent (unsaved text, its focus, its view) goes with it, however it ends: the engine is told to forget a
client that has no stream open and was not heard of for the time of grace. Everything here is bounded.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from ckwatch.errors import CkwatchError
from ckwatch.serve.limits import Limits

_log = logging.getLogger(__name__)


class TooManyError(CkwatchError):
    """There are as many clients or streams as are allowed."""


class OverlaysTooLargeError(CkwatchError):
    """A client lends more text than is kept for one."""


@dataclass(slots=True, eq=False)
class _Client:
    present: int = 0
    """Requests and streams in progress."""
    last: float = -math.inf
    streams: set[anyio.CancelScope] = field(default_factory=set)
    overlay_bytes: dict[str, int] = field(default_factory=dict)
    gone: anyio.Event | None = None
    """Set as soon as the engine has forgotten it."""


class Clients:
    """The clients that are there. `forget` is called once for each that has gone."""

    def __init__(self, forget: Callable[[str], Awaitable[None]], limits: Limits | None = None) -> None:
        self._forget = forget
        self._limits = limits or Limits()
        self._clients: dict[str, _Client] = {}
        self._streams = 0
        self._waiting = anyio.Event()

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def streams(self) -> int:
        """Streams that are open."""
        return self._streams

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Clients]:
        """Watches, as long as the context is open, for clients that have gone."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            yield self
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def present(self, name: str | None) -> AsyncIterator[None]:
        """A request of `name`, None for one that does not tell. Raises TooManyError for one client too many."""
        if name is None:
            yield
            return
        client = await self._arrive(name)
        try:
            yield
        finally:
            self._depart(client)

    @asynccontextmanager
    async def stream(self, name: str | None) -> AsyncIterator[None]:
        """An open stream; the body is cancelled when its client is removed. Raises TooManyError."""
        if self._streams >= self._limits.streams:
            raise TooManyError(
                f"{self._streams} streams are open; no more are allowed", "Close some, or try again later."
            )
        self._streams += 1
        try:
            async with self.present(name):
                with anyio.CancelScope() as scope:
                    streams = self._clients[name].streams if name is not None else set()
                    streams.add(scope)
                    try:
                        yield
                    finally:
                        streams.discard(scope)
        finally:
            self._streams -= 1

    @asynccontextmanager
    async def lending(self, name: str, path: str, text: str | None) -> AsyncIterator[None]:
        """A client lends `text`; what it lends counts unless the body raises.

        To be used while it is present. Raises OverlaysTooLargeError.
        """
        sizes = self._clients[name].overlay_bytes
        before = sizes.get(path, 0)
        size = 0 if text is None else sys.getsizeof(text)
        if sum(sizes.values()) - before + size > self._limits.overlay_bytes:
            raise OverlaysTooLargeError(
                f"unsaved texts of more than {self._limits.overlay_bytes // 2**20} MiB are not kept for one client",
                "Save some of them.",
            )
        sizes[path] = size
        try:
            yield
        except BaseException:
            sizes[path] = before
            raise
        finally:
            if not sizes.get(path):
                sizes.pop(path, None)

    async def remove(self, name: str) -> None:
        """The client says that it goes: its streams end, and the engine forgets it. Does nothing if it is unknown."""
        client = self._clients.get(name)
        if client is not None:
            await self._remove(name, client)

    async def _arrive(self, name: str) -> _Client:
        while (client := self._clients.get(name)) is not None and client.gone is not None:
            await client.gone.wait()
        if client is None:
            if len(self._clients) >= self._limits.clients:
                raise TooManyError(
                    f"{len(self._clients)} clients are there; no more are allowed", "Close some, or try again later."
                )
            client = self._clients[name] = _Client()
        client.present += 1
        client.last = anyio.current_time()
        return client

    def _depart(self, client: _Client) -> None:
        client.present -= 1
        client.last = anyio.current_time()
        if not client.present:
            self._waiting.set()

    async def _watch(self) -> None:
        while True:
            self._waiting = anyio.Event()
            now = anyio.current_time()
            absent = {
                name: client for name, client in self._clients.items() if not client.present and client.gone is None
            }
            due = [name for name, client in absent.items() if client.last + self._limits.grace_s <= now]
            if due:
                async with anyio.create_task_group() as tasks:
                    for name in due:
                        tasks.start_soon(self._remove, name, absent[name])
                continue
            next_s = min((client.last + self._limits.grace_s - now for client in absent.values()), default=math.inf)
            with anyio.move_on_after(next_s):
                await self._waiting.wait()

    async def _remove(self, name: str, client: _Client) -> None:
        if client.gone is not None:
            await client.gone.wait()
            return
        client.gone = anyio.Event()
        for scope in client.streams:
            scope.cancel()
        try:
            with anyio.CancelScope(shield=True):
                await self._forget(name)
        except Exception:  # noqa: BLE001 - the engine's fault must not keep the client
            _log.exception("the client %s could not be forgotten", name)
        finally:
            del self._clients[name]
            client.gone.set()
