"""`ckwatch watch` with a real daemon: on a terminal, as lines, as JSON."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.wire.endpoint import endpoint_of, owner
from helpers.own_command import own_command

UNIT = "k/one@gfx942"


@contextmanager
def watching(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`ckwatch watch` with its output in a pipe."""
    command = ["watch", "--trust", "--no-build", *arguments]
    with own_command(*command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        yield process
        process.kill()


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines up to one that holds these words."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    pytest.fail(f"never said {words!r}, only {lines}")


def test_lines(daemons: Path, small: Path) -> None:
    template = small / "templates/t.hip.j2"
    with watching(small) as process:
        assert until(process, "1 unit: ")
        template.write_text("int a = {{ Tyle }};\n")
        assert until(process, "1 failed")[:4] == [
            f"  failed  {UNIT}  1 error  (templates/t.hip.j2 changed)",
            "templates/t.hip.j2:1:12: error: 'Tyle' is undefined; did you mean 'Tile'? [template/undefined]",
            "    1 | int a = {{ Tyle }};",
            "      |            ^^^^",
        ]
        killed = owner(endpoint_of(small))
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        until(process, "the daemon has stopped; waiting for it to start again")
        template.write_text("int a = {{ Tile }} + 1;\n")
        until(process, "1 unit: ")
        assert owner(endpoint_of(small)) not in (None, killed)


def test_json(daemons: Path, small: Path) -> None:
    with watching(small, "--json", "k") as process:
        assert process.stdout is not None
        change = json.loads(process.stdout.readline())
        assert (change["topic"], change["state"]["root"]) == ("workspace", str(small))
        (small / "templates/t.hip.j2").write_text("{{ Tyle }}")
        changes = [json.loads(line) for line in until(process, "'Tyle' is undefined")]
        assert {change["topic"].partition("/")[0] for change in changes} <= {"unit", "file", "workspace"}
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM


def test_nobody_reads(daemons: Path, small: Path) -> None:
    with watching(small) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert [line for line in process.stderr if "Waiting for the daemon" not in line] == []  # a busy machine


def test_words_that_mean_nothing(daemons: Path, small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "--trust", "-C", str(small)]) == 0
    for word, message in (
        ("kk", "did you mean 'k'?"),
        (str(small / "templates"), "no kernel in"),
        ("nowhere/", "no kernel, instance or unit is called 'nowhere/'"),
    ):
        capfd.readouterr()
        assert main(["watch", "-C", str(small), "--no-build", word]) == 2
        out, errors = capfd.readouterr()
        assert (out, message in errors, "Traceback" in errors) == ("", True, False), word


def test_a_word_may_mean_a_kernel_that_has_mistakes(daemons: Path, small: Path) -> None:
    kernel = small / "k.kernel.toml"
    text = kernel.read_text()
    kernel.write_text(text.replace('"f32"', '"f33"'))
    with watching(small, "k") as process:
        assert "unknown dtype `f33`" in until(process, "error: ")[-1]
        kernel.write_text(text)
        until(process, "1 unit: ")


def test_on_a_terminal(daemons: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    there, here = pty.openpty()
    command = ["watch", "--trust", "--no-build"]
    with own_command(*command, cwd=small, stdin=here, stdout=here, start_new_session=True) as process:
        os.close(here)
        shown = b""
        while UNIT.encode() not in shown:
            shown += os.read(there, 65_536)
        os.write(there, b"q")
        rest = b""
        while b"1 unit: " not in rest:
            rest += os.read(there, 65_536)
        assert process.wait() == 0
        assert shown.startswith(b"\x1b[?1049h")
        assert b"\x1b[?25h\x1b[?1049l" in rest
    os.close(there)
