"""Output to an editor that reads slowly, not at all, or is no pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ckwatch_lsp.protocol.transport import MessageWriter
from fakes.patience import PATIENCE_S


def sockets() -> tuple[int, int]:
    """A pair as Node has for its children."""
    one, other = socket.socketpair()
    return one.detach(), other.detach()


@pytest.mark.parametrize("made", [os.pipe, sockets])
async def test_what_is_not_taken_at_once_arrives_in_order(made: Callable[[], tuple[int, int]]) -> None:
    out, into = made()
    messages = [b"%d" % number * 20_000 for number in range(100)]
    writer = MessageWriter(os.fdopen(into, "wb", buffering=0))
    for message in messages:
        writer.write(message)  # nobody reads, and this does not wait
    read = b""

    def read_all() -> None:
        nonlocal read
        while len(read) < sum(map(len, messages)):
            read += os.read(out, 65536)

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(to_thread.run_sync, read_all)
            await writer.finish(PATIENCE_S)
    assert read == b"".join(messages)
    states = [writer.lost]
    os.close(out)
    writer.write(b"too late")
    assert [*states, writer.lost] == [False, True]
    writer.close()


async def test_output_that_is_a_file(tmp_path: Path) -> None:
    writer = MessageWriter(os.fdopen(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT), "wb", buffering=0))
    writer.write(b"a" * 1_000_000)
    writer.write(b"b")
    await writer.finish()
    writer.close()
    assert await anyio.Path(tmp_path / "out").read_bytes() == b"a" * 1_000_000 + b"b"
