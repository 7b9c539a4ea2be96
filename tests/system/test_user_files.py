"""Files that users name may be anything: what is not a regular file of a bearable size is refused, and never waited for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ckwatch.system import user_files
from ckwatch.system.user_files import FileSystems, digest_file, file_status, is_there, read_file, read_with_status

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
    with os.fdopen(reading, "rb", buffering=0) as file, os.fdopen(writing, "wb"), pytest.raises(BlockingIOError):
        user_files._read_some(file, 10)


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


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:20 / /home rw - nfs4 server:/home rw
24 22 0:21 / {remote} rw,relatime shared:1 - fuse.sshfs host: rw
25 22 0:22 / /sys/fs/fuse/connections rw - fusectl fusectl rw
damaged line
"""


@pytest.fixture
def silent() -> Iterator[Callable[[], str]]:
    """A question that is answered when the test is over."""
    over = threading.Event()

    def question() -> str:
        over.wait()
        return "late"

    yield question
    over.set()


def file_systems(tmp_path: Path, limit_s: float) -> tuple[FileSystems, Path]:
    remote = tmp_path / "r e"
    remote.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS.format(remote=str(remote).replace(" ", "\\040")))
    return FileSystems(str(table), ("", "/home/me"), limit_s=limit_s), remote


def test_which_file_systems_may_not_answer(tmp_path: Path) -> None:
    systems, remote = file_systems(tmp_path, 60)
    (tmp_path / "link").symlink_to(remote)
    assert systems.may_hang(str(remote / "a/b")) == f"{remote}/"
    assert systems.may_hang(str(tmp_path / "link")) == f"{remote}/"
    assert systems.may_hang(str(tmp_path)) == ""
    assert systems.may_hang("/home/me/x") == "", "nothing goes on without it"
    assert systems.may_hang("/sys/fs/fuse/connections") == ""


def test_one_that_does_not_answer_is_left_behind(tmp_path: Path, silent: Callable[[], str]) -> None:
    systems, remote = file_systems(tmp_path, 0.01)
    (tmp_path / "link.j2").symlink_to(remote / "x.j2")
    asked: list[str] = []
    with pytest.raises(OSError, match="does not answer"):
        systems.ask(str(remote / "x.j2"), silent)
    for path in (remote / "y.j2", tmp_path / "link.j2"):
        with pytest.raises(OSError, match="does not answer"):
            systems.ask(str(path), lambda: asked.append("too early"))
    assert asked == []
    assert systems.ask(str(tmp_path / "local"), lambda: "others go on") == "others go on"


def test_answers_and_errors_are_those_of_the_question(tmp_path: Path) -> None:
    systems, remote = file_systems(tmp_path, 60)
    threads = {systems.ask(str(remote / "x"), threading.current_thread) for _ in range(3)}
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    with pytest.raises(FileNotFoundError):
        systems.ask(str(remote / "x"), (remote / "x").read_bytes)
    assert systems.ask(str(remote / "x"), lambda: 1) == 1


def test_the_mounts_of_this_machine_are_read() -> None:
    assert user_files._mounts(Path("/proc/self/mountinfo").read_bytes())["/"] in (True, False)
