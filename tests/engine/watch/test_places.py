"""The turns on the way of a name, the names that hints are about, and which folders events are needed of."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.engine.watch.places import LookedAt, WatchedPlaces, WatchRequest, is_below, resolve
from ckwatch.workspace.files import SETTLED_NS


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


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path.resolve()
    for folder in ("w/folder/sub", "w/.git/objects", "w/__pycache__", "w/node_modules/x", "w/venv/bin", "out/c"):
        (base / folder).mkdir(parents=True)
    for file in ("w/venv/pyvenv.cfg", "w/file", "w/folder/inside", "a.h"):
        (base / file).write_text("1")
    return base


def survey(base: Path, *files: str, roots: tuple[str, ...] = ("w",), one_by_one: bool = False) -> WatchedPlaces:
    folders = frozenset(f"{base}/{root}" for root in roots)
    request = WatchRequest(folders, frozenset(f"{base}/{file}" for file in files))
    return WatchedPlaces(request, one_by_one=one_by_one)


def relative(found: LookedAt, base: Path) -> set[str]:
    return {os.path.relpath(path, base) for path in found.paths}


@pytest.mark.parametrize(
    ("act", "hints", "expected", "moved"),
    [
        (None, {"w/file": False}, {"w/file"}, False),
        (None, {"w/file": True, "w/new~": True}, {"w/file"}, False),
        (None, {"w/folder/x": False}, {"w/folder/x"}, False),
        (None, {"w/folder": True, "w/moved": False}, {"w/folder", "w/moved"}, False),
        (None, {"w/.git/x": False, "w/.git": False, "w/__pycache__/x": False, "w/node_modules/x/y": False}, set(), False),
        (None, {"w/venv/x": False, "w/venv/bin/y": False}, set(), False),
        (None, {"w/x.swp~": False}, set(), False),
        (None, {"w/.hidden.kernel.toml": False}, {"w/.hidden.kernel.toml"}, False),
        (None, {"a.h": False}, {"a.h"}, False),
        (None, {"a.h": True}, {"a.h"}, False),
        (None, {"other.h": False}, set(), False),
        (None, {"w": True}, {"w"}, True),
        (lambda base: (base / "late").mkdir(), {"late": False}, set(), True),
        (lambda base: (base / "w/link").symlink_to("../out"), {"w/link": False}, {"w/link"}, True),
    ],
)  # fmt: skip
def test_the_names_that_hints_are_about(
    base: Path, act: Callable[[Path], object] | None, hints: dict[str, bool], expected: set[str], moved: bool
) -> None:
    places = survey(base, "a.h", "late/b.h")
    if act is not None:
        act(base)
    found = places.look({f"{base}/{path}": gone for path, gone in hints.items()})
    assert relative(found, base) == expected
    assert found.moved == moved
    assert (found.lost, found.renew) == ("w" in expected, "w" in expected)


def made_late(base: Path) -> None:
    (base / "late").mkdir()
    (base / "late/b.h").write_text("")


def replaced(base: Path) -> None:
    (base / "w").rename(base / "away")
    shutil.copytree(base / "away", base / "w", symlinks=True)


@pytest.mark.parametrize(
    ("act", "expected", "lost"),
    [
        (lambda _base: None, set(), False),
        (made_late, {"late/b.h"}, False),
        (lambda base: (base / "a.h").unlink(), {"a.h"}, False),
        (lambda base: (base / "w/link").symlink_to("../out"), {"w/link"}, False),
        (lambda base: shutil.rmtree(base / "out"), {"w/out/c"}, False),
        (replaced, {"w"}, True),
    ],
)
def test_what_leads_elsewhere(base: Path, act: Callable[[Path], object], expected: set[str], lost: bool) -> None:
    (base / "w/out").mkdir()
    (base / "w/out/c").symlink_to("../../out/c")
    before = survey(base, "a.h", "late/b.h")
    act(base)
    found = LookedAt()
    survey(base, "a.h", "late/b.h").compare(before, found)
    assert (relative(found, base), found.lost) == (expected, lost)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda _base: None, False),
        (lambda base: (base / "w/file").write_text("2"), False),
        (lambda base: (base / "w/folder/new").write_text("1"), True),
        (lambda base: (base / "w/.git/new").write_text("1"), False),
        (made_late, True),
        (lambda base: (base / "a.h").unlink(), True),
        (lambda base: (base / "w/link").symlink_to("../out"), True),
        (lambda base: (base / "out/c/new").mkdir(), True),
        (lambda base: shutil.rmtree(base / "out"), True),
        (replaced, True),
    ],
)
def test_another_survey_is_needed_where_a_folder_has_other_entries(
    base: Path, act: Callable[[Path], object], expected: bool
) -> None:
    (base / "w/out").symlink_to("../out")
    for folder in (base, *(path for path in base.rglob("*") if path.is_dir())):
        os.utime(folder, (1, 1))  # a change within the same tick of the clock shows
    request = WatchRequest(frozenset({f"{base}/w"}), frozenset({f"{base}/a.h", f"{base}/late/b.h"}))
    places = WatchedPlaces(request, clock=lambda: time.time_ns() + 10 * SETTLED_NS)
    act(base)
    assert places.may_differ() == expected
    assert WatchedPlaces(request).may_differ(), "what was changed just now may change without a trace"


def test_needed(base: Path) -> None:
    (base / "w/out").symlink_to("../out")
    (base / "w/inside").symlink_to("folder")
    files, roots = ("a.h", "w/folder/inside", "x/y/z.h"), ("w", "later")
    places = survey(base, *files, roots=roots)
    assert places.needed[True].keys() == {f"{base}/w", f"{base}/out"}
    assert places.needed[False].keys() == {str(base)}
    assert not places.is_outdated()
    places = survey(base, *files, roots=roots, one_by_one=True)
    assert not places.needed[True]
    names = {os.path.relpath(folder, base) for folder in places.needed[False]}
    assert names == {".", "w", "w/folder", "w/folder/sub", "out", "out/c"}
    (base / "out/c").rmdir()
    assert places.is_outdated()
