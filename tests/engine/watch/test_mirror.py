"""Whoever looks again at what is reported, and at nothing else, knows what is on the disk.

A copy of the tree is kept up to date from batches alone while files and folders are made, saved, renamed, moved out
and in, linked and deleted at random.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import anyio
import pytest

from benches.watching import QUICK, ignore_problems
from ckwatch.engine.watch import Batch, Watcher
from fakes.patience import PATIENCE_S

NAMES = ("a", "b", "c", "d.j2", "e.j2", "f.j2")


class Mirror:
    """Paths of files and folders, with the contents of the files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: dict[str, str | None] = {}
        self.news = anyio.Event()
        self.look(str(root))

    async def deliver(self, batch: Batch) -> None:
        for path in batch.paths if batch.complete else [str(self.root)]:
            self.look(path)
        news, self.news = self.news, anyio.Event()
        news.set()

    def look(self, path: str) -> None:
        for known in [known for known in self.contents if known == path or known.startswith(path + "/")]:
            del self.contents[known]
        self.contents.update(on_disk(path))


def on_disk(path: str) -> dict[str, str | None]:
    """Return the entries by the same names as in a watched folder; links to folders are followed, loops are not made."""
    found: dict[str, str | None] = {}
    if Path(path).is_dir():
        found[path] = None
        for place, folders, files in os.walk(path, followlinks=True):
            found.update((f"{place}/{name}", None) for name in folders)
            found.update((f"{place}/{name}", content(f"{place}/{name}")) for name in files)
    elif os.path.lexists(path):
        found[path] = content(path)
    return found


def content(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:  # gone already, or a link to nowhere
        return "nothing"


def act(random: random.Random, root: Path, outside: Path, step: int) -> None:
    place = root.joinpath(*(random.choice(NAMES[:3]) for _ in range(random.randrange(4))))
    target = place / random.choice(NAMES)
    other = root.joinpath(*(random.choice(NAMES[:3]) for _ in range(random.randrange(3)))) / random.choice(NAMES)
    away = outside / random.choice(NAMES)
    try:
        match random.randrange(9):
            case 0 | 1:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(str(step))
            case 2:
                target.mkdir(parents=True)
                (target / "d.j2").write_text(str(step))
            case 3:
                target.rename(other)
            case 4 if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            case 4:
                target.unlink()
            case 5:
                target.rename(away)
            case 6:
                away.rename(target)
            case 7 if random.random() < 0.5:
                target.symlink_to(outside / "linked")
            case 8:
                (outside / "linked" / random.choice(NAMES)).write_text(str(step))
    except OSError:
        pass  # not everything can be done at any time


@pytest.mark.parametrize("seed", range(8))
async def test_mirror(workspace: Path, tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311
    outside = tmp_path / "outside"
    (outside / "linked").mkdir(parents=True)
    mirror = Mirror(workspace)
    watcher = Watcher(mirror.deliver, ignore_problems, step_ms=5, delays=QUICK)
    watcher.follow([str(workspace)], [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        with anyio.fail_after(PATIENCE_S):
            await watcher.settled()
            for step in range(150):
                act(random_, workspace, outside, step)
                if random_.random() < 0.1:
                    await anyio.sleep(random_.random() * 0.03)
            marker = workspace / "marker"
            marker.write_text("end")
            while str(marker) not in mirror.contents:
                await mirror.news.wait()
        tasks.cancel_scope.cancel()
    expected = on_disk(str(workspace))
    assert {path: mirror.contents.get(path) for path in expected} == expected
    assert mirror.contents.keys() == expected.keys()
