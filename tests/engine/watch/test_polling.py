"""Differences between two looks at a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.engine.watch.events import APPEARED, CHANGED, FOLDER, GONE, VANISHED
from ckwatch.engine.watch.polling import FolderPoller


def replace(folder: Path) -> None:
    (folder / "new").write_text("1")
    (folder / "new").replace(folder / "file")


def touch(folder: Path) -> None:
    os.utime(folder / "file", ns=(1, 1))


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda folder: (folder / "file").write_text("2"), [("file", CHANGED)]),
        (lambda folder: (folder / "b").write_text("2"), [("b", APPEARED)]),
        (lambda folder: (folder / "file").unlink(), [("file", VANISHED)]),
        (replace, [("file", APPEARED)]),
        (touch, [("file", CHANGED)]),
        (lambda folder: (folder / "folder/x").write_text(""), []),
        (lambda folder: (folder / "folder").rmdir(), [("folder", VANISHED | FOLDER)]),
        (lambda folder: (folder / "more").mkdir(), [("more", APPEARED | FOLDER)]),
        (lambda folder: folder.rename(folder.parent / "moved"), [("", GONE)]),
    ],
    ids=["write", "create", "delete", "replace", "touch", "inside", "rmdir", "mkdir", "gone"],
)
def test_difference(tmp_path: Path, act: Callable[[Path], object], expected: list[tuple[str, int]]) -> None:
    folder = tmp_path / "folder"
    (folder / "folder").mkdir(parents=True)
    (folder / "file").write_text("1")
    os.utime(folder / "file", ns=(0, 0))
    polling = FolderPoller()
    polling.add(str(folder))
    assert polling.scan().happenings == []
    act(folder)
    assert polling.scan().happenings == [(str(folder), name, what) for name, what in expected]
    assert polling.scan().happenings == []


def test_removed_folders_are_not_looked_at(tmp_path: Path) -> None:
    polling = FolderPoller()
    polling.add(str(tmp_path))
    polling.remove([str(tmp_path)])
    (tmp_path / "a").write_text("")
    assert (polling.scan().happenings, polling.watched()) == ([], frozenset())
