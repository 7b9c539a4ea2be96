"""Saves, folders and follow: what is reported of them."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from benches.watching import QUICK, ignore_problems, watching
from ckwatch.engine.watch import Batch, Watcher
from fakes.patience import PATIENCE_S


def truncate_and_write(path: Path) -> None:
    path.write_text("new")


def vim(path: Path) -> None:
    (path.parent / "4913").write_text("")
    (path.parent / "4913").unlink()
    (path.parent / f".{path.name}.swp").write_text("swap")
    path.rename(f"{path}~")
    path.write_text("new")
    Path(f"{path}~").unlink()
    (path.parent / f".{path.name}.swp").unlink()


def emacs(path: Path) -> None:
    (path.parent / f".#{path.name}").symlink_to("user@host.1:2")
    (path.parent / f"#{path.name}#").write_text("auto")
    shutil.copy(path, f"{path}~")
    path.write_text("new")
    (path.parent / f"#{path.name}#").unlink()
    (path.parent / f".#{path.name}").unlink()


def jetbrains(path: Path) -> None:
    Path(f"{path}___jb_tmp___").write_text("new")
    path.rename(f"{path}___jb_old___")
    Path(f"{path}___jb_tmp___").rename(path)
    Path(f"{path}___jb_old___").unlink()


def gio(path: Path) -> None:
    (path.parent / ".goutputstream-X1Y2Z3").write_text("new")
    (path.parent / ".goutputstream-X1Y2Z3").replace(path)


@pytest.mark.parametrize("followed", [False, True], ids=["in a folder", "by name"])
@pytest.mark.parametrize("save", [truncate_and_write, vim, emacs, jetbrains, gio])
async def test_a_save_is_one_change(workspace: Path, save: Callable[[Path], None], followed: bool) -> None:
    path = workspace / "gemm.hip.j2"
    path.write_text("old")
    marker = workspace / "marker"
    async with watching([] if followed else [workspace], [path, marker] if followed else []) as reports:
        save(path)
        await reports.saw(path)
        await reports.nothing_before(marker)
        # In one batch, unless the machine pauses in between.
        assert reports.paths == {str(path), str(marker)}
        assert all(batch.complete for batch in reports.batches)


@pytest.mark.parametrize("poll", [False, True], ids=["watchfiles", "polling"])
async def test_appearing_changing_vanishing(workspace: Path, poll: bool) -> None:
    kept, old, new = workspace / "kept.j2", workspace / "old.j2", workspace / "sub" / "new.j2"
    new.parent.mkdir()
    kept.write_text("1")
    old.write_text("1")
    async with watching([workspace], poll=poll) as reports:
        kept.write_text("22")
        old.unlink()
        new.write_text("1")
        await reports.saw(kept, old, new)
        old.write_text("1")
        new.rename(workspace / "moved.j2")
        await reports.until(lambda: reports.times(old) >= 2 and reports.times(new) >= 2)
        await reports.saw(workspace / "moved.j2")
        assert all(batch.complete != poll for batch in reports.batches)
        assert reports.problems == []


async def test_two_saves_in_one_second_are_both_reported_by_polling(workspace: Path) -> None:
    path = workspace / "a.j2"
    path.write_text("1")
    async with watching([workspace], poll=True) as reports:
        for count in range(1, 3):
            path.write_text(str(count))  # the same size
            await reports.until(lambda count=count: reports.times(path) >= count)  # type: ignore[misc]


async def test_a_half_written_file_is_waited_for(workspace: Path) -> None:
    path = workspace / "a.j2"
    for step_ms in (100, 400, 1600, 5000):  # the first that is longer than this machine's pauses
        async with watching([workspace], step_ms=step_ms) as reports:
            with path.open("w") as file:
                for _ in range(5):
                    file.write("half")
                    file.flush()
                    await anyio.sleep(0.05)
            await reports.saw(path)
            await reports.nothing_before(workspace / "marker")
            times = reports.times(path)
        if times == 1:
            break
    assert times == 1


async def test_skipped_folders(workspace: Path) -> None:
    ignored = [workspace / ".git/index", workspace / "__pycache__/a.pyc", workspace / "a/node_modules/b.j2"]
    for path in ignored:
        path.parent.mkdir(parents=True)
    explicit = workspace / ".hidden/__gen/macros.j2"
    explicit.parent.mkdir(parents=True)
    async with watching([workspace], [explicit]) as reports:
        for path in ignored:
            path.write_text("1")
        (workspace / ".cache").mkdir()
        (workspace / ".cache/x").write_text("1")
        (explicit.parent / "other.j2").write_text("1")
        explicit.write_text("1")
        await reports.saw(explicit)
        await reports.nothing_before(workspace / "marker")
        assert reports.paths == {str(explicit), str(workspace / "marker")}


async def test_a_followed_file_is_reported_whatever_its_name(workspace: Path) -> None:
    path = workspace / "backup~"
    async with watching([workspace], [path]) as reports:
        path.write_text("1")
        await reports.saw(path)


async def test_names_that_are_no_utf_8(workspace: Path) -> None:
    path = os.fsdecode(os.fsencode(workspace) + b"/\xff.j2")
    async with watching([workspace]) as reports:
        Path(path).write_text("1")
        await reports.saw(path)


async def test_a_new_folder_and_what_is_made_in_it_later(workspace: Path) -> None:
    async with watching([workspace]) as reports:
        deep = workspace / "a/b/c"
        deep.mkdir(parents=True)
        await reports.saw(workspace / "a")
        (deep / "x.j2").write_text("1")
        await reports.saw(deep / "x.j2")


async def test_a_new_folder_is_reported_again_once(workspace: Path) -> None:
    async with watching([workspace]) as reports:

        async def make(name: str) -> Path:
            path = workspace / name
            path.mkdir()
            await reports.until(lambda: reports.times(path) >= 2)
            return path

        first = await make("first")
        before = reports.times(first)
        for name in "abc":
            await make(name)
        assert reports.times(first) <= before + 1, "for ever"


async def test_nothing_falls_between_a_new_folder_and_its_watch(workspace: Path) -> None:
    """Each file is either there when its folder is reported, or reported by itself."""
    found: set[str] = set()
    everything = anyio.Event()
    wanted = {str(workspace / f"d{i}/e/f{j}") for i in range(30) for j in range(5)}

    async def deliver(batch: Batch) -> None:
        for path in batch.paths:
            found.add(path)
            found.update(os.path.join(place, file) for place, _, files in os.walk(path) for file in files)  # noqa: PTH118
        if wanted <= found:
            everything.set()

    watcher = Watcher(deliver, ignore_problems, delays=QUICK)

    def make() -> None:
        for path in sorted(wanted):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text("1")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        watcher.follow([str(workspace)], [])
        with anyio.fail_after(PATIENCE_S):
            await watcher.settled()
            await anyio.to_thread.run_sync(make)
            await everything.wait()
        tasks.cancel_scope.cancel()


async def test_a_renamed_folder(workspace: Path) -> None:
    old, new = workspace / "old", workspace / "new"
    (old / "sub").mkdir(parents=True)
    (old / "sub/a.j2").write_text("1")
    async with watching([workspace]) as reports:
        old.rename(new)
        await reports.saw(old, new)
        (new / "sub/a.j2").write_text("2")
        await reports.saw(new / "sub/a.j2")
        assert str(old / "sub/a.j2") not in reports.paths
        shutil.rmtree(new)
        await reports.until(lambda: reports.times(new) >= 2)


async def test_a_folder_moved_out_is_forgotten(workspace: Path, tmp_path: Path) -> None:
    (workspace / "sub").mkdir()
    async with watching([workspace]) as reports:
        (workspace / "sub").rename(tmp_path / "away")
        await reports.saw(workspace / "sub")
        (tmp_path / "away/a.j2").write_text("1")
        await reports.nothing_before(workspace / "marker")
        assert str(workspace / "sub/a.j2") not in reports.paths


async def test_follow_replaces_what_is_watched(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    async with watching([folders[0]], [folders[1] / "x.h"]) as reports:
        await reports.follow([folders[1]], [folders[2] / "x.h"])
        for folder in folders:
            (folder / "x.h").write_text("1")
            (folder / "y.h").write_text("1")
        await reports.saw(folders[1] / "x.h", folders[1] / "y.h", folders[2] / "x.h")
        await reports.nothing_before(folders[1] / "marker")
        assert len(reports.paths) == 4


async def test_no_gap_while_the_files_change(tmp_path: Path) -> None:
    """A file is saved again and again while others are followed and given up: each save is reported."""
    path = tmp_path / "inc" / "a.h"
    path.parent.mkdir()
    path.write_text("")
    async with watching([], [path]) as reports:
        for count in range(1, 40):
            others = [tmp_path / f"inc{number}" / "b.h" for number in range(count % 7)]
            reports.watcher.follow([], [str(path), *map(str, others)])
            path.write_text(str(count))
            await reports.until(lambda count=count: reports.times(path) >= count)  # type: ignore[misc]


async def test_same_sets_change_nothing(workspace: Path) -> None:
    async with watching([workspace], [workspace / "a"]) as reports:
        instances = dict(reports.watcher._instances)
        await reports.follow([workspace, workspace], [workspace / "a"])
        assert reports.watcher._instances == instances


async def test_follow_before_run(workspace: Path) -> None:
    batches: list[Batch] = []
    first = anyio.Event()

    async def deliver(batch: Batch) -> None:
        batches.append(batch)
        first.set()

    watcher = Watcher(deliver, ignore_problems, delays=QUICK)
    watcher.follow([str(workspace)], [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        with anyio.fail_after(PATIENCE_S):
            await watcher.settled()
            (workspace / "a").write_text("1")
            await first.wait()
        tasks.cancel_scope.cancel()
    assert batches == [Batch(frozenset({str(workspace / "a")}))]


async def test_changes_are_merged_while_the_receiver_is_busy(workspace: Path) -> None:
    batches: list[Batch] = []
    entered, go_on, second = anyio.Event(), anyio.Event(), anyio.Event()

    async def deliver(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            entered.set()
            await go_on.wait()
        else:
            second.set()

    watcher = Watcher(deliver, ignore_problems, delays=QUICK)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        watcher.follow([str(workspace)], [])
        with anyio.fail_after(PATIENCE_S):
            await watcher.settled()
            (workspace / "first").write_text("1")
            await entered.wait()
            for count in range(100):
                (workspace / f"f{count % 10}").write_text(str(count))
                await anyio.sleep(0.001)
            while len(watcher._gathering.paths) < 10:  # noqa: ASYNC110  # there is no event: nothing is reported yet
                await anyio.sleep(0.01)
            go_on.set()
            await second.wait()
        tasks.cancel_scope.cancel()
    assert [len(batch.paths) for batch in batches] == [1, 10]


async def test_what_deliver_raises_ends_the_run(workspace: Path) -> None:
    async def deliver(batch: Batch) -> None:
        raise LookupError(str(len(batch.paths)))

    watcher = Watcher(deliver, ignore_problems, delays=QUICK)
    watcher.follow([str(workspace)], [])

    async def save() -> None:
        await watcher.settled()
        (workspace / "a").write_text("1")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(save)
        with anyio.fail_after(PATIENCE_S), pytest.raises(LookupError):
            await watcher.run()
