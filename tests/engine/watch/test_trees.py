"""Which folders are watched, and what a place in them is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.engine.watch.paths import WatchedTree, grow_tree, survey_tree


def look(*roots: Path, unreadable: str = "") -> WatchedTree:
    return survey_tree(
        frozenset(map(str, roots)), lambda folder: not unreadable or unreadable not in folder, lambda: False
    )


def inside(tree: WatchedTree, base: Path) -> set[str]:
    return {os.path.relpath(folder, base) for folder in tree.folders}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for folder in ("w/a/b", "w/.git/objects", "w/__pycache__", "w/node_modules/x", "w/venv/bin", "out/c"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "w/venv/pyvenv.cfg").write_text("")
    return tmp_path.resolve()


def test_skipped_folders_are_not_watched(base: Path) -> None:
    tree = look(base / "w")
    assert inside(tree, base) == {"w", "w/a", "w/a/b"}
    assert tree.aliases(f"{base}/w/a") == (f"{base}/w/a",)
    assert tree.aliases(f"{base}/w/.git") == ()


def test_a_folder_without_permission_leaves_the_others(base: Path) -> None:
    assert inside(look(base / "w", base / "out", unreadable="/w/a"), base) == {"w", "out", "out/c"}


def test_links_to_folders(base: Path) -> None:
    (base / "w/out").symlink_to("../out")
    (base / "w/up").symlink_to(".")
    (base / "w/alias").symlink_to("a")
    (base / "w/nowhere").symlink_to("none")
    tree = look(base / "w")
    assert inside(tree, base) == {"w", "w/a", "w/a/b", "out", "out/c"}
    assert f"{base}/w/out/c" in tree.aliases(f"{base}/out/c")
    assert set(tree.aliases(f"{base}/w/a/b")) >= {f"{base}/w/a/b", f"{base}/w/alias/b", f"{base}/w/up/a/b"}
    assert tree.links[f"{base}/w/nowhere"] is None


def test_a_root_behind_a_link(base: Path) -> None:
    (base / "link").symlink_to("w")
    tree = look(base / "link")
    assert tree.aliases(f"{base}/w/a/b") == (f"{base}/link/a/b",)


def test_a_root_in_a_skipped_folder(base: Path) -> None:
    tree = look(base / "w", base / "w/.git")
    assert tree.aliases(f"{base}/w/.git/objects") == (f"{base}/w/.git/objects",)


def test_grow(base: Path) -> None:
    tree = look(base / "w")
    (base / "w/a/b").rename(base / "w/n")
    (base / "w/n/deep").mkdir()
    (base / "w/file").write_text("")
    gone = {f"{base}/w/a/b"}
    grown = grow_tree(tree, gone, {f"{base}/w/n", f"{base}/w/file", f"{base}/w/.git"}, lambda _: True, lambda: False)
    assert grown is not None
    assert inside(grown, base) == {"w", "w/a", "w/n", "w/n/deep"}
    assert inside(tree, base) == {"w", "w/a", "w/a/b"}
    assert grow_tree(grown, set(), {f"{base}/w/file"}, lambda _: True, lambda: False) is grown
