"""Watched folders that are deleted, replaced, or not there yet."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benches.watching import Reports, watching


async def seen_again(reports: Reports, root: Path) -> None:
    await reports.until(lambda: any(str(root) in batch.paths and not batch.complete for batch in reports.batches))
    (root / "fresh").mkdir()
    await reports.saw(root / "fresh")
    (root / "fresh/new.j2").write_text("1")
    await reports.saw(root / "fresh/new.j2")


@pytest.mark.parametrize("poll", [False, True], ids=["watchfiles", "polling"])
async def test_deleted_and_made_again(workspace: Path, poll: bool) -> None:
    async with watching([workspace], poll=poll) as reports:
        shutil.rmtree(workspace)
        await reports.saw(workspace)
        workspace.mkdir()
        await seen_again(reports, workspace)


async def test_deleted_and_made_again_at_once(workspace: Path) -> None:
    """The new folder may even have the inode number of the old one."""
    async with watching([workspace]) as reports:
        shutil.rmtree(workspace)
        workspace.mkdir()
        await seen_again(reports, workspace)


@pytest.mark.parametrize("above", [False, True], ids=["itself", "a folder above it"])
async def test_replaced_by_rename(tmp_path: Path, above: bool) -> None:
    root = tmp_path / "home/work"
    other = tmp_path / "other/work"
    for folder in (root, other):
        (folder / "sub").mkdir(parents=True)
    async with watching([root]) as reports:
        if above:
            root.parent.rename(tmp_path / "away")
            other.parent.rename(root.parent)
        else:
            root.rename(tmp_path / "away")
            other.rename(root)
        await seen_again(reports, root)
        (tmp_path / "away/sub/old.j2" if not above else tmp_path / "away/work/sub/old.j2").write_text("1")
        await reports.nothing_before(root / "marker")
        assert str(root / "sub/old.j2") not in reports.paths


@pytest.mark.parametrize("inside", ["late", "very/late"])
async def test_not_there_yet(tmp_path: Path, inside: str) -> None:
    root = tmp_path / inside
    async with watching([root]) as reports:
        root.mkdir(parents=True)
        await seen_again(reports, root)


async def test_a_file_where_a_folder_is_expected(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("")
    async with watching([root]) as reports:
        root.unlink()
        root.mkdir()
        await seen_again(reports, root)


async def test_one_root_in_another(workspace: Path) -> None:
    inner = workspace / "templates"
    inner.mkdir()
    async with watching([workspace, inner]) as reports:
        (inner / "a.j2").write_text("1")
        await reports.saw(inner / "a.j2")
        await reports.follow([workspace])
        (inner / "b.j2").write_text("1")
        await reports.saw(inner / "b.j2")
