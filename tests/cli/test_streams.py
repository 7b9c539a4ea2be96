"""Every command whose output cannot be written, whose reader has gone, or that is interrupted."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.cli import main, streams
from ckwatch.cli.parser import make_parser
from ckwatch.workspace.trust import trust

Capture = pytest.CaptureFixture[str]

UNIT = "k/one@gfx942"
COMMANDS = {
    "init": ["init", "made"],
    "check": ["check"],
    "render": ["render", "k"],
    "build": ["build"],
    "bench": ["bench", "--devices"],
    "verify": ["verify"],
    "judge": ["judge", UNIT, "--against", UNIT],
    "upgrade": ["upgrade", "--to", "nowhere"],
    "ci": ["ci", "--no-build"],
    "history": ["history", UNIT],
    "compare": ["compare", UNIT, "previous"],
    "best": ["best", "k"],
    "tune": ["tune", "k"],
    "dispatch": ["dispatch", "k"],
    "shapes": ["shapes", "import", "log.csv"],
    "baseline": ["baseline", "list", "--json"],
    "export": ["export", "--timings", "json"],
    "explain": ["explain", "k"],
    "audit": ["audit", "table.csv"],
    "inspect": ["inspect", "--calibration"],
    "rank": ["rank", "k", "--shape", "s"],
    "profile": ["profile", "k"],
    "doctor": ["doctor"],
    "toolchain": ["toolchain", "remove", "none"],
    "list": ["list"],
    "import": ["import", "inductor", "own.py"],
    "templates": ["templates", "list"],
    "store": ["store", "size"],
    "farm": ["farm", "down"],
    "schema": ["schema", "store", "gc"],
    "web": ["web", "--export", "site"],
    "completion": ["completion", "bash"],
    "trust": ["trust", "--list"],
    "status": ["status"],
    "stop": ["stop"],
    "cancel": ["cancel"],
    "logs": ["logs"],
}
WITH_A_DAEMON = {"start": ["start"], "watch": ["watch"], "status": ["status"], "cancel": ["cancel"], "logs": ["logs"]} | {
    "restart": ["restart"], "stop": ["stop"]
}  # fmt: skip
OTHERWISE = {"lsp": "speaks a protocol", "mcp": "speaks a protocol", "emulate": "runs a program"}
SILENT = {
    "logs": "without a daemon there is no log",
    "toolchain": "there is none",
    "compare": "there are no timings",
    "rank": "there is no such shape",
    "profile": "it is not built",
    "tune": "it has no shape",
    "dispatch": "it has no shape",
    "judge": "it is judged against itself",
    "upgrade": "there is no such toolchain",
    "ci": "it is not in a repository",
}
"""Commands that say in this workspace on stderr why they print nothing."""

FULL = "ckwatch: error: standard output cannot be written: No space left on device\n"


@pytest.fixture
def workspace(small: Path, daemons: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    trust(small)
    monkeypatch.chdir(small)
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.parent / "cache"))
    (small / "templates/t.hip.j2").write_text("int a = {{ Tyle }};\n")
    (small / "log.csv").write_text("M,N,K\n1,2,3\n")
    (small / "table.csv").write_text("M,N,K,us,kernelName\n")
    (small / "own.py").write_text('own_template = r"""{{headers}} int {{kernel_definition}} {}"""\n')
    return small


@pytest.fixture
def full() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def run(arguments: list[str], output: int) -> int:
    """Exit status of a command that writes to `output`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", streams.standard_output(output))
        try:
            return main(arguments)
        except SystemExit as ended:
            return int(ended.code or 0)


def test_every_command_has_a_row() -> None:
    parser = make_parser()
    (commands,) = (action.choices for action in parser._actions if action.dest == "command")
    assert commands is not None
    assert {*commands} == {*COMMANDS, *WITH_A_DAEMON, *OTHERWISE}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(
    workspace: Path, full: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if command not in ("status", "stop", "cancel", "logs"):
        monkeypatch.setenv("CKWATCH_NO_DAEMON", "1")
    assert run(COMMANDS[command], full) == 2
    errors = capsys.readouterr().err
    assert (errors == FULL) is (command not in SILENT), errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["build", "--help"]])
def test_help_on_a_full_disk(full: int, capsys: Capture, arguments: list[str]) -> None:
    assert (run(arguments, full), capsys.readouterr().err) == (2, FULL)


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - SILENT))
def test_a_reader_that_has_gone(
    workspace: Path, closed_pipe: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    if command not in ("status", "stop", "cancel"):
        monkeypatch.setenv("CKWATCH_NO_DAEMON", "1")
    assert (run(COMMANDS[command], closed_pipe), capsys.readouterr().err) == (0, "")


def test_with_a_daemon(workspace: Path, full: int, closed_pipe: int, capsys: Capture) -> None:
    for command, arguments in WITH_A_DAEMON.items():
        assert (run(arguments, full), capsys.readouterr().err) == (2, FULL), command
        if command not in ("stop", "restart"):
            assert (run(arguments, closed_pipe), capsys.readouterr().err) == (0, ""), command


@pytest.mark.parametrize(
    ("redirections", "status", "errors"),
    [
        (">&-", 2, "ckwatch: error: standard output cannot be written: Bad file descriptor\n"),
        ("<&-", 3, ""),
        ("2>&-", 3, ""),
        (">/dev/full 2>/dev/full", 2, ""),
        (">&- 2>&- <&-", 2, ""),
    ],
)
def test_streams_that_are_closed(workspace: Path, redirections: str, status: int, errors: str) -> None:
    script = f'"{sys.executable}" -m ckwatch status {redirections}'
    done = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, errors)


INTERRUPTED_IMPORT = """\
import builtins, os, signal, sys
sys.argv = ["ckwatch", "check"]
original = builtins.__import__
def importing(name, *more, **named):
    if name == {name!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return original(name, *more, **named)
builtins.__import__ = importing
import runpy
runpy.run_module("ckwatch.__main__", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("name", "status", "errors"),
    [
        ("ckwatch.cli.parser", -signal.SIGINT, ""),
        ("anyio", 130, "ckwatch: interrupted\n"),
        ("ckwatch.client", 130, "ckwatch: interrupted\n"),
    ],
)
def test_ctrl_c_while_modules_are_loaded(workspace: Path, name: str, status: int, errors: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, errors)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_lacks_is_escaped_as_in_json(tmp_path: Path, encoding: str) -> None:
    with (tmp_path / "out").open("wb") as file:
        output = streams.standard_output(file.fileno(), io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        output.write(json.dumps("277 µs × 3 😀", ensure_ascii=False))
        output.flush()
    assert json.loads((tmp_path / "out").read_bytes().decode(encoding)) == "277 µs × 3 😀"
