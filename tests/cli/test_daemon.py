"""The commands of the daemon's life, with real daemons."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main
from ckwatch.system.file_locks import unlock
from ckwatch.wire.endpoint import acquire, endpoint_of, owner, prepare_folder
from helpers.own_command import own_command

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, root: Path, *arguments: str, **dependencies: Any) -> tuple[int, str, str]:
    """Exit status, output and errors of a command."""
    status = main([*arguments, "-C", str(root)], **dependencies)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def state(capsys: Capture, root: Path) -> dict[str, Any]:
    """`ckwatch status --json`."""
    found: dict[str, Any] = json.loads(run(capsys, root, "status", "--json")[1])
    return found


def test_a_life(daemons: Path, small: Path, capsys: Capture) -> None:
    status, out, _ = run(capsys, small, "status")
    assert (status, out) == (3, f"no daemon is running for {small}\n")
    assert state(capsys, small)["running"] is False
    assert run(capsys, small, "stop")[:2] == (0, "the daemon is not running\n")
    for command in ("start", "restart"):
        status, _, errors = run(capsys, small, command)
        assert (status, "--trust" in errors, "Traceback" in errors) == (2, True, False)

    status, out, _ = run(capsys, small, "start", "--trust")
    first = state(capsys, small)
    lines = out.splitlines()
    assert (status, lines[0]) == (0, "started the daemon")
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == [
        str(first["pid"]), str(small), first["socket"], first["log_file"],
    ]  # fmt: skip
    assert first["running"]
    assert first["unit_count"] == 1
    assert run(capsys, small, "start")[1].startswith("the daemon is already running\n")

    status, out, _ = run(capsys, small, "status")
    assert status == 0
    assert out.startswith(f"the daemon runs: ckwatch {first['version']}, process {first['pid']}, for ")
    assert "  units      1: 1 " in out

    assert run(capsys, small, "restart")[0] == 0
    second = state(capsys, small)
    assert second["pid"] != first["pid"]
    assert run(capsys, small, "stop") == (0, f"stopped the daemon (process {second['pid']})\n", "")
    assert run(capsys, small, "status")[0] == 3
    status, out, _ = run(capsys, small, "logs")
    assert status == 0
    assert f"process {second['pid']}, for {small}" in out


def test_a_daemon_that_hangs_is_killed(daemons: Path, small: Path, capsys: Capture) -> None:
    prepare_folder(endpoint_of(small).lock.parent)
    script = (
        "import signal, sys, time; from pathlib import Path; from ckwatch.wire.endpoint import acquire, endpoint_of\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "lock = acquire(endpoint_of(Path(sys.argv[1])))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(small)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        status, out, errors = run(capsys, small, "stop", patience_s=(0.3, 1.0))
    assert (status, out) == (0, f"stopped the daemon by SIGKILL (process {process.pid})\n")
    assert [line.split("sending ")[1].split()[0] for line in errors.splitlines()] == ["SIGTERM", "SIGKILL"]
    assert owner(endpoint_of(small)) is None


def test_a_daemon_that_was_stopped_by_a_signal_ends_when_asked(daemons: Path, small: Path, capsys: Capture) -> None:
    run(capsys, small, "start", "--trust")
    process = owner(endpoint_of(small))
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    assert run(capsys, small, "stop") == (0, f"stopped the daemon (process {process})\n", "")


@pytest.mark.parametrize("by_name", [True, False])
def test_the_daemon_of_a_deleted_workspace(
    daemons: Path, small: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, by_name: bool
) -> None:
    run(capsys, small, "start", "--trust")
    process = owner(endpoint_of(small))
    monkeypatch.chdir(small)
    shutil.rmtree(small)
    place = ["-C", str(small)] if by_name else []
    assert main(["status", *place]) == 0
    assert main(["logs", *place]) == 0
    capsys.readouterr()
    assert main(["stop", *place]) == 0
    assert capsys.readouterr().out == f"stopped the daemon (process {process})\n"
    assert main(["stop", *place]) == 2


@pytest.mark.parametrize("what", ["socket", "lock", "log", "history"])
def test_a_fifo_in_the_way_holds_nothing_up(daemons: Path, small: Path, capsys: Capture, what: str) -> None:
    endpoint = endpoint_of(small)
    path = {"history": endpoint.log.with_name("history.sqlite")}.get(what) or getattr(endpoint, what)
    prepare_folder(endpoint.lock.parent)
    endpoint.log.parent.mkdir(parents=True)
    os.mkfifo(path)
    status, _, errors = run(capsys, small, "start", "--trust")
    assert (status, "Traceback" in errors) == (2 if what in ("socket", "lock") else 0, False)
    assert (str(path) in errors) is bool(status)
    path.unlink()
    if not status:
        assert ("history" in state(capsys, small)["warnings"]) is (what == "history")
        assert run(capsys, small, "stop")[0] == 0


def test_a_state_folder_that_cannot_be_written_is_a_warning(daemons: Path, small: Path, capsys: Capture) -> None:
    folder = endpoint_of(small).log.parent
    folder.parent.mkdir(parents=True)
    folder.touch()  # rights do not hold for root
    assert run(capsys, small, "start", "--trust")[0] == 0
    assert "history" in state(capsys, small)["warnings"]
    assert run(capsys, small, "stop")[0] == 0


def test_a_process_that_is_not_the_daemon_is_left_alone(daemons: Path, small: Path, capsys: Capture) -> None:
    """A lock that is held, perhaps in another container, and names a process that is somebody else's here."""
    endpoint = endpoint_of(small)
    prepare_folder(endpoint.lock.parent)
    lock = acquire(endpoint)
    assert lock is not None
    with subprocess.Popen(["sleep", "60"]) as other:
        os.pwrite(lock, f"{other.pid:>9}\n".encode(), 0)
        status, _, errors = run(capsys, small, "stop", patience_s=(0.3, 1.0))
        assert other.poll() is None
        other.kill()
    unlock(endpoint.lock, lock)
    assert status == 2
    assert "is not it" in errors


def test_in_the_foreground(daemons: Path, small: Path, capsys: Capture) -> None:
    with own_command("start", "--foreground", "--trust", "-C", str(small), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert f"process {process.pid}, for {small}" in process.stderr.readline()
        status, _, errors = run(capsys, small, "start", "--foreground")
        assert (status, "already running" in errors) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert "ending: SIGTERM" in process.stderr.read()
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["start", "stop", "restart", "status", "logs", "watch", "trust"])
def test_without_a_workspace(daemons: Path, tmp_path: Path, capsys: Capture, command: str) -> None:
    status, _, errors = run(capsys, tmp_path, command)
    assert (status, "no ckwatch.toml" in errors, "Traceback" in errors) == (2, True, False)


def test_trust_for_one_command_starts_no_daemon(daemons: Path, small: Path, capsys: Capture) -> None:
    assert run(capsys, small, "check", "--trust-once")[0] == 0
    assert run(capsys, small, "status")[0] == 3
    assert run(capsys, small, "start")[0] == 2


def test_trust(daemons: Path, small: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(capsys, small, "trust") == (0, f"{small} is now trusted\n", "")
    assert run(capsys, small, "trust", str(tmp_path)) == (0, f"{tmp_path} is now trusted\n", "")
    assert run(capsys, small, "trust", "--list")[1].splitlines() == [str(small), str(tmp_path)]
    status, _, errors = run(capsys, small, "trust", "--remove")
    assert (status, "is still trusted, as part of" in errors) == (2, True)
    assert run(capsys, small, "trust", "--remove", str(tmp_path)) == (0, f"{tmp_path} is no longer trusted\n", "")
    assert run(capsys, small, "trust", "--remove") == (0, f"{small} was not trusted\n", "")
    assert run(capsys, small, "trust", str(tmp_path / "gone"))[0] == 2
