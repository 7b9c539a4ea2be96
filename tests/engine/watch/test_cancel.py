"""A watcher ends at once, wherever it is, and leaves no process behind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from benches.watching import QUICK, ignore_problems, watching
from ckwatch.engine.watch import Batch, Watcher
from fakes.patience import PATIENCE_S


async def drop(batch: Batch) -> None:
    """Nothing is done about changes."""


def children() -> set[int]:
    """The processes that this one has started and that were not reaped."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found


@pytest.mark.parametrize("poll", [False, True], ids=["watchfiles", "polling"])
@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144])
async def test_cancelled_at_any_time(workspace: Path, after_ms: int, poll: bool) -> None:
    for number in range(300):
        (workspace / f"d{number}").mkdir()
    before = children()
    watcher = Watcher(drop, ignore_problems, poll=poll, delays=QUICK)
    watcher.follow([str(workspace / "d1")], [str(workspace / f"d{number}" / "x.h") for number in range(300)])
    with anyio.fail_after(PATIENCE_S):
        with anyio.move_on_after(after_ms / 1000) as given:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.run)
                while True:
                    (workspace / "d1/a.j2").write_text("1")
                    await anyio.sleep(0.003)
    assert given.cancelled_caught
    assert children() == before


async def test_it_can_run_again(workspace: Path) -> None:
    batches: list[Batch] = []
    reported = anyio.Event()

    async def deliver(batch: Batch) -> None:
        batches.append(batch)
        reported.set()

    watcher = Watcher(deliver, ignore_problems, delays=QUICK)
    watcher.follow([str(workspace)], [])
    with anyio.fail_after(PATIENCE_S):
        for text in ("1", "22"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.run)
                await watcher.settled()
                reported = anyio.Event()
                (workspace / "a").write_text(text)
                while not any(str(workspace / "a") in batch.paths for batch in batches):
                    await reported.wait()
                    reported = anyio.Event()
                tasks.cancel_scope.cancel()
            if text == "1":
                assert batches == [Batch(frozenset({str(workspace / "a")}))]
                batches.clear()
    assert not batches[0].complete  # who knows what happened in between
    assert str(workspace) in batches[0].paths


async def test_no_process_is_left(workspace: Path) -> None:
    before = children()
    async with watching([workspace], [workspace.parent / "x.h"]):
        assert len(children() - before) == 2
    assert children() == before
