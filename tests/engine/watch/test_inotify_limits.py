"""The kernel has no watch left: say so, poll, and return when there are some again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import ckwatch.engine.watch.watcher
from ckwatch.engine.watch.inotify import Inotify, describe_shortage
from watching import watching


class Scarce(Inotify):
    """An inotify with only so many watches to give."""

    left = 2

    def add(self, folder: str, *, only_itself: bool = False) -> None:
        if folder not in self._descriptors and not only_itself:
            if type(self).left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
            type(self).left -= 1
        super().add(folder, only_itself=only_itself)


async def test_no_watch_left(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckwatch.engine.watch.watcher, "CHECK_S", 0.2)
    folders = [workspace / name for name in "abcd"]
    for folder in folders:
        folder.mkdir()
    Scarce.left = 2
    async with watching([workspace], make_inotify=Scarce) as told:
        await told.until(lambda: bool(told.problems))
        message, hint = told.problems[0]
        assert message is not None
        assert "polled" in message
        assert hint is not None
        assert hint.startswith("sudo sysctl fs.inotify.max_user_watches=")
        for folder in folders:
            (folder / "x.j2").write_text("1")
        await told.saw(*(folder / "x.j2" for folder in folders))
        Scarce.left = 100
        await told.until(lambda: told.problems[-1] == (None, None))
        assert told.watcher._polling.watched() == frozenset()
        (folders[3] / "y.j2").write_text("1")
        await told.saw(folders[3] / "y.j2")
        assert len(told.problems) == 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSYS])
async def test_no_inotify_at_all(workspace: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckwatch.engine.watch.watcher, "CHECK_S", 0.2)
    refused = True

    def make() -> Inotify:
        if refused:
            raise OSError(number, os.strerror(number))
        return Inotify()

    async with watching([workspace], make_inotify=make) as told:
        await told.until(lambda: len(told.problems) == 1)
        (workspace / "a.j2").write_text("1")
        await told.saw(workspace / "a.j2")
        refused = False
        await told.until(lambda: told.problems[1:] == [(None, None)])
        (workspace / "b.j2").write_text("1")
        await told.saw(workspace / "b.j2")


async def test_polling_that_was_asked_for_is_no_problem(workspace: Path) -> None:
    async with watching([workspace], poll=True) as told:
        (workspace / "a.j2").write_text("1")
        await told.saw(workspace / "a.j2")
        assert told.problems == []


async def test_folders_without_permission(workspace: Path) -> None:
    class Refusing(Inotify):
        def add(self, folder: str, *, only_itself: bool = False) -> None:
            if folder.endswith("secret"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
            super().add(folder, only_itself=only_itself)

    for name in ("a", "secret", "z"):
        (workspace / name).mkdir()
    files = [workspace / "secret/x.h", workspace / "z/x.h"]
    async with watching([workspace], files, make_inotify=Refusing) as told:
        (workspace / "a/b.j2").write_text("1")
        (workspace / "z/x.h").write_text("1")
        await told.saw(workspace / "a/b.j2", workspace / "z/x.h")
        assert told.problems == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, "fs.inotify.max_user_watches="),
        (errno.EMFILE, "fs.inotify.max_user_instances="),
        (errno.ENOSYS, "Linux"),
        (errno.ENOMEM, "tried again"),
    ],
)
def test_hints(number: int, expected: str) -> None:
    message, hint = describe_shortage(OSError(number, os.strerror(number)))
    assert expected in hint
    assert "polled" in message
