"""What a command prints: diagnostics like a good compiler's, or JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.diagnostics.json_form import to_json
from ckwatch.model.diagnostic import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console

JSON_SCHEMA = 1
"""Grows when a field changes its meaning or goes away; new fields may appear without that."""


@cache
def _lines(path: str) -> tuple[str, ...]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def read_line(path: str, line: int) -> str | None:
    """Line `line` (zero-based) of the file at `path`; None if there is none."""
    lines = _lines(path)
    return lines[line] if 0 <= line < len(lines) else None


class Output:
    """Standard output in the form that the options ask for: text for people, or one JSON object per line."""

    def __init__(self, options: argparse.Namespace, root: Path | None = None) -> None:
        self.json = bool(getattr(options, "json", False))
        self.details = bool(getattr(options, "details", False))
        self.root = str(root) if root else None
        self._color: str = options.color

    @cached_property
    def console(self) -> Console:
        """The terminal; loaded when something is printed for people."""
        from rich.console import Console

        terminal = {"always": True, "never": False}.get(self._color)
        return Console(force_terminal=terminal, no_color=self._color == "never" or None, soft_wrap=True)

    def line(self, **fields: Any) -> None:
        """Print one JSON object."""
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics, or one object of the event `diagnostic` for each."""
        if self.json:
            for diagnostic in diagnostics:
                self.line(event="diagnostic", **to_json(diagnostic))
        elif diagnostics:
            from ckwatch.diagnostics.terminal import print_diagnostics

            print_diagnostics(self.console, diagnostics, read_line, self.root, detail=self.details)

    def text(self, text: str, style: str = "") -> None:
        """Print a line for people; nothing with `--json`."""
        if not self.json:
            self.console.print(text, style=style, markup=False, highlight=False)
