"""A daemon killed with SIGKILL at any moment, a hundred times and more: nothing that was reported is lost, nothing
half-written is trusted, and the next one goes on."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ckwatch import connect
from ckwatch.bench.history.runs import History
from ckwatch.client import Client
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.model.errors import CkwatchError
from daemon_bench import KERNEL, Bench
from patience import PATIENCE_S

KILLS = 110
LONGEST_LIFE_S = 0.7
LOOKED_AT_EVERY = 10


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
    command = [sys.executable, str(Path(here, "killable_daemon.py")), str(bench.folder)]
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


def look(bench: Bench, reported: dict[str, str]) -> None:
    """What is on disk is whole, and holds all that was reported."""
    with ArtifactStore(bench.store) as store:
        assert store.verify() == []
        roots = PathRoots(bench.toolchain.roots)
        for key, outcome in reported.items():
            artifact = store.lookup(key, roots)
            assert artifact is not None
            assert artifact.ok == (outcome == "built")
    history = History(bench.history)
    if bench.history.exists():
        history.open()
        units = history.units()
        assert history.notice is None
        history.close()
        assert all(record.cause for record in units.values())
        with closing(sqlite3.connect(bench.history)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def states(client: Client) -> dict[str, tuple[str | None, str | None]]:
    return {unit.id: (unit.outcome, unit.key) for unit in await client.units()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    bench = Bench(tmp_path / "bench")
    tmp_path.chmod(0o700)
    (tmp_path / "trusted").write_text(f"{bench.root}\n")
    (tmp_path / "trusted").chmod(0o600)
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


@pytest.mark.timeout(3600)
async def test_killed_at_any_moment(bench: Bench) -> None:
    chance = random.Random(3)  # noqa: S311  # which moments are hit differs from run to run anyway
    reported: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        started = await stack.enter_async_context(daemons(bench))
        for number in range(1, KILLS + 1):
            tiles = [chance.randrange(1, 60) for _ in range(2)]
            text = KERNEL.replace("Tile = 1", f"Tile = {tiles[0]}").replace("Tile = 2", f"Tile = {tiles[1]}")
            bench.write("k.kernel.toml", text)
            broken = "BROKEN x;\n" if chance.random() < 0.3 else "int fine;\n"
            process = await started.start()
            with anyio.move_on_after(chance.random() * LONGEST_LIFE_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(use, bench, reported)
                    await anyio.sleep(chance.random() * LONGEST_LIFE_S)
                    bench.write("templates/macros.j2", broken)
            os.kill(process, signal.SIGKILL)
            assert await started.ended() == -signal.SIGKILL
            await anyio.to_thread.run_sync(look, bench, dict(reported))
            if number % LOOKED_AT_EVERY:
                continue
            # The next daemon goes on as if nothing had been; a second one finds the same state without a compiler.
            found = []
            for _ in range(2):
                process = await started.start()
                with anyio.fail_after(PATIENCE_S):
                    await use(bench, reported)
                    runs = len(bench.runs)
                    async with connect(bench.root, start=False) as client:
                        found.append(await states(client))
                os.kill(process, signal.SIGKILL)
                await started.ended()
            assert found[0] == found[1]
            assert len(bench.runs) == runs
            outcomes = {outcome for outcome, _ in found[0].values()}
            assert outcomes == (
                {"failed"} if "BROKEN" in (bench.root / "templates/macros.j2").read_text() else {"built"}
            )
    # Instances may repeat, and on a slow machine few builds end before the kill; those that were looked at did.
    assert len(reported) >= KILLS // LOOKED_AT_EVERY
