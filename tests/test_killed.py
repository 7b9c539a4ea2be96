"""The daemon after one that was killed. Kills at random moments are in `torture.kill`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from benches.daemon_bench import Bench
from ckwatch import connect
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.trust import trust
from fakes.patience import PATIENCE_S


class Daemons:
    """Starts daemons one after the other."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def start(self) -> int:
        """Its process number."""
        await self._stdin.send(b"go\n")
        return int(await self._lines.receive_until(b"\n", 100))

    async def ended(self) -> int:
        """The exit status of the one that was started last."""
        return int(await self._lines.receive_until(b"\n", 100))


@asynccontextmanager
async def daemons(bench: Bench) -> AsyncIterator[Daemons]:
    here = str(Path(__file__).parent)
    command = [sys.executable, str(Path(here, "benches/killable_daemon.py")), str(bench.folder)]
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])

    async with await anyio.open_process(command, env={**os.environ, "PYTHONPATH": path}, stderr=None) as process:
        yield Daemons(process)
        process.kill()


async def use(bench: Bench, reported: dict[str, str]) -> None:
    """Be a client: wait for the daemon, ask for everything, note what it reports as built."""
    while True:
        try:
            async with connect(bench.root, start=False) as client, client.building() as lines:
                async for line in lines:
                    if line.unit is not None and line.unit.fresh and line.unit.outcome in ("built", "failed"):
                        assert line.unit.key is not None
                        reported[line.unit.key] = line.unit.outcome
            return
        except CkwatchError:
            await anyio.sleep(0.01)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    bench = Bench(tmp_path / "bench")
    tmp_path.chmod(0o700)
    trust(bench.root)
    return bench


async def test_the_next_daemon_ends_the_compilers_of_one_that_was_killed(bench: Bench) -> None:
    reported: dict[str, str] = {}
    bench.will("slow")
    async with daemons(bench) as started:
        process = await started.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, bench, reported)
            await bench.started(2)
            tasks.cancel_scope.cancel()
            os.kill(process, signal.SIGKILL)
        await started.ended()
        assert len(bench.alive) == 2
        bench.will("slow", now=False)
        await started.start()
        with anyio.fail_after(PATIENCE_S):
            await use(bench, reported)
    assert bench.alive == []
    assert set(reported.values()) == {"built"}
