"""Who uses the daemon: the requests in progress, the clients, and what each may ask for.

A client exists from its first request that names it until a grace period after its last one. What the daemon keeps for
it (unsaved text, focus, view) goes with it, however it ends: the engine forgets a client that has no open stream
and sent nothing during the grace period. Everything here is bounded by `Limits`. `Activity` counts requests, so that an
unused daemon can end.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field

import anyio

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for clients, in seconds and bytes."""

    clients: int = 256
    """Clients at a time."""
    streams: int = 256
    """Open streams, of all clients."""
    grace_s: float = 10.0
    """How long a client without a stream is remembered."""
    overlay_bytes: int = 64 * 2**20
    """Memory for the unsaved texts of one client."""
    body_bytes: int = 2**20
    """The body of a request."""
    overlay_body_bytes: int = 20 * 2**20
    """The body of a request that sets an unsaved text."""
    body_s: float = 30.0
    """How long a body may take to arrive."""
    send_s: float = 30.0
    """How long a client that does not read is kept."""
    send_lines: int = 200
    """Lines that a stream sends at a time."""
    send_bytes: int = 2**16
    """About how many bytes a stream sends at a time."""
    heartbeat_s: float = 15.0
    """A stream sends a heartbeat after so long a silence."""


_LONGEST_PAUSE_S = 60.0


class Activity:
    """Counts requests, streams among them."""

    def __init__(self) -> None:
        self._requests = 0
        self._last = anyio.current_time()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is in progress as long as the context is open."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._last = anyio.current_time()

    async def until_idle(self, ask: Callable[[], Awaitable[tuple[bool, float]]]) -> float:
        """Return when for long enough no request came, none was in progress, and there was no work.

        `ask` returns whether there is work, and how many seconds are enough; 0 for never. They are returned. By the
        monotonic clock: neither a set clock nor a suspended machine counts.
        """
        quiet_since = anyio.current_time()
        while True:
            busy, idle_s = await ask()
            now = anyio.current_time()
            if busy or self._requests:
                quiet_since = now
            left_s = max(quiet_since, self._last) + idle_s - now
            if idle_s and left_s <= 0:
                return idle_s
            pause_s = min(left_s, max(idle_s / 10, 0.01), _LONGEST_PAUSE_S) if idle_s else _LONGEST_PAUSE_S
            await anyio.sleep(pause_s)


_log = logging.getLogger(__name__)


class TooManyError(CkwatchError):
    """There are as many clients or streams as are allowed."""


class OverlaysTooLargeError(CkwatchError):
    """A client sets more unsaved text than is kept for one."""


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
        """A request of `name`, None for one that names no client. Raises TooManyError for one client too many."""
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
                f"too many open streams: the limit is {self._limits.streams}", "Close some, or try again later."
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
    async def overlaying(self, name: str, path: str, text: str | None) -> AsyncIterator[None]:
        """A client sets an unsaved text; its size counts unless the body raises.

        To be used while it is present. Raises OverlaysTooLargeError.
        """
        sizes = self._clients[name].overlay_bytes
        before = sizes.get(path, 0)
        size = 0 if text is None else sys.getsizeof(text)
        if sum(sizes.values()) - before + size > self._limits.overlay_bytes:
            raise OverlaysTooLargeError(
                f"too much unsaved text: the limit is {self._limits.overlay_bytes // 2**20} MiB per client",
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
        """The client leaves: its streams end, and the engine forgets it. Does nothing if it is unknown."""
        client = self._clients.get(name)
        if client is not None:
            await self._remove(name, client)

    async def _arrive(self, name: str) -> _Client:
        while (client := self._clients.get(name)) is not None and client.gone is not None:
            await client.gone.wait()
        if client is None:
            if len(self._clients) >= self._limits.clients:
                raise TooManyError(
                    f"too many clients: the limit is {self._limits.clients}", "Close some, or try again later."
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
