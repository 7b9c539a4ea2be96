"""The state of one request and its answer, in HTTP: what to send, and the meaning of received bytes.

It reads and writes no socket, so that asynchronous and blocking exchanges share it. h11 is the parser that httpx and
uvicorn use; httpx itself takes longer to import than most commands take to run (`benchmarks/client_start.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import h11

from ckwatch.model.errors import DaemonGoneError, ProtocolError

RESTART = "`ckwatch restart` starts a new one; `ckwatch logs` may show why"

_GONE = "the daemon went away before it had answered"
_NO_HTTP = "the program on the daemon's socket is not a ckwatch daemon"

Query = Sequence[tuple[str, str]]


def target_of(segments: Sequence[str], query: Query = ()) -> str:
    """The request target of a path given by its segments, which may hold any characters."""
    path = "".join("/" + quote(segment, safe="@") for segment in ("v1", *segments))
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


class HttpState:
    """A request, then the events of its answer. `status` is 0 until the head of the answer is there."""

    def __init__(self) -> None:
        self.status = 0
        self._http = h11.Connection(h11.CLIENT)
        self._ended = False

    def request(self, method: str, target: str, body: bytes | None) -> bytes:
        """The bytes of the request."""
        headers = [("Host", "ckwatch"), ("Connection", "close"), ("Accept", "application/json, application/x-ndjson")]
        if body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        events: list[h11.Event] = [h11.Request(method=method, target=target, headers=headers)]
        if body:
            events.append(h11.Data(data=body))
        events.append(h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events)

    def refused(self) -> None:
        """The request was not read to its end: who refuses a body answers before it has read it."""
        self._http.send_failed()

    def receive(self, data: bytes) -> None:
        """Take what came; nothing means the end. Raises as `event`."""
        self._ended = not data
        with self._translated():
            self._http.receive_data(data)

    def event(self) -> h11.Event | None:
        """The next event of the answer; None when more has to be received first. Raises DaemonGoneError if the daemon
        went away first, and ProtocolError for an answer that is no HTTP."""
        with self._translated():
            event = self._http.next_event()
        if event is h11.PAUSED:
            raise ProtocolError(_NO_HTTP)
        if isinstance(event, h11.InformationalResponse):
            return self.event()
        if not self.status and isinstance(event, h11.Event):
            if not isinstance(event, h11.Response):
                raise ProtocolError(_NO_HTTP)
            self.status = event.status_code
        return event if isinstance(event, h11.Event) else None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except h11.RemoteProtocolError as error:
            if self._ended:
                raise DaemonGoneError(_GONE, RESTART, began=True) from None
            raise ProtocolError(f"{_NO_HTTP}: {error}") from None
