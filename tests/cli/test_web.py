"""`ckwatch web`: options that do not go together, and what is missing. Serving and exporting: tests/web."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.workspace.trust import trust

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


def test_without_nicegui_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("ckwatch.cli.web.find_spec", lambda _name: None)
    assert main(["web"]) == 2
    assert "pip install 'ckwatch[web]'" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(small: Path, capsys: Capture) -> None:
    (small / "file").write_text("")
    assert main(["web", "--export", "file"]) == 2
    assert "file cannot be written" in capsys.readouterr().err
