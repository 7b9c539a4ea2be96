"""The watcher on the watchfiles library tells what the one on inotify tells, only later."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import watchfiles

from ckwatch.engine.watch import Batch, Watcher, make_watcher
from ckwatch.engine.watch import watchfiles_watcher as module
from ckwatch.engine.watch.paths import identity
from ckwatch.engine.watch.watchfiles_watcher import WatchCoverage, WatchfilesWatcher, _as_os_error
from patience import PATIENCE_S
from watching import Told, unconcerned, watching


def truncate_and_write(path: Path) -> None:
    path.write_text("new")


def vim(path: Path) -> None:
    (path.parent / "4913").write_text("")
    (path.parent / "4913").unlink()
    path.rename(f"{path}~")
    path.write_text("new")
    Path(f"{path}~").unlink()


def jetbrains(path: Path) -> None:
    Path(f"{path}___jb_tmp___").write_text("new")
    path.rename(f"{path}___jb_old___")
    Path(f"{path}___jb_tmp___").rename(path)
    Path(f"{path}___jb_old___").unlink()


@pytest.mark.parametrize("followed", [False, True], ids=["in a folder", "by name"])
@pytest.mark.parametrize("save", [truncate_and_write, vim, jetbrains])
async def test_a_save(workspace: Path, save: Callable[[Path], None], followed: bool) -> None:
    path, marker = workspace / "gemm.hip.j2", workspace / "marker"
    path.write_text("old")
    folders, files = ([], [path, marker]) if followed else ([workspace], [])
    async with watching(folders, files, kind="watchfiles") as told:
        save(path)
        await told.saw(path)
        await told.nothing_before(marker)
        assert told.paths == {str(path), str(marker)}


async def test_skipped_and_temporary(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / "a/node_modules").mkdir(parents=True)
    explicit = workspace / ".hidden/macros.j2"
    explicit.parent.mkdir()
    async with watching([workspace], [explicit], kind="watchfiles") as told:
        for name in (".git/index", "a/node_modules/b.j2", ".hidden/other.j2", ".hidden/macros.j2", "x.j2~"):
            (workspace / name).write_text("1")
        (workspace / ".cache").mkdir()
        (workspace / ".cache/x").write_text("1")
        await told.saw(explicit)
        await told.nothing_before(workspace / "marker")
        assert told.paths == {str(explicit), str(workspace / "marker")}


async def test_folders_come_are_renamed_and_go(workspace: Path) -> None:
    async with watching([workspace], kind="watchfiles") as told:
        (workspace / "a/b").mkdir(parents=True)
        await told.saw(workspace / "a")
        (workspace / "a/b/x.j2").write_text("1")
        await told.saw(workspace / "a/b/x.j2")
        (workspace / "a").rename(workspace / "new")
        await told.saw(workspace / "new")
        (workspace / "new/b/x.j2").write_text("2")
        await told.saw(workspace / "new/b/x.j2")
        count = told.times(workspace / "new")
        shutil.rmtree(workspace / "new")
        await told.until(lambda: told.times(workspace / "new") > count)
        assert all(batch.complete for batch in told.batches)


@pytest.mark.parametrize("inside", ["x.h", "a/b/x.h"])
async def test_a_missing_file_appears(tmp_path: Path, inside: str) -> None:
    path = tmp_path / inside
    async with watching([], [path], kind="watchfiles") as told:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
        await told.saw(path)
        count = told.times(path)
        path.write_text("22")
        await told.until(lambda: told.times(path) > count)
        assert told.paths == {str(path)}


async def test_links(workspace: Path, tmp_path: Path) -> None:
    outside, other = tmp_path / "outside", tmp_path / "other"
    for folder in (outside, other):
        folder.mkdir()
        (folder / "real.j2").write_text("1")
    (workspace / "folder").symlink_to(outside)
    (workspace / "also").symlink_to(outside)
    header = tmp_path / "header.h"
    header.symlink_to("other/real.j2")
    async with watching([workspace], [header], kind="watchfiles") as told:
        (outside / "real.j2").write_text("2")
        (other / "real.j2").write_text("2")
        await told.saw(workspace / "folder/real.j2", workspace / "also/real.j2", header)
        (workspace / "folder").unlink()  # the library gives up the folder behind it
        await told.saw(workspace / "folder")
        (outside / "late.j2").write_text("1")
        await told.saw(workspace / "also/late.j2")
        (tmp_path / "fresh").symlink_to("outside/real.j2")
        count = told.times(header)
        (tmp_path / "fresh").replace(header)
        await told.until(lambda: told.times(header) > count)
        count = told.times(header)
        (outside / "real.j2").write_text("3")
        await told.until(lambda: told.times(header) > count)
        assert all(path.startswith((str(workspace), str(header))) for path in told.paths)


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "at once"])
async def test_a_root_is_deleted_and_made_again(workspace: Path, at_once: bool) -> None:
    async with watching([workspace], kind="watchfiles") as told:
        shutil.rmtree(workspace)
        if not at_once:
            await told.saw(workspace)
        workspace.mkdir()
        await told.until(lambda: any(not batch.complete for batch in told.batches))
        (workspace / "fresh").mkdir()
        await told.saw(workspace / "fresh")
        (workspace / "fresh/new.j2").write_text("1")
        await told.saw(workspace / "fresh/new.j2")


async def test_a_folder_above_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCHFILES_CHECK_S", 0.1)
    root, header = tmp_path / "home/work", tmp_path / "home/inc/a.h"
    for folder in (root, header.parent, tmp_path / "next/work", tmp_path / "next/inc"):
        folder.mkdir(parents=True)
    header.write_text("1")
    async with watching([root], [header], kind="watchfiles") as told:
        (tmp_path / "home").rename(tmp_path / "away")
        (tmp_path / "next").rename(tmp_path / "home")
        await told.saw(header, root)
        (root / "a.j2").write_text("1")
        await told.saw(root / "a.j2")


async def test_no_save_is_lost_while_the_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is saved again and again while instances of the library come and go."""
    monkeypatch.setattr(module, "RESTART_S", 0.05)
    path = tmp_path / "inc/a.h"
    path.parent.mkdir()
    path.write_text("")
    started = count_instances(monkeypatch)
    async with watching([], [path], kind="watchfiles") as told:
        for count in range(1, 30):
            others = [tmp_path / f"inc{number}" / "b.h" for number in range(count % 3)]
            told.watcher.follow([], [str(path), *map(str, others)])
            path.write_text(str(count))
            await told.until(lambda count=count: told.times(path) >= count)  # type: ignore[misc]
    assert len(started) > 3


def count_instances(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The paths of each instance of the library that is begun."""
    started: list[tuple[str, ...]] = []

    def counted(*paths: str, **options: Any) -> AsyncGenerator[set[watchfiles.main.FileChange], None]:
        started.append(paths)
        return watchfiles.awatch(*paths, **options)

    monkeypatch.setattr(module, "awatch", counted)
    return started


async def test_restarts_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_S", 60.0)
    started = count_instances(monkeypatch)
    headers = [tmp_path / f"inc{number}/a.h" for number in range(5)]
    for header in headers:
        header.parent.mkdir()
        header.write_text("1")
    async with watching([tmp_path / "inc0"], [], kind="watchfiles") as told:
        for count in range(1, 6):
            await told.follow([tmp_path / "inc0"], headers[:count])
        for header in headers:
            header.write_text("22")
        await told.saw(*headers)  # polled until the library may be restarted
    assert len(started) == 1


async def test_thousands_at_once(workspace: Path) -> None:
    async with watching([workspace], kind="watchfiles") as told:
        for number in range(2000):
            (workspace / f"{number}.j2").write_text("1")
        await told.until(lambda: len(told.paths) == 2000)
        assert len(told.batches) < 200  # few, but on a busy machine the library has to pause
        assert all(batch.complete for batch in told.batches)


@pytest.mark.parametrize("after_ms", [0, 1, 3, 8, 21, 55, 144])
async def test_cancelled_at_any_time(workspace: Path, after_ms: int) -> None:
    for number in range(100):
        (workspace / f"d{number}").mkdir()

    async def silent(batch: Batch) -> None:
        """Nobody is told."""

    watcher = WatchfilesWatcher(silent, unconcerned)
    watcher.follow([str(workspace / "d1")], [str(workspace / f"d{number}" / "x.h") for number in range(100)])
    with anyio.fail_after(PATIENCE_S):
        with anyio.move_on_after(after_ms / 1000) as given:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watcher.run)
                while True:
                    (workspace / "d1/a.j2").write_text("1")
                    await anyio.sleep(0.003)
    assert given.cancelled_caught


async def test_it_ends_and_can_run_again(workspace: Path) -> None:
    told = Told()
    told.watcher = WatchfilesWatcher(told.deliver, told.problem)
    for text in ("1", "2"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told.watcher.run)
            await told.follow([workspace])
            count = len(told.batches)
            (workspace / "a").write_text(text)
            await told.until(lambda count=count: any(str(workspace / "a") in b.paths for b in told.batches[count:]))  # type: ignore[misc]
            tasks.cancel_scope.cancel()
    assert told.batches[0] == Batch(frozenset({str(workspace / "a")}))
    assert any(not batch.complete for batch in told.batches[1:])


class Failing:
    """Stands for the library: raises an error at the beginning, or breaks off with it."""

    def __init__(self, error: Exception | None, *, later: bool = False, only_trees: bool = False) -> None:
        self.error = error
        self.later = later
        self.only_trees = only_trees
        self.go = anyio.Event()

    async def awatch(self, *paths: str, **options: Any) -> AsyncGenerator[set[watchfiles.main.FileChange], None]:
        """As `watchfiles.awatch`."""
        error = self.error if options["recursive"] or not self.only_trees else None
        if error is not None and self.later:
            await self.go.wait()
            raise error
        if error is not None:
            raise error
        async for changes in watchfiles.awatch(*paths, **options):
            yield changes


WATCH_LIMIT = OSError('OS file watch limit reached. about ["/w"]')
INSTANCE_LIMIT = RuntimeError("Error creating recommended watcher: Too many open files (os error 24)")


@pytest.mark.parametrize("later", [False, True], ids=["at the beginning", "later"])
@pytest.mark.parametrize(
    ("error", "hint"), [(WATCH_LIMIT, "max_user_watches="), (INSTANCE_LIMIT, "max_user_instances=")], ids=["w", "i"]
)
async def test_a_limit(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, hint: str, later: bool
) -> None:
    monkeypatch.setattr(module, "WATCHFILES_CHECK_S", 0.1)
    monkeypatch.setattr(module, "RETRY_S", 0.1)
    failing = Failing(error, later=later)
    monkeypatch.setattr(module, "awatch", failing.awatch)
    async with watching([workspace], kind="watchfiles") as told:
        failing.go.set()
        await told.until(lambda: bool(told.problems))
        assert hint in (told.problems[0][1] or "")
        (workspace / "a.j2").write_text("1")
        await told.saw(workspace / "a.j2")
        assert any(not batch.complete for batch in told.batches) == later
        failing.error = None
        await told.until(lambda: told.problems[-1] == (None, None))
        (workspace / "b.j2").write_text("1")
        await told.saw(workspace / "b.j2")
        assert told.watcher._polling.watched() == frozenset()


async def test_a_name_that_is_no_utf_8_ends_the_library(workspace: Path) -> None:
    async with watching([workspace], kind="watchfiles") as told:
        Path(os.fsdecode(os.fsencode(workspace) + b"/\xff.j2")).write_text("1")
        await told.until(lambda: any(not batch.complete for batch in told.batches))
        (workspace / "a.j2").write_text("1")
        await told.saw(workspace / "a.j2")


async def test_a_folder_without_permission(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the library's walk: then folders are named one by one."""
    monkeypatch.setattr(module, "RESTART_S", 0.05)
    refused = Failing(PermissionError("Permission denied"), only_trees=True)
    monkeypatch.setattr(module, "awatch", refused.awatch)
    (workspace / "a").mkdir()
    async with watching([workspace], kind="watchfiles") as told:
        (workspace / "a/x.j2").write_text("1")
        await told.saw(workspace / "a/x.j2")
        with anyio.fail_after(PATIENCE_S):
            while told.watcher._polling.watched():  # noqa: ASYNC110  # nothing tells of that
                await anyio.sleep(0.01)
        (workspace / "a/y.j2").write_text("1")
        await told.saw(workspace / "a/y.j2")
        assert told.problems == []


async def test_polling_needs_no_library(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_instances(monkeypatch)
    async with watching([workspace], kind="watchfiles", poll=True) as told:
        (workspace / "a.j2").write_text("1")
        await told.saw(workspace / "a.j2")
        assert told.problems == []
    assert started == []


def test_cover(tmp_path: Path) -> None:
    for name in ("tree/sub", "single/sub"):
        (tmp_path / name).mkdir(parents=True)
    known = {name: identity(f"{tmp_path}/{name}") or (0, 0) for name in ("tree", "single")}
    cover = WatchCoverage({f"{tmp_path}/tree": known["tree"]}, {f"{tmp_path}/single": known["single"]})

    def covered() -> list[str]:
        names = ("tree", "tree/sub", "single", "single/sub", ".")
        return [name for name in names if cover.covers(f"{tmp_path}/{name}" if name != "." else str(tmp_path))]

    assert covered() == ["tree", "tree/sub", "single"]
    (tmp_path / "single").rename(tmp_path / "old")
    (tmp_path / "single").mkdir()
    assert covered() == ["tree", "tree/sub"]
    cover.lose({f"{tmp_path}/tree"})
    assert covered() == []


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (WATCH_LIMIT, errno.ENOSPC),
        (INSTANCE_LIMIT, errno.EMFILE),
        (RuntimeError("anything else"), errno.EIO),
    ],
)
def test_plain(error: OSError | RuntimeError, number: int) -> None:
    assert _as_os_error(error).errno == number
    assert _as_os_error(error).strerror


@pytest.mark.parametrize(
    ("kind", "platform", "expected"),
    [
        ("inotify", "linux", Watcher),
        ("watchfiles", "linux", WatchfilesWatcher),
        ("inotify", "darwin", WatchfilesWatcher),
    ],
)
def test_which(monkeypatch: pytest.MonkeyPatch, kind: Any, platform: str, expected: type) -> None:
    async def silent(batch: Batch) -> None:
        """Nobody is told."""

    monkeypatch.setattr(sys, "platform", platform)
    assert type(make_watcher(kind, silent, unconcerned)) is expected
