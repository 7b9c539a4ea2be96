"""Files that were looked for and not found, and folders that come and go."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benches.watching import Reports, watching


@pytest.mark.parametrize("poll", [False, True], ids=["watchfiles", "polling"])
@pytest.mark.parametrize("inside", ["x.h", "a/x.h", "a/b/c/x.h"])
async def test_a_missing_file_appears(tmp_path: Path, inside: str, poll: bool) -> None:
    path = tmp_path / inside
    async with watching([], [path], poll=poll) as reports:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
        await reports.saw(path)
        count = reports.times(path)
        path.write_text("22")
        await reports.until(lambda: reports.times(path) > count)
        assert reports.paths == {str(path)}


async def test_a_missing_file_arrives_with_its_folders(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/b").mkdir(parents=True)
    (tmp_path / "elsewhere/b/x.h").write_text("1")
    path = tmp_path / "a/b/x.h"
    async with watching([], [path]) as reports:
        (tmp_path / "elsewhere").rename(tmp_path / "a")
        await reports.saw(path)


async def test_folders_that_do_not_bring_the_file_are_not_reported(tmp_path: Path) -> None:
    path, marker = tmp_path / "a/b/x.h", tmp_path / "marker"
    async with watching([], [path, marker]) as reports:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/b").mkdir()
        (tmp_path / "a/b/other.h").write_text("1")
        await reports.nothing_before(marker)
        assert reports.paths == {str(marker)}


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("moved away"))


@pytest.mark.parametrize("poll", [False, True], ids=["watchfiles", "polling"])
@pytest.mark.parametrize("remove", [delete, move])
@pytest.mark.parametrize("what", ["inc", "inc/sub", "inc/sub/deep"])
async def test_a_folder_of_followed_files_goes_and_comes_back(
    tmp_path: Path, what: str, remove: object, poll: bool
) -> None:
    assert callable(remove)
    path = tmp_path / "inc/sub/deep/a.h"
    path.parent.mkdir(parents=True)
    path.write_text("1")
    async with watching([], [path], poll=poll) as reports:
        remove(tmp_path / what)
        await reports.saw(path)
        await comes_back(reports, path)


async def test_a_folder_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "inc/sub/a.h"
    for version in ("inc", "next"):
        (tmp_path / version / "sub").mkdir(parents=True)
        (tmp_path / version / "sub/a.h").write_text(version)
    async with watching([], [path]) as reports:
        (tmp_path / "inc").rename(tmp_path / "old")
        (tmp_path / "next").rename(tmp_path / "inc")
        await reports.saw(path)
        await comes_back(reports, path)


async def comes_back(reports: Reports, path: Path) -> None:
    count = reports.times(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("2")
    await reports.until(lambda: reports.times(path) > count)
    count = reports.times(path)
    path.write_text("33")
    await reports.until(lambda: reports.times(path) > count)
