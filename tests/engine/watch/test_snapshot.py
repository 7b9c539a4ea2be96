"""What differs from the last comparison, by hints and by scans, and which folders events are needed of."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.engine.watch.paths import RACY_NS, stamp_of
from ckwatch.engine.watch.snapshot import Differences, Snapshot, WatchRequest


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path.resolve()
    for folder in ("w/folder/sub", "w/.git/objects", "w/__pycache__", "w/node_modules/x", "w/venv/bin", "out/c"):
        (base / folder).mkdir(parents=True)
    (base / "w/venv/pyvenv.cfg").write_text("")
    (base / "w/file").write_text("1")
    (base / "w/folder/inside").write_text("1")
    (base / "a.h").write_text("1")
    time.sleep(2 * RACY_NS / 1e9)
    return base


def snapshot_of(base: Path, *files: str, roots: tuple[str, ...] = ("w",), settle_s: float = 0.02) -> Snapshot:
    snapshot = Snapshot(settle_s)
    folders = frozenset(f"{base}/{root}" for root in roots)
    found = snapshot.follow(WatchRequest(folders, frozenset(f"{base}/{file}" for file in files)))
    assert (found.paths, found.lost, found.new_folders) == (set(), False, set())
    return snapshot


def relative(found: Differences, base: Path) -> set[str]:
    return {os.path.relpath(path, base) for path in found.paths}


def replace(base: Path) -> None:
    (base / "w/new~").write_text("1")
    (base / "w/new~").replace(base / "w/file")


def touch(base: Path) -> None:
    os.utime(base / "w/file", ns=(1, 1))


def same_time(base: Path) -> None:
    status = (base / "w/file").stat()
    (base / "w/file").write_text("2")
    os.utime(base / "w/file", ns=(status.st_atime_ns, status.st_mtime_ns))


def make_again(base: Path) -> None:
    shutil.rmtree(base / "w/folder")
    (base / "w/folder").mkdir()


@pytest.mark.parametrize("by", ["hints", "scan"])
@pytest.mark.parametrize(
    ("act", "hints", "expected"),
    [
        (Path.exists, {"w/file": False, "w/folder": False, "w/none": True, "a.h": False}, set()),
        (lambda base: (base / "w/file").write_text("2"), {"w/file": False}, {"w/file"}),
        (lambda base: (base / "w/b").write_text("2"), {"w/b": False}, {"w/b"}),
        (lambda base: (base / "w/file").unlink(), {"w/file": True}, {"w/file"}),
        (replace, {"w/file": True, "w/new~": True}, {"w/file"}),
        (touch, {"w/file": False}, {"w/file"}),
        (same_time, {"w/file": False}, {"w/file"}),
        (lambda base: (base / "w/folder/x").write_text(""), {"w/folder/x": False}, {"w/folder/x"}),
        (lambda base: (base / "w/folder/x").write_text(""), {"w/folder": False}, {"w/folder/x"}),
        (lambda base: shutil.rmtree(base / "w/folder"), {"w/folder": True}, {"w/folder"}),
        (lambda base: (base / "w/more/deep").mkdir(parents=True), {"w/more": False}, {"w/more"}),
        (
            lambda base: (base / "w/folder").rename(base / "w/moved"),
            {"w/folder": True, "w/moved": False},
            {"w/folder", "w/moved"},
        ),
        (lambda base: (base / "w/.git/x").write_text(""), {"w/.git/x": False}, set()),
        (lambda base: (base / "w/venv/x").write_text(""), {"w/venv/x": False}, set()),
        (lambda base: (base / "w/x.swp~").write_text(""), {"w/x.swp~": False}, set()),
        (lambda base: (base / "w/.hidden.kernel.toml").write_text(""), {"w/.hidden.kernel.toml": False}, {"w/.hidden.kernel.toml"}),
        (lambda base: (base / "a.h").write_text("22"), {"a.h": False}, {"a.h"}),
        (lambda base: (base / "a.h").unlink(), {"a.h": True}, {"a.h"}),
        (lambda base: (base / "late").mkdir(), {"late": False}, set()),
        (lambda base: ((base / "late").mkdir(), (base / "late/b.h").write_text("")), {"late": False}, {"late/b.h"}),
        (lambda base: (base / "other.h").write_text("1"), {"other.h": False}, set()),
    ],
)  # fmt: skip
def test_differences(
    base: Path, act: Callable[[Path], object], hints: dict[str, bool], expected: set[str], by: str
) -> None:
    snapshot = snapshot_of(base, "a.h", "late/b.h")
    assert snapshot.scan().paths == set()
    act(base)
    time.sleep(2 * RACY_NS / 1e9)
    named = {f"{base}/{path}": gone for path, gone in hints.items()}
    found = snapshot.look(named) if by == "hints" else snapshot.scan()
    assert relative(found, base) == expected
    assert not found.lost
    assert snapshot.look(dict.fromkeys(named, False)).paths == set()
    assert snapshot.scan().paths == set()


def test_a_folder_that_was_made_again_may_have_its_inode_number_again(base: Path) -> None:
    snapshot = snapshot_of(base)
    found = snapshot.look({f"{base}/w/folder": True})
    assert relative(found, base) == {"w/folder"}


def test_a_root_that_was_made_again(base: Path) -> None:
    snapshot = snapshot_of(base)
    found = snapshot.look({f"{base}/w": True})
    assert relative(found, base) == {"w"}
    assert found.lost
    assert found.renew  # what watched the old one watches nothing now


def test_a_stamp_that_may_hide_a_later_write_equals_no_other(base: Path) -> None:
    status = (base / "w/file").stat()
    soon, later = status.st_ctime_ns + 1, status.st_ctime_ns + 2 * RACY_NS
    assert stamp_of(status, soon) != stamp_of(status, soon + 1)
    assert stamp_of(status, soon) != stamp_of(status, later)
    assert stamp_of(status, later) == stamp_of(status, later + 1)


def test_what_is_young(base: Path) -> None:
    snapshot = snapshot_of(base, "a.h", settle_s=3600.0)
    (base / "w/file").write_text("2")
    (base / "a.h").unlink()
    found = snapshot.scan()
    assert found.young == {f"{base}/w/file", f"{base}/a.h"}
    assert 0 < found.newest_ns <= time.time_ns()


def test_new_folders_are_to_be_looked_at_again(base: Path) -> None:
    snapshot = snapshot_of(base)
    (base / "w/new/deep").mkdir(parents=True)
    assert snapshot.look({f"{base}/w/new": False}).new_folders == {f"{base}/w/new"}
    (base / "w/new/deep/x").write_text("")  # before the library watches it
    assert relative(snapshot.look({f"{base}/w/new": False}), base) == {"w/new/deep/x"}


def test_other_roots_report_nothing_that_was_not_watched(base: Path) -> None:
    snapshot = snapshot_of(base)
    (base / "w/file").write_text("2")
    found = snapshot.follow(WatchRequest(frozenset({f"{base}/w", f"{base}/out"}), frozenset()))
    assert relative(found, base) == {"w/file"}
    assert snapshot.needed().trees.keys() == {f"{base}/w", f"{base}/out"}


def test_a_scan_that_was_stopped_counts_for_nothing(base: Path) -> None:
    looked = 0

    def stopped() -> bool:
        nonlocal looked
        looked += 1
        return looked > 5

    snapshot = Snapshot(0.02, stopped)
    snapshot.follow(WatchRequest(frozenset({f"{base}/w"}), frozenset()))
    assert looked > 1
    (base / "w/folder/new").write_text("")
    assert snapshot.scan().paths == set()


def test_needed(base: Path) -> None:
    (base / "w/out").symlink_to("../out")
    (base / "w/inside").symlink_to("folder")
    snapshot = snapshot_of(base, "a.h", "w/folder/inside", "x/y/z.h", roots=("w", "later"))
    needed = snapshot.needed()
    assert needed.trees.keys() == {f"{base}/w", f"{base}/out"}
    assert needed.singles.keys() == {str(base)}
    assert not needed.is_outdated()
    snapshot.one_by_one = True
    snapshot.scan()
    needed = snapshot.needed()
    assert needed.trees == {}
    names = {os.path.relpath(folder, base) for folder in needed.singles}
    assert names == {".", "w", "w/folder", "w/folder/sub", "out", "out/c"}
    (base / "out/c").rmdir()
    assert needed.is_outdated()
