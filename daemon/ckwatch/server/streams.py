"""Streaming responses: events, builds, benchmarks, slow results, and what is too large for one piece.

The next lines are sent only after the client has read the last ones. What changes meanwhile is coalesced by the engine,
so a client that reads slowly costs no memory; one that does not read at all is dropped after `Limits.send_s`.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Generic, TypeVar
from weakref import ref

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastapi import Response
from starlette.types import Receive, Scope, Send

from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.topics import HEARTBEAT
from ckwatch.questions.endpoint import NDJSON
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.middleware import abort
from ckwatch.server.responses import json_bytes, problem_of, text_bytes
from ckwatch.wire.messages import SlowAnswer
from ckwatch.wire.state import Change, Snapshot, State, Unit

_log = logging.getLogger(__name__)


_GOODBYE_S = 1.0

Line = TypeVar("Line")


class SlowReaderError(Exception):
    """A client did not read within the time."""


class SerializedStates:
    """The JSON of states and changes, made once for all followers that are given the same object."""

    def __init__(self, limits: Limits, *, pages: int = 16) -> None:
        self._limits = limits
        self._states: dict[int, tuple[ref[object], bytes]] = {}
        """By the state's id, as long as the state is kept elsewhere."""
        self._pages: OrderedDict[int, tuple[Sequence[Change], tuple[bytes, ...]]] = OrderedDict()
        self._page_limit = pages

    def state(self, state: State) -> bytes:
        """The state's JSON."""
        identity = id(state)
        kept = self._states.get(identity)
        if kept is not None:
            return kept[1]
        made = json_bytes(state)
        states = self._states
        states[identity] = (ref(state, lambda _: states.pop(identity, None)), made)
        return made

    def pieces(self, changes: Sequence[Change]) -> tuple[bytes, ...]:
        """Changes, which never change themselves, as lines of the event stream, some at a time."""
        kept = self._pages.get(id(changes))
        if kept is not None:
            return kept[1]
        made = tuple(batches(map(self.line, changes), self._limits))
        self._pages[id(changes)] = (changes, made)  # they are kept, too, so that the id is not reused
        if len(self._pages) > self._page_limit:
            self._pages.popitem(last=False)
        return made

    def line(self, change: Change) -> bytes:
        """A line of the event stream."""
        state = b"null" if change.state is None else self.state(change.state)
        return b'{"seq":%d,"topic":%b,"state":%b}\n' % (change.seq, _topic(change.topic), state)


class StreamContext:
    """The resources that all streams of a daemon share.

    `turns` is held for a moment before each piece: when many followers have something to be sent at the same time, one
    piece is made in each round of the event loop, and whatever else waits has its turn in between.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.serialized = SerializedStates(limits)
        self.turns = anyio.Lock()


class StreamSender:
    """Sends an answer piece by piece. All methods raise SlowReaderError for a client that does not read."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]], shared: StreamContext) -> None:
        self._send = send
        self._headers = headers
        self._limits = shared.limits
        self._turns = shared.turns
        self._started = False

    async def start(self) -> None:
        """Send the answer's head; what fails later cannot be answered any more."""
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})

    async def write(self, piece: bytes) -> None:
        """Send a piece, when the client has taken the one before."""
        await self.start()
        await self._in_time(piece, more=True)

    async def write_all(self, pieces: Iterable[bytes]) -> None:
        """Send many small pieces, some at a time."""
        await self.write_each(batches(pieces, self._limits))

    async def write_each(self, pieces: Iterable[bytes]) -> None:
        """Send pieces, each made when it is its turn."""
        left = iter(pieces)
        while True:
            async with self._turns:
                await checkpoint()
            piece = next(left, None)
            if piece is None:
                return
            await self.write(piece)

    async def end(self) -> None:
        """Nothing more comes."""
        await self.start()
        await self._in_time(b"", more=False)

    async def _in_time(self, piece: bytes, *, more: bool) -> None:
        with anyio.move_on_after(self._limits.send_s) as in_time:
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})
        if in_time.cancelled_caught:
            raise SlowReaderError


def batches(pieces: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """The pieces, as many together as are sent at a time."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if len(batch) >= limits.send_lines or size >= limits.send_bytes:
            yield b"".join(batch)
            batch.clear()
            size = 0
    if batch:
        yield b"".join(batch)


class Stream(Response):
    """An answer in pieces that is given up when the client goes."""

    def __init__(self, shared: StreamContext) -> None:
        super().__init__()
        self.shared = shared
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. What `send_to` raises passes; before the first piece it can still be answered."""
        sender = StreamSender(send, self.raw_headers, self.shared)
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                await self.send_to(sender)
                await sender.end()
                tasks.cancel_scope.cancel()
        except SlowReaderError:
            _log.warning("a client that did not read %s for %g s was dropped", scope["path"], self.shared.limits.send_s)
            abort(scope)
            with anyio.move_on_after(_GOODBYE_S):  # the server notices the end of the connection in its next round
                await _gone(receive)

    @abstractmethod
    async def send_to(self, sender: StreamSender) -> None:
        """Send all pieces."""


class EventStream(Stream):
    """Changes for `client` (None: in the workspace as it is on disk) after the number `after`, None for now.

    Without `after` the first line is a heartbeat with the present number. The stream ends after a `reset`. One that is
    `quiet` has heartbeats only.
    """

    media_type = NDJSON

    def __init__(
        self,
        engine: Engine,
        clients: Clients,
        shared: StreamContext,
        *,
        client: str | None,
        after: int | None,
        quiet: bool = False,
    ) -> None:
        super().__init__(shared)
        self._engine = engine
        self._clients = clients
        self._client = client
        self._after = after
        self._quiet = quiet

    async def send_to(self, sender: StreamSender) -> None:
        """Send the lines, until the client is removed."""
        async with self._clients.stream(self._client):
            if self._after is None:
                after = (await self._engine.status()).seq
                await sender.write(self._heartbeat(after))
            else:
                after = self._after
                await sender.start()
            while self._quiet:
                await anyio.sleep(self.shared.limits.heartbeat_s)
                await sender.write(self._heartbeat(after))
            topic = ""
            while topic != "reset":
                changes = await self._next(after)
                if changes:
                    after, topic = changes[-1].seq, changes[-1].topic
                    await sender.write_each(self._pieces(changes))
                else:
                    await sender.write(self._heartbeat(after))

    def _pieces(self, changes: Sequence[Change]) -> Iterator[bytes]:
        yield from self.shared.serialized.pieces(changes)

    async def _next(self, after: int) -> Sequence[Change]:
        """The next changes, none when there was nothing for so long that a heartbeat is due."""
        changes: Sequence[Change] = ()
        with anyio.move_on_after(self.shared.limits.heartbeat_s):
            while not changes:  # the engine may wake for what is none of this client's business
                changes = await self._engine.changes(self._client, after)
        return changes

    def _heartbeat(self, seq: int) -> bytes:
        return self.shared.serialized.line(Change(seq=seq, topic=HEARTBEAT))


class LineStream(Stream, Generic[Line]):
    """The lines of a build or a benchmark, which `begin` starts and the end of the connection gives up.

    `heartbeat` is the line that says that nothing has happened for a while.
    """

    media_type = NDJSON

    def __init__(
        self,
        begin: Callable[[], AbstractAsyncContextManager[AsyncIterator[Line]]],
        heartbeat: Line,
        clients: Clients,
        shared: StreamContext,
        client: str | None,
    ) -> None:
        super().__init__(shared)
        self._begin = begin
        self._heartbeat = heartbeat
        self._clients = clients
        self._client = client

    async def send_to(self, sender: StreamSender) -> None:
        """Send the lines."""
        async with self._clients.stream(self._client), self._begin() as lines:
            await sender.start()
            # An iteration must not be cancelled for a heartbeat, so another task does it.
            come, came = anyio.create_memory_object_stream[Line](self.shared.limits.send_lines)
            async with plain_errors(), anyio.create_task_group() as tasks, came:
                tasks.start_soon(_pump, lines, come)
                while True:
                    ready: list[Line] = []
                    with anyio.move_on_after(self.shared.limits.heartbeat_s):
                        ready = await _some(came)
                        if not ready:
                            break
                    if not ready:
                        ready.append(self._heartbeat)
                    await sender.write_all(json_bytes(line) + b"\n" for line in ready)


class SnapshotStream(Stream):
    """A snapshot, serialized while it is sent."""

    media_type = "application/json"

    def __init__(self, snapshot: Snapshot, shared: StreamContext) -> None:
        super().__init__(shared)
        self._snapshot = snapshot

    async def send_to(self, sender: StreamSender) -> None:
        """Send the states, topic by topic."""
        await sender.write_all(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        separator = b'{"seq":%d,"states":{' % self._snapshot.seq
        for topic, state in self._snapshot.states.items():
            yield b"%b%b:%b" % (separator, _topic(topic), self.shared.serialized.state(state))
            separator = b",\n"  # a line for each, so that a client can read them one by one
        yield (b"" if self._snapshot.states else separator) + b"}}"


class UnitsStream(Stream):
    """An array of units, serialized while it is sent."""

    media_type = "application/json"

    def __init__(self, units: list[Unit], shared: StreamContext) -> None:
        super().__init__(shared)
        self._units = units

    async def send_to(self, sender: StreamSender) -> None:
        """Send them."""
        await sender.write_all(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        separator = b"["
        for unit in self._units:
            yield separator + self.shared.serialized.state(unit)
            separator = b","
        yield b"]" if self._units else b"[]"


@lru_cache(maxsize=1024)
def _topic(topic: str) -> bytes:
    return text_bytes(topic)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    await _gone(receive)
    scope.cancel()


async def _pump(lines: AsyncIterator[Line], to: MemoryObjectSendStream[Line]) -> None:
    async with to:
        async for line in lines:
            await to.send(line)


async def _some(lines: MemoryObjectReceiveStream[Line]) -> list[Line]:
    """The lines that are there, at least one; none at the end."""
    try:
        found = [await lines.receive()]
        while True:
            try:
                found.append(lines.receive_nowait())
            except (anyio.WouldBlock, anyio.EndOfStream):
                return found
    except anyio.EndOfStream:
        return []


Result = TypeVar("Result")


class SlowStream(Stream, Generic[Result]):
    """Heartbeats, then `done`, as lines of `model`. A mistake that is known before the first line has the status of its
    own. `ask` is cancelled when the client goes."""

    media_type = NDJSON

    def __init__(
        self,
        model: type[SlowAnswer[Result]],
        ask: Callable[[], Awaitable[Result]],
        clients: Clients,
        shared: StreamContext,
        client: str | None,
    ) -> None:
        super().__init__(shared)
        self._model = model
        self._ask = ask
        self._clients = clients
        self._client = client

    async def send_to(self, sender: StreamSender) -> None:
        """Send the lines."""
        ended = anyio.Event()
        last: SlowAnswer[Result] | None = None
        failure: CkwatchError | None = None
        heartbeats = 0

        async def ask() -> None:
            nonlocal last, failure
            try:
                last = self._model(event="done", result=await self._ask())
            except CkwatchError as error:
                failure = error
                last = self._model(event="done", problem=problem_of(error))
            ended.set()

        async with self._clients.stream(self._client), plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not ended.is_set():
                with anyio.move_on_after(self.shared.limits.heartbeat_s):
                    await ended.wait()
                if not ended.is_set():
                    heartbeats += 1
                    await sender.write(_json_line(self._model(event="heartbeat")))
        if failure is not None and not heartbeats:
            raise failure
        if last is not None:  # else the client was removed
            await sender.write(await anyio.to_thread.run_sync(_json_line, last))


def _json_line(line: object) -> bytes:
    return json_bytes(line) + b"\n"
