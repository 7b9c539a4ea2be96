"""Lets nothing but plain data into a process that reads what a farm sends.

dask marks objects in its messages as pickled, and whoever reads such a message runs the sender's code. Errors, types
and warnings are pickles in bytes, which dask's client loads wherever it finds them. So the daemon's client reads with
a transport of its own: texts, numbers, lists and maps arrive as they are. Bytes arrive as `ReceivedBytes`, which no
function of dask's takes for bytes; `opened` makes a type of `ckwatch.farm.messages` of them. An object of any other
kind is a `ReceivedBytes` that names it and holds nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from ssl import SSLError
from typing import Any, TypeVar, cast

import msgpack
from distributed import Client, Security
from distributed.comm import tcp
from distributed.comm.core import CommClosedError
from distributed.comm.registry import backends
from distributed.protocol.utils import unpack_frames
from pydantic import TypeAdapter, ValidationError
from tornado.iostream import StreamClosedError

from ckwatch.model.lazy_dataclass import dataclass

SCHEME_PREFIX = "ckwatch-"
"""Before the scheme of an address whose messages are read as plain data."""

MESSAGE_LIMIT_BYTES = 2 * 2**30

_T = TypeVar("_T")
_LENGTH = struct.Struct("Q")


class UnacceptableError(Exception):
    """Something was sent that is not what was asked for."""


class TaskError(Exception):
    """A task that dask calls failed: because the workers ended while they worked on it, or because one sent an
    error."""

    def __init__(self, sent: object) -> None:
        content = sent.content if isinstance(sent, ReceivedBytes) else None
        self.workers_ended = content is not None and b"KilledWorker" in content
        super().__init__("the workers ended while they worked on it" if self.workers_ended else _name_of(sent))


@dataclass(frozen=True, slots=True)
class ReceivedBytes:
    """Bytes that were received; with `problem` there are none, and it says what came in their place."""

    content: bytes | None
    problem: str = ""


def encode(value: object, kind: Any) -> bytes:
    """Return `value`, which is of type `kind`, as bytes for `decode`."""
    packed: bytes = msgpack.packb(_adapter(kind).dump_python(value), default=_plain)
    return packed


def _plain(value: Any) -> object:
    return str(value) if isinstance(value, Path) else list(value)


def decode(content: bytes, kind: type[_T]) -> _T:
    """Return the value of type `kind` in `content`. Raises UnacceptableError where there is none."""
    try:
        found = msgpack.unpackb(content, use_list=False, ext_hook=_refuse)
        return cast("_T", _adapter(cast("Any", kind)).validate_python(found))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UnacceptableError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except Exception as error:  # msgpack's are many
        raise UnacceptableError(f"no message of ckwatch: {error}") from error


def object_in(value: object) -> str | None:
    """Return the name of an object anywhere in a message; None where all is plain."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, ReceivedBytes) and one.content is None:
            return one.problem
        rest.extend(one.values() if isinstance(one, dict) else one if isinstance(one, tuple) else ())
    return None


def content_of(value: object) -> bytes:
    """Return the bytes that the other side sent. Raises UnacceptableError for anything else."""
    if not isinstance(value, ReceivedBytes) or value.content is None:
        raise UnacceptableError(_name_of(value))
    return value.content


def opened(value: object, kind: type[_T]) -> _T:
    """Return what the other side sent by `encode`. Raises UnacceptableError for anything else."""
    return decode(content_of(value), kind)


def _name_of(value: object) -> str:
    if isinstance(value, ReceivedBytes):
        return value.problem or "bytes"
    return f"data of type {type(value).__name__}"


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _refuse(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code} of {len(data)} bytes")


def read_message(frames: Sequence[Any]) -> Any:
    """Return the message in dask's frames as plain data. Raises ValueError and others for what is no message."""

    def whole_map(found: dict[Any, Any]) -> Any:
        for mark, resolve in (("__Serialized__", _serialized), ("__Pickled__", _pickled)):
            if mark in found:
                return resolve(frames, found[mark])
        if "__Set__" in found:
            return found.get("as-list")
        return {name: _kept(value) for name, value in found.items() if isinstance(name, str)}

    def whole_list(found: Sequence[Any]) -> Any:
        return tuple(map(_kept, found))

    return _kept(
        msgpack.unpackb(
            frames[0],
            object_hook=whole_map,
            list_hook=whole_list,
            ext_hook=lambda code, _data: ReceivedBytes(None, f"an object of extension type {code}"),
            strict_map_key=False,
            use_list=False,
        )
    )


def _kept(value: Any) -> Any:
    return ReceivedBytes(value) if isinstance(value, bytes) else value


def _pickled(_frames: Sequence[Any], _number: Any) -> ReceivedBytes:
    return ReceivedBytes(None, "a pickled object")


def _serialized(frames: Sequence[Any], number: Any) -> ReceivedBytes:
    """Return the bytes behind a mark. Everything else that dask can serialize may run code when it is loaded."""
    try:
        header = msgpack.unpackb(frames[number], strict_map_key=False)
        if "is-collection" in header:
            return ReceivedBytes(None, "a collection of objects")
        kind = header["serializer"]
        if kind != "msgpack":
            return ReceivedBytes(None, f"an object serialized as {str(kind)[:40]!r}")
        if any(header.get("compression") or ()):
            return ReceivedBytes(None, "compressed data")
        content = msgpack.unpackb(b"".join(frames[number + 1 : number + 1 + header["num-sub-frames"]]))
    except Exception:  # noqa: BLE001  # msgpack's are many, and the header may be anything
        return ReceivedBytes(None, "data that cannot be read")
    return ReceivedBytes(content) if isinstance(content, bytes) else ReceivedBytes(None, _name_of(content))


class _PlainReading:
    """Reads messages as plain data, in front of a `Comm` of dask."""

    stream: Any
    _closed: bool
    abort: Callable[[], None]
    peer_address: str

    def handshake_info(self) -> dict[str, Any]:
        """Ask for data that is not compressed: little may become much."""
        return {**super().handshake_info(), "compression": None}  # type: ignore[misc]

    async def read(self, deserializers: object = None) -> Any:  # noqa: ARG002  # dask's signature
        """Return the next message. Raises CommClosedError at the end, and after what is no message."""
        if self.stream is None:
            raise CommClosedError
        try:
            return read_message(await _read_frames(self.stream))
        except (StreamClosedError, SSLError) as error:
            self.stream, self._closed = None, True
            tcp.convert_stream_closed_error(self, error)
        except Exception as error:
            self.abort()
            raise CommClosedError(f"{self.peer_address} sent something other than a message: {error}") from error
        except BaseException:
            self.abort()
            raise


async def _read_frames(stream: Any) -> list[Any]:
    (size,) = _LENGTH.unpack(await stream.read_bytes(_LENGTH.size))
    _require_size(size)
    frames, sizes = unpack_frames(await tcp.read_bytes_rw(stream, size), partial=True)
    _require_size(sum(sizes))
    return [*frames, *[await tcp.read_bytes_rw(stream, one) for one in sizes]]


def _require_size(size: int) -> None:
    if size > MESSAGE_LIMIT_BYTES:
        raise ValueError(f"it has {size} bytes")


class _PlainTCP(_PlainReading, tcp.TCP):
    pass


class _PlainTLS(_PlainReading, tcp.TLS):
    pass


class _PlainTCPConnector(tcp.TCPConnector):
    comm_class = _PlainTCP


class _PlainTLSConnector(tcp.TLSConnector):
    comm_class = _PlainTLS


class _PlainTCPBackend(tcp.TCPBackend):
    _connector_class = _PlainTCPConnector


class _PlainTLSBackend(tcp.TLSBackend):
    _connector_class = _PlainTLSConnector


class PlainClient(Client):
    """dask's client, which is sent plain data alone. The result of a task is had by the scheduler's `gather`."""

    def __init__(self, address: str, security: Security | None, timeout_s: float) -> None:
        backends[f"{SCHEME_PREFIX}tcp"] = _PlainTCPBackend()
        backends[f"{SCHEME_PREFIX}tls"] = _PlainTLSBackend()
        super().__init__(  # type: ignore[no-untyped-call, unused-ignore]
            f"{SCHEME_PREFIX}{address}", security=security, asynchronous=True, timeout=timeout_s, set_as_default=False,
            name="ckwatch", deserializers=["msgpack"], extensions={}, direct_to_workers=False,
        )  # fmt: skip
        self.rpc.deserialize = False  # an error is then raised as text
        handlers: dict[str, Any] = self._stream_handlers
        handlers["key-in-memory"] = self._note_result
        handlers["task-erred"] = self._note_error
        handlers["error"] = handlers["adjust-heartbeat-interval"] = lambda **_: None

    def subscribe_topic(self, topic: str, handler: Callable[..., Any]) -> None:
        """Subscribe to what is ours: dask's own topics print and warn here what others send."""
        if topic not in Client._default_event_handlers:
            super().subscribe_topic(topic, handler)  # type: ignore[no-untyped-call, unused-ignore]

    async def _handle_report(self) -> None:
        """End reading, and not with an error, which would keep dask from closing the connection."""
        with suppress(Exception):
            await super()._handle_report()

    def _note_result(self, key: Any, **_: object) -> None:
        if (state := self.futures.get(key)) is not None:
            state.finish()

    def _note_error(self, key: Any, exception: object = None, **_: object) -> None:
        if (state := self.futures.get(key)) is not None:
            state.set_error(TaskError(exception), None)
