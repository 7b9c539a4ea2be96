"""The commands of the daemon's life, with real daemons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import daemon, main
from ckwatch.system.file_locks import unlock
from ckwatch.wire.endpoint import acquire, endpoint_of, owner, prepare_folder

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, root: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command."""
    status = main([*arguments, "-C", str(root)])
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


def test_a_daemon_that_hangs_is_killed(
    daemons: Path, small: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "ASKED_S", 0.3)
    monkeypatch.setattr(daemon, "TERMINATED_S", 1.0)
    run(capsys, small, "start", "--trust")
    process = owner(endpoint_of(small))
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    status, out, errors = run(capsys, small, "stop")
    assert (status, out) == (0, f"stopped the daemon by SIGKILL (process {process})\n")
    assert [line.split("sending ")[1].split()[0] for line in errors.splitlines()] == ["SIGTERM", "SIGKILL"]
    assert owner(endpoint_of(small)) is None


def test_a_process_that_is_not_the_daemon_is_left_alone(
    daemons: Path, small: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is held, perhaps in another container, and names a process that is somebody else's here."""
    monkeypatch.setattr(daemon, "ASKED_S", 0.3)
    endpoint = endpoint_of(small)
    prepare_folder(endpoint.lock.parent)
    lock = acquire(endpoint)
    assert lock is not None
    with subprocess.Popen(["sleep", "60"]) as other:
        os.pwrite(lock, f"{other.pid}\n".ljust(10).encode(), 0)
        status, _, errors = run(capsys, small, "stop")
        assert other.poll() is None
        other.kill()
    unlock(endpoint.lock, lock)
    assert status == 2
    assert "is not it" in errors


def test_in_the_foreground(daemons: Path, small: Path, capsys: Capture) -> None:
    command = [sys.executable, "-m", "ckwatch", "start", "--foreground", "--trust", "-C", str(small)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
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


def test_trust(daemons: Path, small: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(capsys, small, "trust") == (0, f"{small} is now trusted\n", "")
    assert run(capsys, small, "trust", str(tmp_path)) == (0, f"{tmp_path} is now trusted\n", "")
    assert run(capsys, small, "trust", "--list")[1].splitlines() == [str(small), str(tmp_path)]
    status, _, errors = run(capsys, small, "trust", "--remove")
    assert (status, "is still trusted, as part of" in errors) == (2, True)
    assert run(capsys, small, "trust", "--remove", str(tmp_path)) == (0, f"{tmp_path} is no longer trusted\n", "")
    assert run(capsys, small, "trust", "--remove") == (0, f"{small} was not trusted\n", "")
    assert run(capsys, small, "trust", str(tmp_path / "gone"))[0] == 2
