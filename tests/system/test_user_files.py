"""Files that users name may be anything: what is not a regular file of a bearable size is refused, and never waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.system import user_files
from ckwatch.system.user_files import digest_file, file_status, file_statuses, is_there, read_file, read_with_status

LIMIT = 1024**2


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


MAKERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "sparse": (sparse, "larger than 1 MiB"),
    "one byte too much": (lambda path: path.write_bytes(bytes(LIMIT + 1)), "larger than 1 MiB"),
    "fifo": (os.mkfifo, "not a regular file"),
    "socket": (bound_socket, "not a regular file"),
    "folder": (Path.mkdir, "is a directory"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "nothing": (lambda _: None, "No such file"),
    "loop": (lambda path: path.symlink_to(path), "Too many levels"),
    "its own name is too long": (lambda path: path.symlink_to("a" * 300), "File name too long"),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("read", [read_file, digest_file])
def test_what_is_refused(tmp_path: Path, name: str, read: Callable[[Path, int], object]) -> None:
    make, expected = MAKERS[name]
    path = tmp_path / "file"
    make(path)
    with pytest.raises(OSError, match=r".*") as caught:
        read(path, LIMIT)
    assert expected in str(caught.value.strerror)


def test_a_file_that_has_nothing_to_read_as_yet_is_not_taken_for_an_empty_one() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"), pytest.raises(BlockingIOError):
        list(user_files.pieces(reading, 10))


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(LIMIT))
    (tmp_path / "link").symlink_to(path)
    assert read_file(tmp_path / "link", LIMIT) == bytes(LIMIT)
    content, status = read_with_status(path, LIMIT)
    assert (len(content), status.st_ino) == (LIMIT, path.stat().st_ino)
    assert digest_file(path, LIMIT) == "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"
    assert file_status(tmp_path / "link") == path.stat()
    assert (is_there(path), is_there(tmp_path / "none")) == (True, False)


def test_a_file_that_tells_no_size_is_read_up_to_the_limit() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    assert b"VmPeak" in read_file("/proc/self/status")
    with pytest.raises(OSError, match="larger than"):
        read_file("/proc/self/status", 10)
    with pytest.raises(OSError, match="larger than"):
        digest_file("/proc/self/status", 10)


def test_statuses_of_many_files(tmp_path: Path) -> None:
    """Of those in a folder that is missing or no folder, in one that has some, and of names that are none."""
    (tmp_path / "a").write_text("1")
    (tmp_path / "dangling").symlink_to("none")
    there = [str(tmp_path / "a"), str(tmp_path)]
    missing = [
        f"{tmp_path}/{name}" for name in ("none/b", "none/c", "d", "e", "a/f", "a/g", "dangling/h", "dangling", "i\0")
    ]
    found = dict(zip([*missing, *there], file_statuses([*missing, *there]), strict=True))
    assert {path for path, status in found.items() if status is not None} == set(there)
    assert list(file_statuses(["none", "nothing/a"])) == [None, None]
