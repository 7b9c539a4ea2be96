"""A watcher ends at once, wherever it is."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from ckwatch.engine.watch import Batch, Watcher
from ckwatch.engine.watch.inotify import Inotify
from patience import PATIENCE_S
from watching import unconcerned, watching


async def silent(batch: Batch) -> None:
    """Nobody is told."""


def open_inotifies() -> int:
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += str(descriptor.readlink()) == "anon_inode:inotify"
        except OSError:
            continue
    return count


@pytest.mark.parametrize("poll", [False, True], ids=["inotify", "polling"])
@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
async def test_cancelled_at_any_time(workspace: Path, after_ms: int, poll: bool) -> None:
    for number in range(300):
        (workspace / f"d{number}").mkdir()
    before = open_inotifies()
    watcher = Watcher(silent, unconcerned, poll=poll)
    watcher.follow([str(workspace)], [str(workspace / f"d{number}" / "x.h") for number in range(300)])
    with anyio.fail_after(PATIENCE_S):
        with anyio.move_on_after(after_ms / 1000):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.run)
                while True:
                    (workspace / "d1/a.j2").write_text("1")
                    await anyio.sleep(0.003)
    assert open_inotifies() == before


async def test_cancelled_while_it_walks(workspace: Path) -> None:
    for number in range(50):
        (workspace / f"d{number}").mkdir()
    walking = anyio.Event()
    added: list[str] = []

    class Slow(Inotify):
        def add(self, folder: str, *, only_itself: bool = False) -> None:
            super().add(folder, only_itself=only_itself)
            added.append(folder)
            anyio.from_thread.run_sync(walking.set)
            while not watcher._stopping:
                time.sleep(0.001)

    watcher = Watcher(silent, unconcerned, make_inotify=Slow)
    watcher.follow([str(workspace)], [])
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher.run)
            await walking.wait()
            tasks.cancel_scope.cancel()
    assert not [folder for folder in added if folder.startswith(f"{workspace}/")]


async def test_it_can_run_again(workspace: Path) -> None:
    batches: list[Batch] = []
    told = anyio.Event()

    async def deliver(batch: Batch) -> None:
        batches.append(batch)
        told.set()

    watcher = Watcher(deliver, unconcerned)
    watcher.follow([str(workspace)], [])
    with anyio.fail_after(PATIENCE_S):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.run)
                await watcher.settled()
                told = anyio.Event()
                (workspace / "a").write_text("1")
                await told.wait()
                tasks.cancel_scope.cancel()
    assert batches[0] == Batch(frozenset({str(workspace / "a")}))
    assert not batches[1].complete  # who knows what happened in between
    assert str(workspace) in batches[1].paths


async def test_nothing_stays_open(workspace: Path) -> None:
    before = open_inotifies()
    async with watching([workspace]):
        assert open_inotifies() == before + 1
    assert open_inotifies() == before
