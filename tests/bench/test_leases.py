"""A device is held by one process at a time, and nothing but the process's end is needed to give it back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.bench.leases import FOLDER_VARIABLE, Lease, lease
from ckwatch.model.errors import DeviceError

PCI = "0000:C1:00.0"
FILE = "ckwatch-device-0000:c1:00.0.lock"

HOLD = """
import sys
import tempfile
from ckwatch.bench.leases import lease
held = lease(sys.argv[1], "the other \\x1b[31m one\\nsecond line", wait_s=0, waiting=print)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "locks"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the device until its stdin is closed."""
    with subprocess.Popen([sys.executable, "-c", HOLD, PCI], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def take(wait_s: float = 0.0, identity: str = PCI, told: list[str] | None = None) -> Lease | None:
    return lease(identity, "pid 1", wait_s=wait_s, waiting=(told if told is not None else []).append)


def test_one_holder_at_a_time() -> None:
    first = take()
    assert first is not None
    told: list[str] = []
    assert take(told=told) is None
    assert told == ["pid 1"]
    first.release()
    first.release()
    again = take()
    assert again is not None
    again.release()


def test_devices_are_independent() -> None:
    held = [take(identity=identity) for identity in (PCI, "0000:c2:00.0", "cpu")]
    assert None not in held
    for one in held:
        assert one is not None
        one.release()


def test_one_device_has_one_name(folder: Path) -> None:
    first = take(identity=PCI.upper())
    assert first is not None
    assert take(identity=PCI.lower()) is None
    assert [path.name for path in folder.iterdir()] == [FILE]
    first.release()


def test_names_stay_in_the_folder(folder: Path) -> None:
    held = take(identity="../../etc/x y")
    assert held is not None
    assert [path.name for path in folder.iterdir()] == ["ckwatch-device-.._.._etc_x_y.lock"]
    held.release()


def test_another_process_is_told_of_and_its_words_are_plain(other: subprocess.Popen[bytes]) -> None:
    told: list[str] = []
    assert take(told=told) is None
    assert told == ["the other  [31m one"]


def test_a_killed_holder_gives_back_to_who_waits(other: subprocess.Popen[bytes]) -> None:
    def kill(_: str) -> None:
        other.kill()

    held = lease(PCI, "we", wait_s=60, waiting=kill)
    assert held is not None
    told: list[str] = []
    assert take(told=told) is None
    assert told == ["we"]
    held.release()


def test_a_file_of_others_is_enough_to_read(folder: Path) -> None:
    (folder / FILE).write_text("somebody\n")
    (folder / FILE).chmod(0o444)
    held = take()
    assert held is not None
    assert take() is None
    held.release()


def test_the_file_is_for_everybody(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        held = take()
    finally:
        os.umask(before)
    assert held is not None
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o666
    held.release()


def test_a_file_that_was_replaced_is_not_a_lease(folder: Path) -> None:
    """Whoever deletes the file has not got the device of who takes it after that."""
    first = take()
    assert first is not None
    (folder / FILE).unlink()
    second = take()
    assert second is not None
    assert take() is None
    first.release()
    assert take() is None
    second.release()


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [link, Path.mkdir, os.mkfifo], ids=["symlink", "folder", "fifo"])
def test_what_cannot_be_locked_leaves_turns_among_ones_own(folder: Path, make: object) -> None:
    assert callable(make)
    make(folder / FILE)
    held = take()
    assert held is not None
    kind = {"symlink_to": "link", "mkdir": "folder", "mkfifo": "FIFO"}.get(getattr(make, "__name__", ""), "link")
    assert f"{FILE}, a {kind} of the user" in held.warning
    assert "others may have measured at the same time" in held.warning
    assert f"sudo rm -r {folder}" in held.warning
    assert take() is None, "one's own processes still take turns"
    held.release()
    assert not (folder / "elsewhere").exists()


def test_others_can_only_block_what_they_can_write_to(folder: Path) -> None:
    os.mkfifo(folder / FILE)
    held = take()
    assert held is not None
    assert [path.name for path in folder.iterdir()] == [FILE], "others could block it as well"
    held.release()


def test_what_cannot_be_locked_is_refused_where_there_is_no_place_of_ones_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / FILE)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match="cannot be leased") as caught:
        take()
    assert caught.value.hint is not None
    assert FOLDER_VARIABLE in caught.value.hint


AS_NOBODY = """
import os, sys
from ckwatch.bench.leases import lease
os.setgroups([]), os.setgid(65534), os.setuid(65534)
os.environ["XDG_STATE_HOME"] = sys.argv[2]
told = []
held = lease(sys.argv[1], "me", wait_s=0, waiting=told.append)
print("none" if held is None else held.warning, *told, sep="|", flush=True)
sys.stdin.read()
"""


def as_nobody(*, over: bool = True) -> subprocess.Popen[bytes]:
    """Another user who takes the device, and gives it back when it is `over`."""
    return subprocess.Popen(
        [sys.executable, "-c", AS_NOBODY, PCI, f"{os.environ[FOLDER_VARIABLE]}/state of nobody"],
        stdin=subprocess.DEVNULL if over else subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that all users can reach, as the test's own is not."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv(FOLDER_VARIABLE, name)
        Path(name).chmod(0o1777)
        yield Path(name)


def test_a_file_for_nobody_else_blocks_nobody(shared: Path) -> None:
    (shared / FILE).touch(0o600)
    with as_nobody() as process:
        said = process.communicate()[0].decode()
    assert f"{FILE}, a file of the user root that only its owner may open, keeps users from taking turns" in said


def test_users_take_turns(shared: Path) -> None:
    held = take()
    assert held is not None
    assert held.warning == ""
    with as_nobody() as process:
        assert process.communicate()[0].decode() == f"none|process {os.getpid()} of the user root (pid 1)\n"
    held.release()
    with as_nobody(over=False) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        told: list[str] = []
        assert take(told=told) is None
        assert told == [f"process {process.pid} of the user nobody (me)"]
        process.communicate()
    assert take() is not None


@pytest.mark.parametrize(
    ("owner", "mode", "expected"),
    [(0, 0o1777, ""), (0, 0o777, "chmod +t"), (65534, 0o1777, "belongs to the user nobody"), (0, 0o700, "")],
)
def test_a_folder_in_which_locks_can_be_taken_away(shared: Path, owner: int, mode: int, expected: str) -> None:
    os.chown(shared, owner, -1)
    shared.chmod(mode)
    held = take()
    assert held is not None
    assert expected in held.warning
    assert bool(held.warning) is bool(expected)
    held.release()


def test_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder / "none"))
    with pytest.raises(DeviceError, match="No such file"):
        take()


def test_without_the_variable_all_users_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    identity = f"test-{os.getpid()}"
    held = take(identity=identity)
    assert held is not None
    try:
        assert take(identity=identity) is None
        place = next(
            path
            for folder in ("/run/lock", "/var/lock", "/tmp")
            if (path := Path(folder, f"ckwatch-device-{identity}.lock")).exists()
        )
        place.unlink()
    finally:
        held.release()
