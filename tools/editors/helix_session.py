"""Helix in a terminal with our configuration, driven by keys and read as screen text."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.editors.example import ROOT
from tools.editors.terminal import Terminal


class Helix:
    """Helix with `file` open, `languages.toml` and `config.toml` as they are under `editors/helix`."""

    def __init__(self, program: str, tmux: str, file: Path, *, directory: Path, env: Mapping[str, str]) -> None:
        settings = Path(env["XDG_CONFIG_HOME"], "helix")
        settings.mkdir(parents=True, exist_ok=True)
        for name in ("languages.toml", "config.toml"):
            shutil.copy(ROOT / "editors/helix" / name, settings)
        log = directory.parent / "helix.log"
        command = [program, "-v", "--log", str(log), str(file)]
        # wide, so that long paths of headers fit the status line
        self.terminal = Terminal(tmux, command, directory=directory, env=env, columns=240)

    def __enter__(self) -> Self:
        self.terminal.__enter__()
        try:
            self.terminal.wait_for(" NOR ")
        except BaseException:
            self.terminal.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminal.__exit__(kind, error, trace)

    def command(self, text: str) -> None:
        """Type a command at `:`, in normal mode: an Escape before it would be read as Alt."""
        self.terminal.type(f":{text}")
        self.terminal.keys("Enter")

    def close(self, shown: str) -> None:
        """Close the popup that shows a text, and wait until it has gone: a key at once behind Escape is read as Alt."""
        self.terminal.keys("Escape")
        self.terminal.wait_for(shown, absent=True)

    def select(self, text: str) -> None:
        """Select the first match of a regular expression in the file, in normal mode."""
        self.terminal.type("gg/")
        self.terminal.type(text)
        self.terminal.keys("Enter")

    def go_to(self, text: str) -> None:
        """Put the cursor on the begin of the first match."""
        self.select(text)
        self.terminal.keys("M-;")  # the cursor goes to the other end of the selection

    def type_over(self, text: str) -> None:
        """Replace what is selected."""
        self.insert("c", text)

    def insert(self, command: str, text: str) -> None:
        """Type text after a command that begins to insert, and go back to normal mode."""
        self.terminal.type(command)
        self.terminal.wait_for(" INS ")
        self.terminal.type(text)
        self.terminal.keys("Escape")
        self.terminal.wait_for(" NOR ")


def message_at(screen: str, line: str, place: str) -> str:
    """The text below the first line that is marked and has `line` in it, where it points at `place`; else nothing."""
    lines = screen.splitlines()
    for number, text in enumerate(lines):
        if text.startswith("●") and line in text:
            below = lines[number + 1 : number + 5]
            points = below and below[0].find("└") == text.index(place, text.index(line))
            return "\n".join(below) if points else ""
    return ""
