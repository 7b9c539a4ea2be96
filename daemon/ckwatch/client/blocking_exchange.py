"""HTTP over a Unix socket for a command that waits for one answer and needs no event loop."""

from __future__ import annotations

import os
import time
from socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket
from types import TracebackType
from typing import Self

import h11

from ckwatch.client.http_state import HttpState
from ckwatch.model.errors import DaemonGoneError

_CHUNK_BYTES = 256 * 1024


class BlockingExchange:
    """A request, and the answer as far as it has come. Leaving the context closes the connection: the daemon then stops
    what it does for this request."""

    def __init__(self, path: str | os.PathLike[str], method: str, target: str, body: bytes | None = None) -> None:
        """Send a request to the socket at `path`. Raises DaemonGoneError if no daemon takes it."""
        self._http = HttpState()
        self._parts: list[bytes] = []
        self._socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            self._socket.connect(os.fspath(path))
            self._socket.setblocking(True)
            self._socket.sendall(self._http.request(method, target, body))
        except OSError as error:
            self._socket.close()
            raise DaemonGoneError(f"no daemon takes a request on {path}: {error.strerror or error}") from None
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def answer(self, until_s: float) -> tuple[int, bytes] | None:
        """Status and body; None if they are not there at `until_s`, by the monotonic clock. Raises DaemonGoneError and
        ProtocolError as `HttpState.event`."""
        while not isinstance(event := self._http.event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                self._parts.append(bytes(event.data))
            elif event is None:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return None
                self._socket.settimeout(left_s)
                try:
                    data = self._socket.recv(_CHUNK_BYTES)
                except TimeoutError:
                    return None
                except OSError:
                    data = b""
                self._http.receive(data)
        return self._http.status, b"".join(self._parts)
