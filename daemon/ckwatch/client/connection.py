"""A client's connection to its daemon: sends requests, retries them after a restart, and raises the daemon's errors.

Requests that take as long as a compile answer with heartbeats and then the result; `ask` waits for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import anyio
from anyio import to_thread

from ckwatch.client.http import Exchange
from ckwatch.client.http_state import target_of
from ckwatch.model.errors import CkwatchError, DaemonGoneError, ProtocolError, UnknownUnitError, UntrustedError
from ckwatch.questions.endpoint import NOTHING, Absolute, Endpoint, Followed, Question, Request

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ckwatch.wire.benchmarks import BenchLine
    from ckwatch.wire.state import BuildLine
    from ckwatch.wire.verification import VerifyLine

Answer = TypeVar("Answer")
Line = TypeVar("Line", bound="BuildLine | BenchLine | VerifyLine")
Item = TypeVar("Item")

Reach = Callable[[bool], Awaitable[Path]]
"""Gives the socket of a daemon that answers; with True it may start one. Raises DaemonGoneError where there is none."""

_ENDING = 503
"""The daemon answers so while it ends; it has not done what was asked."""


_CLASSES: dict[int, type[CkwatchError]] = {403: UntrustedError, 404: UnknownUnitError}
"""Errors by an answer's status; any other is a CkwatchError."""

_MOST_DETAILS = 5


class Connection:
    """Sends requests to the daemon, and finds it again when it has gone."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._reaching = anyio.Lock()
        self._socket: Path | None = None
        self.restore: Callable[[], Awaitable[None]] | None = None
        """Gives a new daemon the client's unsaved text, focus and view, before a request is sent again."""
        self.has_stopped_it = False
        """The daemon ends because this client has asked for it: it is not restarted until the next request."""

    async def reach(self, *, start: bool) -> None:
        """Make sure that a daemon answers. `start`: one may be started for this."""
        await self._find(self._socket, start=start)

    async def request(self, request: Request) -> bytes:
        """The body of an answer. Raises the CkwatchError that the daemon answers with, and what an Exchange raises."""
        async with self.answer(request) as first:
            try:
                return await first.read()
            except DaemonGoneError:
                if request.retry != "always":
                    raise
        await self._recover(self._socket)
        async with self.answer(request._replace(retry="never")) as second:
            return await second.read()

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Exchange]:
        """An answer that is read while the context is open. Raises as `request`."""
        exchange = await self.open(request)
        try:
            yield exchange
        finally:
            exchange.close()

    async def open(self, request: Request) -> Exchange:
        """An answer that the caller closes. Raises as `request`."""
        sent, retry = (request.method, target_of(request.segments, request.query), request.body), request.retry
        socket = self._socket or await self._find(None, start=True)
        try:
            exchange = await Exchange.begin(socket, *sent)
        except DaemonGoneError as error:
            if retry == "never" or (retry == "unsent" and error.began):
                raise
            exchange = await Exchange.begin(await self._recover(socket), *sent)
        if exchange.status == _ENDING and retry != "never":
            exchange.close()
            exchange = await Exchange.begin(await self._recover(socket), *sent)
        if exchange.status < 400:
            return exchange
        try:
            problem = await exchange.read()
        finally:
            exchange.close()
        raise error_of(exchange.status, problem)

    async def leave(self, client: str) -> None:
        """Tell the daemon, if there is one, that this client goes."""
        if self._socket is None:
            return
        with suppress(CkwatchError):
            async with self.answer(Request("DELETE", ("clients", client), retry="never")):
                return

    async def _recover(self, lost: Path | None) -> Path:
        socket = await self._find(lost, start=True)
        if self.restore is not None:
            await self.restore()
        return socket

    async def _find(self, lost: Path | None, *, start: bool) -> Path:
        """The socket of a daemon that answers; `lost` is the one that was used so far."""
        async with self._reaching:
            if self._socket is None or self._socket == lost:
                self._socket = None
                self._socket = await self._reach(start)
                self.has_stopped_it = False
            return self._socket


async def ask(
    connection: Connection,
    question: Question[..., Answer],
    given: tuple[Any, ...] = (),
    named: Mapping[str, Any] = NOTHING,
    *,
    absolute: Absolute = str,
    viewer: str | None = None,
) -> Answer:
    """Ask a question; `given` and `named` are its arguments. Raises as `Connection.request`."""
    request = question.request(given, named, absolute, viewer)
    if question.slow:
        async with connection.answer(request) as exchange:
            return await _result_in(exchange, question)
    data = await connection.request(request)
    if question.media == "text/plain":
        return cast("Answer", data.decode(errors="replace"))
    return await _parsed(question, data) if question.answer is not None else cast("Answer", None)


async def _parsed(question: Question[..., Any], data: bytes) -> Any:
    if len(data) < _LARGE_BYTES:
        return _decoded(question, data)
    return await to_thread.run_sync(parsed, question.adapter, data)


def _decoded(endpoint: Endpoint[..., Any, Any], data: bytes) -> Any:
    """The message that the daemon sent. Raises ProtocolError if it is something else."""
    try:
        return endpoint.decode(json.loads(data))
    except ValueError as error:
        raise ProtocolError(f"the daemon's answer is not understood: {error}") from None


def parsed(adapter: TypeAdapter[Item], data: bytes) -> Item:
    """`data` as a wire type. Raises ProtocolError if it is none."""
    from pydantic import ValidationError

    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        raise ProtocolError(f"the daemon's answer is not understood: {error.errors()[0]['msg']}") from None


class LineIterator(Generic[Line]):
    """Iterates over the lines of a build, benchmark or verification (`action`), the last one `done`. Waiting may have a
    time limit.

    A build has `start`, and `unit` for each unit that settles; a benchmark `began`, `stage`, `timing` and `skipped` for
    each unit and shape; a verification `began`, `stage` and `unit` for each unit.
    """

    def __init__(self, exchange: Exchange, lines: Followed[..., Line]) -> None:
        self._exchange = exchange
        self._lines = lines
        self._action = lines.action
        self._done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Line:
        """The next line. Raises DaemonGoneError when the daemon ends before the action does."""
        while not self._done:
            data = await self._exchange.line()
            if data is None:
                raise DaemonGoneError(f"the daemon was stopped during the {self._action}", began=True)
            line: Line = _decoded(self._lines, data)
            self._done = line.event == "done"
            if line.event != "heartbeat":
                return line
        raise StopAsyncIteration


_WRONG = 400
_LARGE_BYTES = 32 * 1024
"""Reading more than this takes milliseconds, and pydantic is worth its import."""


def error_of(status: int, body: bytes) -> CkwatchError:
    """The error that an answer with a status of 400 or more stands for; its body is a wire `Problem`."""
    try:
        problem: Any = json.loads(body)
        message, hint, details = problem["error"], problem.get("hint"), problem.get("details") or ()
        if not isinstance(message, str) or not isinstance(hint, str | None):
            raise TypeError
        more = [str(detail) for detail in details]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ProtocolError(f"the daemon answered with status {status} and no reason")
    if len(more) > _MOST_DETAILS:
        more[_MOST_DETAILS:] = [f"and {len(more) - _MOST_DETAILS} more"]
    return _CLASSES.get(status, CkwatchError)("\n".join([message, *(f"  {detail}" for detail in more)]), hint)


async def _result_in(exchange: Exchange, question: Question[..., Answer]) -> Answer:
    """Wait for the result. Raises the CkwatchError that the daemon answers with, DaemonGoneError if it ends before."""
    while (data := await exchange.line()) is not None:
        line = await _parsed(question, data)
        if line.problem is not None:
            raise error_of(_WRONG, json.dumps(asdict(line.problem)).encode())
        if line.result is not None:
            return cast("Answer", line.result)
        if line.event == "done":
            raise ProtocolError("the daemon's answer is empty")
    raise DaemonGoneError("the daemon was stopped during the compile", began=True)
