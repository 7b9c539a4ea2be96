"""The server itself: who may connect, and how it ends."""

from __future__ import annotations

import os
import signal

import anyio
import httpx
import pytest

from benches.served import Serve, Served
from ckwatch.questions.workspace import WorkspaceQuestions


async def test_other_users_are_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await served.http.get("/status")
    assert "another user" in caplog.text
    assert served.engine.asked == []


async def test_signals_are_left_alone(served: Served) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert (await served.http.get("/status")).status_code == 200


async def test_connections_are_kept_for_the_next_request(served: Served) -> None:
    async with await anyio.connect_unix(served.path) as connection:
        for _ in range(2):
            await connection.send(b"GET /v1/log HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await connection.receive()).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_request_in_progress_is_answered_before_the_end(served: Served) -> None:
    async def log(lines: int) -> str:
        served.serving.cancel()
        await anyio.wait_all_tasks_blocked()
        return "the last line"

    served.engine.answers[WorkspaceQuestions.log] = log
    assert (await served.http.get("/log")).text == "the last line"
    await served.ended.wait()


async def test_a_request_that_takes_too_long_learns_of_the_end(served: Served) -> None:
    async def log(lines: int) -> str:
        served.serving.cancel()
        await anyio.sleep_forever()
        return ""

    served.engine.answers[WorkspaceQuestions.log] = log
    answer = await served.http.get("/log")
    assert (answer.status_code, answer.json()["error"]) == (503, "the daemon is ending")
    await served.ended.wait()


async def test_idle_connections_end_with_it(served: Served) -> None:
    async with await anyio.connect_unix(served.path) as idle:
        await served.http.get("/status")
        served.serving.cancel()
        await served.ended.wait()
        with pytest.raises(anyio.EndOfStream):
            await idle.receive()


@pytest.mark.parametrize("pieces", [[], [b"G"], [b"GET /v1/log HT"], [b"GET /v1/log HTTP/1.1\r\nhost: x\r\n"]])
@pytest.mark.parametrize("before", [b"", b"GET /v1/log HTTP/1.1\r\nhost: x\r\n\r\n"])
async def test_half_a_head_is_given_up(serve: Serve, pieces: list[bytes], before: bytes) -> None:
    async with serve(head_s=0.1) as served, await anyio.connect_unix(served.path) as connection:
        if before:
            await connection.send(before)
            assert (await connection.receive()).startswith(b"HTTP/1.1 200 OK\r\n")
        for piece in pieces:
            await connection.send(piece)
        with pytest.raises(anyio.EndOfStream):
            await connection.receive()


async def test_bytes_one_by_one_give_no_more_time(serve: Serve) -> None:
    async with serve(head_s=0.1) as served, await anyio.connect_unix(served.path) as connection:

        async def drip() -> None:
            while True:
                await connection.send(b"X")
                with anyio.move_on_after(0.01):
                    await connection.receive()

        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await drip()
