"""`ckwatch web`: options that do not go together, and what is missing. Serving and exporting: tests/web."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.system.installation import command_for_extra
from ckwatch.workspace.trust import trust
from helpers.own_command import own_command

BROWSER = """\
import contextlib, json, os, stat, sys, urllib.request
from pathlib import Path
file = Path(sys.argv[1].removeprefix("file://"))
address = file.read_text().partition("url=")[2].partition("'")[0]
token = address.partition("token=")[2].encode()
lines = []
for process in Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):
        lines.append((process / "cmdline").read_bytes())
found = {
    "arguments": sys.argv[1:], "modes": [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)],
    "seen": any(token in line for line in lines),
    "status": urllib.request.urlopen(address).status, "left": file.exists(),
}
Path(os.environ["TOLD"]).write_text(json.dumps(found))
"""
"""Opens the file that it is given as a browser does, and tells of it."""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def workspace(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    trust(small)
    monkeypatch.chdir(small)
    return small


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["k"], "patterns choose what --export writes", "can filter them"),
        (["--traces"], "--traces goes with --export", "Trace the compile"),
        (["--export", "out", "--share"], "--share is for the page", "leave one out"),
        (["--export", "out", "--port", "8000"], "--port is for the page", "leave one out"),
        (["--export", "out", "--allow-changes"], "--allow-changes is for the page", "leave one out"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str, hint: str, capsys: Capture) -> None:
    assert main(["web", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert hint in said


@pytest.mark.parametrize("port", ["80", "65536", "x", "-1", "1.5"])
def test_what_is_no_port(port: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["web", f"--port={port}"])
    assert f"'{port}' is not a port from 1024 to 65535" in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(["web", "--no-open", "--port", str(other.getsockname()[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_without_nicegui_it_says_what_to_install(capsys: Capture) -> None:
    assert main(["web"], find_spec=lambda _name: None) == 2
    assert command_for_extra("web") in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(small: Path, capsys: Capture) -> None:
    (small / "file").write_text("")
    assert main(["web", "--export", "file"]) == 2
    assert "file cannot be written" in capsys.readouterr().err


def test_no_command_line_has_the_token(small: Path, daemons: Path, tmp_path: Path) -> None:
    trust(small)
    browser, told = tmp_path / "browser.py", tmp_path / "told"
    browser.write_text(BROWSER)
    os.mkfifo(told)
    environment = os.environ | {"BROWSER": f"{sys.executable} {browser} %s", "TOLD": str(told)}
    with own_command("web", cwd=small, env=environment, stdout=subprocess.DEVNULL) as process:
        found = json.loads(told.read_text())
        process.send_signal(signal.SIGTERM)
    (url,) = found.pop("arguments")
    assert url.startswith("file://")
    assert found == {"modes": [0o700, 0o600], "seen": False, "status": 200, "left": False}
    assert not Path(url.removeprefix("file://")).parent.exists()


def test_without_a_browser_it_says_so(small: Path, daemons: Path) -> None:
    trust(small)
    environment = os.environ | {"BROWSER": "false"}
    with own_command("web", cwd=small, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        # on a busy machine it says before how long the daemon takes to start
        assert any(line == "ckwatch: no browser was opened: open the address above\n" for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
