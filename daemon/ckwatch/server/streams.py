"""Streaming responses: events, builds, benchmarks, slow results, and what is too large for one piece.

The next lines are sent only after the client has read the last ones. What changes meanwhile is coalesced by the engine,
so a client that reads slowly costs no memory; one that does not read at all is dropped after `Limits.send_s`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import TypeVar
from weakref import ref

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.topics import HEARTBEAT
from ckwatch.questions.endpoint import NDJSON
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.middleware import abort
from ckwatch.server.responses import json_bytes, problem_of, text_bytes
from ckwatch.wire.messages import SlowAnswer
from ckwatch.wire.rows import Overview, UnitRow
from ckwatch.wire.state import Change, Snapshot, State, Unit

_log = logging.getLogger(__name__)


_GOODBYE_S = 1.0

Line = TypeVar("Line")
Result = TypeVar("Result")


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

    def state(self, state: State | UnitRow) -> bytes:
        """The state's JSON."""
        if isinstance(state, UnitRow):
            return json_bytes(state)
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

    def forget_pages(self) -> None:
        """Nothing has changed for a while."""
        self._pages.clear()

    def line(self, change: Change) -> bytes:
        """A line of the event stream."""
        state = b"null" if change.state is None else self.state(change.state)
        return b'{"seq":%d,"topic":%b,"state":%b}\n' % (change.seq, _topic(change.topic), state)


class StreamContext:
    """The resources that all streams of a daemon share.

    `turns` is held for a moment before each piece: when many followers have something to be sent at the same time, one
    piece is made in each round of the event loop, and whatever else waits has its turn in between.
    """

    def __init__(self, clients: Clients, limits: Limits) -> None:
        self.clients = clients
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
    """An answer in pieces, sent by `send_all`, that is given up when the client goes."""

    def __init__(
        self, shared: StreamContext, send_all: Callable[[StreamSender], Awaitable[None]], media_type: str = NDJSON
    ) -> None:
        super().__init__(media_type=media_type)
        self._shared = shared
        self._send_all = send_all
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. What `send_all` raises passes; before the first piece it can still be answered."""
        sender = StreamSender(send, self.raw_headers, self._shared)
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                await self._send_all(sender)
                await sender.end()
                tasks.cancel_scope.cancel()
        except SlowReaderError:
            limit_s = self._shared.limits.send_s
            _log.warning("a client that did not read %s for %g s was dropped", scope["path"], limit_s)
            abort(scope)
            with anyio.move_on_after(_GOODBYE_S):  # the server notices the end of the connection in its next round
                await _gone(receive)


def event_stream(
    engine: Engine,
    shared: StreamContext,
    *,
    client: str | None,
    scope: str,
    after: int | None,
    quiet: bool = False,
    rows: bool = False,
) -> Stream:
    """Changes in the view `scope` for `client` after the number `after`, None for now.

    Without `after` the first line is a heartbeat with the present number. The stream ends after a `reset`, or when the
    client is removed. One that is `quiet` has heartbeats only; with `rows` units are rows.
    """
    limits, serialized = shared.limits, shared.serialized

    def heartbeat(seq: int) -> bytes:
        return serialized.line(Change(seq=seq, topic=HEARTBEAT))

    def pieces(changes: Sequence[Change]) -> Iterator[bytes]:
        yield from serialized.pieces(changes)

    async def send_all(sender: StreamSender) -> None:
        async with shared.clients.stream(client):
            seen = (await engine.status()).seq if after is None else after
            await (sender.write(heartbeat(seen)) if after is None else sender.start())
            while quiet:
                await anyio.sleep(limits.heartbeat_s)
                await sender.write(heartbeat(seen))
            topic = ""
            while topic != "reset":
                changes: Sequence[Change] = ()
                with anyio.move_on_after(limits.heartbeat_s):
                    while not changes:  # the engine may wake for what is none of this client's business
                        changes = await engine.changes(scope, seen, rows=rows)
                if changes:
                    seen, topic = changes[-1].seq, changes[-1].topic
                    await sender.write_each(pieces(changes))
                else:
                    serialized.forget_pages()
                    await sender.write(heartbeat(seen))

    return Stream(shared, send_all)


def line_stream(
    begin: Callable[[], AbstractAsyncContextManager[AsyncIterator[Line]]],
    heartbeat: Line,
    shared: StreamContext,
    client: str | None,
) -> Stream:
    """The lines of a build or a benchmark, which `begin` starts and the end of the connection gives up.

    `heartbeat` is the line that says that nothing has happened for a while.
    """

    async def send_all(sender: StreamSender) -> None:
        async with shared.clients.stream(client), begin() as lines:
            await sender.start()
            # An iteration must not be cancelled for a heartbeat, so another task does it.
            come, came = anyio.create_memory_object_stream[Line](shared.limits.send_lines)
            async with plain_errors(), anyio.create_task_group() as tasks, came:
                tasks.start_soon(_pump, lines, come)
                while True:
                    ready = [heartbeat]
                    with anyio.move_on_after(shared.limits.heartbeat_s):
                        ready = await _some(came)
                    if not ready:
                        break
                    await sender.write_all(json_bytes(line) + b"\n" for line in ready)

    return Stream(shared, send_all)


def slow_stream(
    model: type[SlowAnswer[Result]], ask: Callable[[], Awaitable[Result]], shared: StreamContext, client: str | None
) -> Stream:
    """Heartbeats, then `done`, as lines of `model`. A mistake that is known before the first line has the status of its
    own. `ask` is cancelled when the client goes."""

    async def send_all(sender: StreamSender) -> None:
        ended = anyio.Event()
        last: SlowAnswer[Result] | None = None
        failure: CkwatchError | None = None
        heartbeats = 0

        async def work() -> None:
            nonlocal last, failure
            try:
                last = model(event="done", result=await ask())
            except CkwatchError as error:
                failure = error
                last = model(event="done", problem=problem_of(error))
            ended.set()

        async with shared.clients.stream(client), plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            while not ended.is_set():
                with anyio.move_on_after(shared.limits.heartbeat_s):
                    await ended.wait()
                if not ended.is_set():
                    heartbeats += 1
                    await sender.write(_json_line(model(event="heartbeat")))
        if failure is not None and not heartbeats:
            raise failure
        if last is not None:  # else the client was removed
            await sender.write(await anyio.to_thread.run_sync(_json_line, last))

    return Stream(shared, send_all)


def json_stream(pieces: Iterable[bytes], shared: StreamContext) -> Stream:
    """One piece of JSON, serialized while it is sent."""
    return Stream(shared, lambda sender: sender.write_all(pieces), "application/json")


def snapshot_pieces(snapshot: Snapshot | Overview, shared: StreamContext) -> Iterator[bytes]:
    """The states of a snapshot, topic by topic."""
    separator = b'{"seq":%d,"states":{' % snapshot.seq
    for topic, state in snapshot.states.items():
        yield b"%b%b:%b" % (separator, _topic(topic), shared.serialized.state(state))
        separator = b",\n"  # a line for each, so that a client can read them one by one
    yield (b"" if snapshot.states else separator) + b"}}"


def units_pieces(units: Iterable[Unit | UnitRow], shared: StreamContext) -> Iterator[bytes]:
    """An array of units."""
    separator = b"["
    for unit in units:
        yield separator + shared.serialized.state(unit)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


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


def _json_line(line: object) -> bytes:
    return json_bytes(line) + b"\n"
