"""Where names lead, and the turns on the way. Paths are relative to a real temporary folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.engine.watch.paths import is_below, resolve


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Folders, links and files to find one's way through."""
    tmp_path = tmp_path.resolve()
    (tmp_path / "rocm-7" / "include").mkdir(parents=True)
    (tmp_path / "rocm-7/include/hip.h").write_text("")
    (tmp_path / "rocm").symlink_to("rocm-7")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/link.h").symlink_to("../rocm/include/hip.h")
    (tmp_path / "a/absolute.h").symlink_to(tmp_path / "rocm-7/include/hip.h")
    (tmp_path / "a/dangling.h").symlink_to("none.h")
    (tmp_path / "a/loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "turns", "exists"),
    [
        ("rocm-7/include/hip.h", ["rocm-7/include|hip.h"], True),
        ("rocm/include/hip.h", [".|rocm", "rocm-7/include|hip.h"], True),
        ("a/link.h", ["a|link.h", ".|rocm", "rocm-7/include|hip.h"], True),
        ("a/absolute.h", ["a|absolute.h", "rocm-7/include|hip.h"], True),
        ("a/../rocm-7/./include//hip.h", ["rocm-7/include|hip.h"], True),
        ("a", [".|a"], True),
        ("a/none.h", ["a|none.h"], False),
        ("a/b/c/none.h", ["a|b"], False),
        ("a/dangling.h", ["a|dangling.h", "a|none.h"], False),
        ("rocm/none/x.h", [".|rocm", "rocm-7|none"], False),
        ("rocm-7/include/hip.h/x", ["rocm-7/include|hip.h"], False),
    ],
)
def test_turns(disk: Path, path: str, turns: list[str], exists: bool) -> None:
    found = resolve(f"{disk}/{path}")
    assert [f"{os.path.relpath(folder, disk)}|{name}" for folder, name in found.turns] == turns
    assert found.exists is exists


def test_links_without_end(disk: Path) -> None:
    assert not resolve(f"{disk}/a/loop").exists


@pytest.mark.parametrize(
    ("path", "places", "expected"),
    [
        ("/a/b", {"/a"}, True),
        ("/a", {"/a"}, True),
        ("/ab", {"/a"}, False),
        ("/a", {"/a/b"}, False),
        ("/a", {"/"}, True),
        ("/a", set(), False),
    ],
)
def test_is_below(path: str, places: set[str], expected: bool) -> None:
    assert is_below(path, places) is expected
