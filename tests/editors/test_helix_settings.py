"""Helix' settings against a scripted server: what Helix itself has to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.editors.helix_session import Helix, message_at
from tools.editors.stage import Stage

pytestmark = pytest.mark.editors


@pytest.fixture
def hx(helix: str, tmux: str, stage: Stage) -> Iterator[Helix]:
    """Helix with the stage's template open and its error shown."""
    with Helix(helix, tmux, stage.template, directory=stage.root, env=stage.env) as session:
        session.terminal.wait_for(r"128 % \(32 \* 3\) is not 0")
        yield session


def test_errors_and_hints_are_on_the_screen(hx: Helix) -> None:
    hx.terminal.wait_for("first 41.57 µs line")
    said = "└─128 % (32 * 3) is not 0"
    wanted = "the error is not at its place"
    hx.terminal.wait_until(lambda screen: said in message_at(screen, "second µ WRONG line", "WRONG"), wanted)


def test_mending_takes_the_error_away(hx: Helix) -> None:
    hx.select("WRONG")
    hx.type_over("right")
    hx.terminal.wait_for(r"128 % \(", absent=True)


def test_a_hover_is_shown(hx: Helix) -> None:
    hx.terminal.ask_until(lambda: hx.terminal.type(" k"), "190 VGPR")


def test_commands_are_in_the_picker_and_may_be_typed(hx: Helix, stage: Stage) -> None:
    hx.command("lsp-workspace-command")
    hx.terminal.wait_for(r"ckwatch\.compare")
    hx.terminal.keys("Enter")
    hx.terminal.wait_for(r"ckwatch\.compare", absent=True)
    hx.command('lsp-workspace-command ckwatch.build {"unit": "gemm/v3"}')
    hx.terminal.type(" k")
    hx.terminal.wait_for("190 VGPR")  # the server answers in order: both commands have been written down
    asked = [(one["command"], one["arguments"]) for one in stage.received("workspace/executeCommand")]
    assert asked == [("ckwatch.run", []), ("ckwatch.build", [{"unit": "gemm/v3"}])]


def test_files_of_a_workspace_are_served(hx: Helix, stage: Stage) -> None:
    for path in (stage.macros, stage.kernel, stage.root / "ckwatch.toml"):
        hx.command(f"open {str(path).replace(' ', chr(92) + ' ')}")
        hx.terminal.wait_for(rf"NOR .*{path.name} ")
    opened = [one["textDocument"] for one in stage.received("textDocument/didOpen", 4)]
    assert [(Path(one["uri"]).name, one["languageId"]) for one in opened] == [
        ("kernel.hip.j2", "ckwatch-template"),
        ("macros.j2", "jinja"),
        ("gemm.kernel.toml", "ckwatch-kernel"),
        ("ckwatch.toml", "ckwatch-kernel"),
    ]


def test_elsewhere_no_server_is_started(helix: str, tmux: str, stage: Stage) -> None:
    foreign = stage.folder / "elsewhere"
    foreign.mkdir()
    (foreign / "kernel.hip.j2").write_text("WRONG\n")
    with Helix(helix, tmux, foreign / "kernel.hip.j2", directory=foreign, env=stage.env) as session:
        session.terminal.wait_for("WRONG")
        session.terminal.type(" k")
        session.terminal.wait_for("No configured language server|not support")
    assert not stage.record.exists()
