"""The client with a daemon in a process of its own, as a user has it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ckwatch.client import DaemonGoneError, connect
from ckwatch.endpoint import endpoint_of, owner
from daemon_bench import SECONDS, Bench


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = Bench(tmp_path).root
    yield root
    process = owner(endpoint_of(root))
    if process is not None:
        os.kill(process, signal.SIGKILL)


async def test_a_daemon_is_started_killed_started_again_and_stopped(root: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with connect(root, trust=True) as client, connect(root) as other:
            first = (await client.status()).pid
            assert (await other.status()).pid == first != os.getpid()
            async with client.overlay("templates/k.hip.j2", "{{ Nope }}"), client.events() as events:
                await anext(events)
                os.kill(first, signal.SIGKILL)
                async for change in events:
                    if change.state and change.state.kind == "file" and change.state.diagnostics:
                        break  # the next daemon was lent the text again
                assert not (await client.check("k/one")).ok
                second = (await client.status()).pid
            assert second != first
            assert (await other.check("k/one")).ok
            await client.stop()
            assert owner(endpoint_of(root)) is None
        with pytest.raises(DaemonGoneError):
            async with connect(root, start=False):
                pytest.fail("it was stopped")
