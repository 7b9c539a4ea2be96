"""Scans find changes that the library never reports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benches.watching import QUICK, watching
from ckwatch.engine.watch import WatchDelays
from ckwatch.engine.watch.places import Hints
from ckwatch.engine.watch.watcher import OVERFLOW_PATHS

RARELY = replace(QUICK, shortest_scan_s=3600.0, longest_scan_s=3600.0, check_s=3600.0)
"""No scan is made by the clock."""


class Silent:
    """Watches nothing. Reports what a test wants it to."""

    def __init__(self) -> None:
        self.hints: dict[str, bool] = {}
        self.go = anyio.Event()

    @asynccontextmanager
    async def __call__(self, _folders: Collection[str], _recursive: bool) -> AsyncGenerator[AsyncIterator[Hints], None]:
        yield self._hints()

    async def _hints(self) -> AsyncIterator[Hints]:
        await self.go.wait()
        yield self.hints
        await anyio.sleep_forever()


async def test_an_event_that_never_comes(workspace: Path) -> None:
    header = workspace.parent / "a.h"
    header.write_text("1")
    notify = Silent()
    delays = replace(QUICK, shortest_scan_s=0.1, scan_share=0.0, check_s=3600.0)
    async with watching([workspace], [header], notify=notify, delays=delays) as reports:
        (workspace / "a.j2").write_text("1")
        header.write_text("22")
        await reports.saw(workspace / "a.j2", header)


@pytest.mark.parametrize("took_s", [0.0, 0.001, 0.02, 0.06, 1.0, 10.0])
def test_nothing_is_missed_for_over_a_minute(took_s: float) -> None:
    pause_s = WatchDelays().scan_pause_s(took_s, poll=False)
    assert pause_s + took_s <= 60.0
    assert pause_s >= 10.0
    assert took_s / pause_s <= 0.001 or pause_s == WatchDelays().longest_scan_s


@pytest.mark.parametrize("count", [OVERFLOW_PATHS, 1], ids=["overflow", "a few"])
async def test_so_many_events_that_some_were_dropped(workspace: Path, count: int) -> None:
    notify = Silent()
    dropped, reported = workspace / "dropped.j2", workspace / "reported.j2"
    async with watching([workspace], notify=notify, delays=RARELY) as reports:
        dropped.write_text("1")
        reported.write_text("1")
        notify.hints = dict.fromkeys(
            [str(reported), *(f"{workspace}/.git/{number}" for number in range(count - 1))], False
        )
        notify.go.set()
        await reports.saw(reported)
        assert (str(dropped) in reports.paths) == (count == OVERFLOW_PATHS)
        assert len(reports.batches) == 1


@pytest.mark.parametrize("asleep_s", [0.0, 3600.0], ids=["awake", "suspended"])
async def test_the_machine_was_suspended(workspace: Path, asleep_s: float) -> None:
    clock = {"s": 5.0}
    read = anyio.Event()

    def suspended_s() -> float:
        if read_after_suspend:
            read.set()
        return clock["s"]

    read_after_suspend = False
    delays = replace(RARELY, check_s=0.05)
    async with watching([workspace], notify=Silent(), delays=delays, suspended_s=suspended_s) as reports:
        (workspace / "a.j2").write_text("1")
        clock["s"] += asleep_s
        read_after_suspend = True
        await read.wait()
        if asleep_s:
            await reports.saw(workspace / "a.j2")
        else:
            await anyio.sleep(0.2)
            assert reports.batches == []


async def test_another_folder_at_the_same_place(tmp_path: Path) -> None:
    """As when a file system is mounted over a folder."""
    root, header = tmp_path / "home/work", tmp_path / "home/inc/a.h"
    for folder in (root, header.parent, tmp_path / "other/work", tmp_path / "other/inc"):
        folder.mkdir(parents=True)
    header.write_text("1")
    async with watching([root], [header], notify=Silent(), delays=replace(RARELY, check_s=0.1)) as reports:
        root.parent.rename(tmp_path / "away")
        (tmp_path / "other").rename(root.parent)
        await reports.saw(header, root)
        assert any(not batch.complete for batch in reports.batches)
