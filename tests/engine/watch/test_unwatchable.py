"""Folders that cannot be watched are polled; the user is told so, and when it is over."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from benches.watching import watching
from ckwatch.engine.watch.notify import watchfiles_process
from ckwatch.engine.watch.places import Hints


class Failing:
    """Watches, or raises an error at the beginning, or breaks off with it."""

    def __init__(self, error: OSError | None, *, later: bool = False, only_trees: bool = False) -> None:
        self.error = error
        self.later = later
        self.only_trees = only_trees
        self.go = anyio.Event()
        self.watched: list[set[str]] = []

    @asynccontextmanager
    async def __call__(self, folders: Collection[str], recursive: bool) -> AsyncGenerator[AsyncIterator[Hints], None]:
        error = self.error if recursive or not self.only_trees else None
        if error is not None and not self.later:
            raise error
        self.watched.append(set(folders))
        async with watchfiles_process(folders, recursive) as hints:
            yield self._break_off(error) if error is not None else hints

    async def _break_off(self, error: OSError) -> AsyncIterator[Hints]:
        await self.go.wait()
        if self.go.is_set():
            raise error
        yield {}


@pytest.mark.parametrize("later", [False, True], ids=["at the beginning", "later"])
@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "max_user_watches="), (errno.EMFILE, "max_user_instances=")],
    ids=["watches", "instances"],
)
async def test_a_limit(workspace: Path, number: int, hint: str, later: bool) -> None:
    notify = Failing(OSError(number, os.strerror(number)), later=later)
    async with watching([workspace], notify=notify) as reports:
        notify.later = False
        notify.go.set()
        await reports.until(lambda: bool(reports.problems))
        message = reports.problems[0][0]
        assert message is not None
        assert "polled" in message
        assert hint in (reports.problems[0][1] or "")
        (workspace / "a.j2").write_text("1")
        await reports.saw(workspace / "a.j2")
        notify.error = None
        await reports.until(lambda: reports.problems[-1] == (None, None))
        (workspace / "b.j2").write_text("1")
        await reports.saw(workspace / "b.j2")
        assert len(reports.problems) == 2


@pytest.mark.parametrize("when", ["before", "while"])
async def test_the_process_ends_by_itself(workspace: Path, when: str) -> None:
    """Begun again, with a scan for what happened meanwhile: that needs no word."""
    notify = Failing(OSError(errno.EIO, "broken"), later=True)
    async with watching([workspace], notify=notify) as reports:
        if when == "before":
            (workspace / "a.j2").write_text("1")
        notify.error = None
        notify.go.set()
        if when == "while":
            (workspace / "a.j2").write_text("1")
        await reports.saw(workspace / "a.j2")
        await reports.nothing_before(workspace / "marker")
        assert reports.problems == []
        assert len(notify.watched) == 2


async def test_polling_that_was_asked_for_is_no_problem(workspace: Path) -> None:
    notify = Failing(None)
    async with watching([workspace], poll=True, notify=notify) as reports:
        (workspace / "a.j2").write_text("1")
        await reports.saw(workspace / "a.j2")
        assert reports.problems == []
    assert notify.watched == []


async def test_a_folder_without_permission(workspace: Path) -> None:
    """It ends the walk of the library: then folders are named one by one."""
    notify = Failing(PermissionError(errno.EACCES, "Permission denied"), only_trees=True)
    (workspace / "a").mkdir()
    async with watching([workspace], notify=notify) as reports:
        assert notify.watched == [{str(workspace), str(workspace / "a")}]
        (workspace / "a/x.j2").write_text("1")
        await reports.saw(workspace / "a/x.j2")
        (workspace / "b").mkdir()
        await reports.saw(workspace / "b")
        (workspace / "b/y.j2").write_text("1")
        await reports.saw(workspace / "b/y.j2")
        assert reports.problems == []
