"""Files that were looked for and not found, and folders that come and go."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from watching import Told, watching


@pytest.mark.parametrize("poll", [False, True], ids=["inotify", "polling"])
@pytest.mark.parametrize("inside", ["x.h", "a/x.h", "a/b/c/x.h"])
async def test_a_missing_file_appears(tmp_path: Path, inside: str, poll: bool) -> None:
    path = tmp_path / inside
    async with watching([], [path], poll=poll) as told:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
        await told.saw(path)
        count = told.times(path)
        path.write_text("22")
        await told.until(lambda: told.times(path) > count)
        assert told.paths == {str(path)}


async def test_a_missing_file_arrives_with_its_folders(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/b").mkdir(parents=True)
    (tmp_path / "elsewhere/b/x.h").write_text("1")
    path = tmp_path / "a/b/x.h"
    async with watching([], [path]) as told:
        (tmp_path / "elsewhere").rename(tmp_path / "a")
        await told.saw(path)


async def test_folders_that_do_not_bring_the_file_are_not_told(tmp_path: Path) -> None:
    path, marker = tmp_path / "a/b/x.h", tmp_path / "marker"
    async with watching([], [path, marker]) as told:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/b").mkdir()
        (tmp_path / "a/b/other.h").write_text("1")
        await told.nothing_before(marker)
        assert told.paths == {str(marker)}


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("moved away"))


@pytest.mark.parametrize("poll", [False, True], ids=["inotify", "polling"])
@pytest.mark.parametrize("remove", [delete, move])
@pytest.mark.parametrize("what", ["inc", "inc/sub", "inc/sub/deep"])
async def test_a_folder_of_followed_files_goes_and_comes_back(
    tmp_path: Path, what: str, remove: object, poll: bool
) -> None:
    assert callable(remove)
    path = tmp_path / "inc/sub/deep/a.h"
    path.parent.mkdir(parents=True)
    path.write_text("1")
    async with watching([], [path], poll=poll) as told:
        remove(tmp_path / what)
        await told.saw(path)
        await comes_back(told, path)


async def test_a_folder_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "inc/sub/a.h"
    for version in ("inc", "next"):
        (tmp_path / version / "sub").mkdir(parents=True)
        (tmp_path / version / "sub/a.h").write_text(version)
    async with watching([], [path]) as told:
        (tmp_path / "inc").rename(tmp_path / "old")
        (tmp_path / "next").rename(tmp_path / "inc")
        await told.saw(path)
        await comes_back(told, path)


async def comes_back(told: Told, path: Path) -> None:
    count = told.times(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("2")
    await told.until(lambda: told.times(path) > count)
    count = told.times(path)
    path.write_text("33")
    await told.until(lambda: told.times(path) > count)
