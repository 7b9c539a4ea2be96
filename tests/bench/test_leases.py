"""A device is held by one process at a time, and nothing but the process's end is needed to give it back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.bench.leases import FOLDER_VARIABLE, Lease, held_by, lease
from ckwatch.model.errors import DeviceError

PCI = "0000:C1:00.0"
FILE = "ckwatch-device-0000:c1:00.0.lock"

HOLD = """
import sys
from ckwatch.bench.leases import lease
held = lease(sys.argv[1], "the other \\x1b[31m one\\nsecond line", wait_s=0, waiting=print)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


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
    assert held_by(PCI) == told[0]


def test_a_killed_holder_gives_back_to_who_waits(other: subprocess.Popen[bytes]) -> None:
    def kill(_: str) -> None:
        other.kill()

    held = lease(PCI, "we", wait_s=60, waiting=kill)
    assert held is not None
    assert held_by(PCI) == "we"
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
def test_what_is_no_plain_file_is_refused(folder: Path, make: object) -> None:
    assert callable(make)
    make(folder / FILE)
    with pytest.raises(DeviceError, match="cannot be leased") as caught:
        take()
    assert caught.value.hint is not None
    assert FOLDER_VARIABLE in caught.value.hint
    assert not (folder / "elsewhere").exists()


def test_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder / "none"))
    with pytest.raises(DeviceError, match="No such file"):
        take()
    assert held_by(PCI) == ""


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
