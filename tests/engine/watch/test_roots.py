"""Watched folders that are deleted, replaced, or not there yet."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ckwatch.engine.watch.watcher
from watching import Told, watching


async def seen_again(told: Told, root: Path) -> None:
    await told.until(lambda: any(str(root) in batch.paths and not batch.complete for batch in told.batches))
    (root / "fresh").mkdir()
    await told.saw(root / "fresh")
    (root / "fresh/new.j2").write_text("1")
    await told.saw(root / "fresh/new.j2")


@pytest.mark.parametrize("poll", [False, True], ids=["inotify", "polling"])
async def test_deleted_and_made_again(workspace: Path, poll: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckwatch.engine.watch.watcher, "CHECK_S", 0.2)
    async with watching([workspace], poll=poll) as told:
        shutil.rmtree(workspace)
        await told.saw(workspace)
        workspace.mkdir()
        await seen_again(told, workspace)


async def test_deleted_and_made_again_at_once(workspace: Path) -> None:
    """The new folder may even have the inode number of the old one."""
    async with watching([workspace]) as told:
        shutil.rmtree(workspace)
        workspace.mkdir()
        await seen_again(told, workspace)


@pytest.mark.parametrize("above", [False, True], ids=["itself", "a folder above it"])
async def test_replaced_by_rename(tmp_path: Path, above: bool) -> None:
    root = tmp_path / "home/work"
    other = tmp_path / "other/work"
    for folder in (root, other):
        (folder / "sub").mkdir(parents=True)
    async with watching([root]) as told:
        if above:
            root.parent.rename(tmp_path / "away")
            other.parent.rename(root.parent)
        else:
            root.rename(tmp_path / "away")
            other.rename(root)
        await seen_again(told, root)
        (tmp_path / "away/sub/old.j2" if not above else tmp_path / "away/work/sub/old.j2").write_text("1")
        await told.nothing_before(root / "marker")
        assert str(root / "sub/old.j2") not in told.paths


async def test_what_no_event_tells_is_found_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a file system is mounted over a folder: here the events of the folders above are taken away."""
    monkeypatch.setattr(ckwatch.engine.watch.watcher, "CHECK_S", 0.1)
    root, header = tmp_path / "home/work", tmp_path / "home/inc/a.h"
    for folder in (root, header.parent, tmp_path / "other/work", tmp_path / "other/inc"):
        folder.mkdir(parents=True)
    header.write_text("1")
    async with watching([root], [header]) as told:
        inotify = told.watcher._looker.inotify
        assert inotify is not None
        inotify.remove(told.watcher._seen.above)
        root.parent.rename(tmp_path / "away")
        (tmp_path / "other").rename(root.parent)
        await told.saw(header)
        await seen_again(told, root)


@pytest.mark.parametrize("inside", ["late", "very/late"])
async def test_not_there_yet(tmp_path: Path, inside: str) -> None:
    root = tmp_path / inside
    async with watching([root]) as told:
        root.mkdir(parents=True)
        await seen_again(told, root)


async def test_a_file_where_a_folder_is_expected(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("")
    async with watching([root]) as told:
        root.unlink()
        root.mkdir()
        await seen_again(told, root)


async def test_one_root_in_another(workspace: Path) -> None:
    inner = workspace / "templates"
    inner.mkdir()
    async with watching([workspace, inner]) as told:
        (inner / "a.j2").write_text("1")
        await told.saw(inner / "a.j2")
        await told.follow([workspace])
        (inner / "b.j2").write_text("1")
        await told.saw(inner / "b.j2")
