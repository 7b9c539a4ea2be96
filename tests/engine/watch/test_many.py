"""Thousands of changes, and what the kernel could not keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio.to_thread

from ckwatch.engine.watch import Batch
from ckwatch.engine.watch import watcher as watcher_module
from ckwatch.engine.watch.events import WatchEvents
from ckwatch.engine.watch.inotify import IN_Q_OVERFLOW, Inotify
from watching import watching

WRITE = """
import sys
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}.j2", "w") as file:
        file.write("1")
"""


async def test_what_happens_at_once_is_one_batch(workspace: Path) -> None:
    count = 3000
    async with watching([workspace]) as told:
        for number in range(count):
            (workspace / f"{number}.j2").write_text("1")
        await told.until(lambda: bool(told.batches))
        assert told.batches == [Batch(frozenset(str(workspace / f"{number}.j2") for number in range(count)))]


async def test_a_checkout_by_another_process(workspace: Path) -> None:
    count = 3000
    async with watching([workspace]) as told:
        await anyio.to_thread.run_sync(
            lambda: subprocess.run([sys.executable, "-c", WRITE, str(workspace), str(count)], check=True)
        )
        await told.until(lambda: len(told.paths) == count)
        # One, unless the machine is so busy that the writer pauses at its beginning, or longer than the quiet.
        assert len(told.batches) < count / 10
        assert all(batch.complete for batch in told.batches)


async def test_an_overflow_is_told_and_survived(workspace: Path) -> None:
    class Overflowing(Inotify):
        overflow = False

        def read(self) -> WatchEvents:
            reading = super().read()
            if Overflowing.overflow and reading.happenings:
                Overflowing.overflow = False
                return WatchEvents([], lost=True)
            return reading

    async with watching([workspace], make_inotify=Overflowing) as told:
        Overflowing.overflow = True
        (workspace / "a/b").mkdir(parents=True)  # this is what is lost
        await told.until(lambda: any(not batch.complete for batch in told.batches))
        (workspace / "a/b/x.j2").write_text("1")
        await told.saw(workspace / "a/b/x.j2")


def test_the_kernel_says_when_it_loses_events(tmp_path: Path) -> None:
    assert IN_Q_OVERFLOW == 0x4000
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    inotify = Inotify()
    try:
        inotify.add(str(tmp_path))
        names = [tmp_path / "a", tmp_path / "b"]
        names[0].write_text("")
        for count in range(limit // 2 + 2):
            names[count % 2].rename(names[1 - count % 2])
        lost, events = False, 0
        while (reading := inotify.read()).happenings or reading.lost:
            lost = lost or reading.lost
            events += len(reading.happenings)
        assert lost
        assert events <= limit + 1
    finally:
        inotify.close()


def test_check_is_rare_enough_for_an_idle_daemon() -> None:
    """About 1.5 ms of processor time each: 0.1 % is one per 1.5 s, for everything that the daemon does."""
    assert watcher_module.CHECK_S >= 5
