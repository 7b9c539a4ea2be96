"""Files and folders behind links are reported under the names by which they are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benches.watching import watching


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/real.j2").write_text("1")
    return folder


def point(link: Path, target: Path) -> None:
    """Set a link anew in one step, as `ln -sfn` does."""
    fresh = link.with_name("fresh link")
    fresh.symlink_to(target)
    fresh.replace(link)


@pytest.mark.parametrize("below", [False, True], ids=["anywhere", "below a watched folder"])
async def test_a_followed_link_to_a_file(workspace: Path, outside: Path, below: bool) -> None:
    link = workspace / "link.j2"
    link.symlink_to("../outside/sub/real.j2")
    async with watching([workspace] if below else [], [link]) as reports:
        (outside / "sub/real.j2").write_text("2")
        await reports.saw(link)
        assert str(outside / "sub/real.j2") not in reports.paths
        (outside / "other.j2").write_text("1")
        point(link, outside / "other.j2")
        await reports.until(lambda: reports.times(link) >= 2)
        (outside / "other.j2").write_text("2")
        await reports.until(lambda: reports.times(link) >= 3)


async def test_a_followed_file_behind_a_linked_folder(tmp_path: Path) -> None:
    """As an update of ROCM does it: `/opt/rocm` leads to another version."""
    for version in "67":
        (tmp_path / f"rocm-{version}/include").mkdir(parents=True)
        (tmp_path / f"rocm-{version}/include/hip.h").write_text(version)
    (tmp_path / "rocm").symlink_to("rocm-6")
    header, real = tmp_path / "rocm/include/hip.h", tmp_path / "rocm-6/include/hip.h"
    async with watching([], [header, real]) as reports:
        real.write_text("6.1")
        await reports.saw(header, real)
        point(tmp_path / "rocm", tmp_path / "rocm-7")
        await reports.until(lambda: reports.times(header) >= 2)
        (tmp_path / "rocm-7/include/hip.h").write_text("7.1")
        await reports.until(lambda: reports.times(header) >= 3)
        assert reports.times(real) == 1


async def test_a_linked_folder_in_a_watched_one(workspace: Path, outside: Path) -> None:
    (workspace / "link").symlink_to(outside)
    async with watching([workspace]) as reports:
        (outside / "sub/real.j2").write_text("2")
        await reports.saw(workspace / "link/sub/real.j2")
        (outside / "new").mkdir()
        await reports.saw(workspace / "link/new")
        (outside / "new/a.j2").write_text("1")
        await reports.saw(workspace / "link/new/a.j2")


async def test_one_folder_by_two_names(workspace: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "alias").symlink_to("real")
    (workspace / "real/up").symlink_to("..")
    async with watching([workspace]) as reports:
        (workspace / "real/a.j2").write_text("1")
        await reports.saw(workspace / "real/a.j2", workspace / "alias/a.j2")


async def test_a_linked_folder_comes_leads_elsewhere_and_goes(workspace: Path, outside: Path, tmp_path: Path) -> None:
    link, other = workspace / "link", tmp_path / "other"
    other.mkdir()
    async with watching([workspace]) as reports:
        link.symlink_to(outside)
        await reports.saw(link)
        (outside / "a.j2").write_text("1")
        await reports.saw(link / "a.j2")
        point(link, other)
        await reports.until(lambda: reports.times(link) >= 2)
        (other / "b.j2").write_text("1")
        await reports.saw(link / "b.j2")
        (outside / "c.j2").write_text("1")
        await reports.nothing_before(workspace / "marker")
        assert str(link / "c.j2") not in reports.paths
        link.unlink()
        await reports.until(lambda: reports.times(link) >= 3)


async def test_the_target_of_a_link_is_deleted_and_made_again(workspace: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "late", workspace / "link"
    link.symlink_to(target)
    async with watching([workspace]) as reports:
        target.mkdir()
        await reports.saw(link)
        (target / "a.j2").write_text("1")
        await reports.saw(link / "a.j2")
        count = reports.times(link)
        (target / "a.j2").unlink()
        target.rmdir()
        await reports.until(lambda: reports.times(link) > count)
        count = reports.times(link)
        target.mkdir()
        await reports.until(lambda: reports.times(link) > count)
        (target / "b.j2").write_text("1")
        await reports.saw(link / "b.j2")


async def test_a_root_behind_a_link(workspace: Path, tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "other"
    other.mkdir()
    link.symlink_to(workspace)
    async with watching([link]) as reports:
        (workspace / "a.j2").write_text("1")
        await reports.saw(link / "a.j2")
        point(link, other)
        await reports.saw(link)
        assert not all(batch.complete for batch in reports.batches)
        (other / "b.j2").write_text("1")
        await reports.saw(link / "b.j2")
        assert all(path.startswith(os.fspath(link)) for path in reports.paths)
