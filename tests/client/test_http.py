"""Exchanges with peers that are no daemon, or that break off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_UNIX, socket

import anyio
import pytest

from ckwatch.client import DaemonGoneError, DaemonSilentError
from ckwatch.client.connection import error_of
from ckwatch.client.http import Exchange
from ckwatch.client.http_state import target_of
from ckwatch.model.errors import CkwatchError, ProtocolError, UnknownUnitError, UntrustedError

pytestmark = pytest.mark.usefixtures("nothing_blocks")

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def peer(folder: Path, *pieces: bytes, hold: bool = False) -> AsyncIterator[Path]:
    """Answers one connection with `pieces`, and then closes it, or holds it."""
    path = folder / "peer.sock"
    with socket(AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)

        async def answer() -> None:
            await anyio.wait_readable(listener)
            connection, _ = listener.accept()
            with connection:
                connection.setblocking(False)
                await anyio.wait_readable(connection)
                connection.recv(2**16)
                for piece in pieces:
                    connection.send(piece)
                    await anyio.wait_all_tasks_blocked()
                if hold:
                    await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            yield path
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], DaemonGoneError),
        ([b"HTTP/1.1 200"], DaemonGoneError),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], ProtocolError),
        ([b"\0\1\2" * 100], ProtocolError),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000], ProtocolError),
        ([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"], ProtocolError),
    ],
)
async def test_answers_that_are_none(runtime: Path, pieces: Sequence[bytes], kind: type[Exception]) -> None:
    async with peer(runtime, *pieces) as path:
        with pytest.raises(CkwatchError) as raised:
            await Exchange.begin(path, "GET", "/v1/status")
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b"5\r\nab"], DaemonGoneError),
        ([b"5\r\nabcde\r\n"], DaemonGoneError),
        ([b"xyz\r\n"], ProtocolError),
    ],
)
async def test_bodies_that_break_off(runtime: Path, pieces: Sequence[bytes], kind: type[Exception]) -> None:
    async with peer(runtime, HEAD, *pieces) as path:
        exchange = await Exchange.begin(path, "GET", "/v1/status")
        with pytest.raises(CkwatchError) as raised:
            await exchange.read()
        exchange.close()
    assert type(raised.value) is kind


def chunked(*pieces: bytes) -> list[bytes]:
    return [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"\n", b"\n\nc"], [b"ab", b"c"]),
        ([b"a\n", b"b\nc", b"d\n"], [b"a", b"b", b"cd"]),
        ([b"\n\n"], []),
        ([], []),
    ],
)
async def test_lines(runtime: Path, pieces: Sequence[bytes], lines: list[bytes]) -> None:
    async with peer(runtime, HEAD, *chunked(*pieces), b"0\r\n\r\n") as path:
        exchange = await Exchange.begin(path, "GET", "/v1/events")
        found = []
        while (line := await exchange.line()) is not None:
            found.append(line)
        assert await exchange.line() is None
        exchange.close()
    assert found == lines


async def test_a_line_without_an_end(runtime: Path) -> None:
    async with peer(runtime, HEAD, *chunked(b"123456", b"123456"), hold=True) as path:
        exchange = await Exchange.begin(path, "GET", "/v1/events")
        with pytest.raises(ProtocolError, match="a line without an end"):
            await exchange.line(limit_bytes=10)
        exchange.close()


async def test_a_peer_that_says_nothing(runtime: Path) -> None:
    async with peer(runtime, hold=True) as path:
        with pytest.raises(DaemonSilentError) as raised:
            await Exchange.begin(path, "GET", "/v1/status", limit_s=0.05)
    assert "ckwatch restart" in str(raised.value)


async def test_a_peer_that_does_not_read(runtime: Path) -> None:
    async with peer(runtime, hold=True) as path:
        with pytest.raises(DaemonSilentError):
            await Exchange.begin(path, "PUT", "/v1/x", b"x" * 10_000_000, limit_s=0.05)


async def test_a_body_that_is_refused_before_it_was_read(runtime: Path) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"
    async with peer(runtime, answer) as path:
        exchange = await Exchange.begin(path, "PUT", "/v1/x", b"x" * 10_000_000, limit_s=0.05)
        assert (exchange.status, await exchange.read()) == (413, b"{}")
        exchange.close()


@pytest.mark.parametrize("name", ["nothing", "file", "dead", "x" * 200])
async def test_nobody_listens(runtime: Path, name: str) -> None:
    (runtime / "file").touch()
    with socket(AF_UNIX) as dead:
        dead.bind(str(runtime / "dead"))
    with pytest.raises(DaemonGoneError, match="there is no daemon on"):
        await Exchange.begin(runtime / name, "GET", "/v1/status")


@pytest.mark.parametrize(
    ("segments", "query", "target"),
    [
        (("status",), [], "/v1/status"),
        (("units", "a b/ü?", "x@gfx942:xnack+"), [], "/v1/units/a%20b%2F%C3%BC%3F/x@gfx942%3Axnack%2B"),
        (("files",), [("path", "/a b&c=d"), ("client", "x")], "/v1/files?path=%2Fa%20b%26c%3Dd&client=x"),
    ],
)
def test_targets(segments: Sequence[str], query: Sequence[tuple[str, str]], target: str) -> None:
    assert target_of(segments, query) == target


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b'{"error": "e", "hint": "h", "details": []}', UnknownUnitError("e", "h")),
        (403, b'{"error": "e"}', UntrustedError("e")),
        (400, b'{"error": "e", "details": ["1", "2"]}', CkwatchError("e\n  1\n  2")),
        (400, b'{"error": "e", "details": ["1", "2", "3", "4", "5", "6", "7"]}', CkwatchError("e\n  1\n  2\n  3\n  4\n  5\n  and 2 more")),
        (500, b"", ProtocolError("the daemon answered with status 500 and no reason")),
        (500, b"[]", ProtocolError("the daemon answered with status 500 and no reason")),
        (500, b'{"error": 1}', ProtocolError("the daemon answered with status 500 and no reason")),
        (500, b'{"error": "x", "details": 1}', ProtocolError("the daemon answered with status 500 and no reason")),
    ],
)  # fmt: skip
def test_errors_of_answers(status: int, body: bytes, expected: CkwatchError) -> None:
    error = error_of(status, body)
    assert (type(error), error.message, error.hint) == (type(expected), expected.message, expected.hint)
