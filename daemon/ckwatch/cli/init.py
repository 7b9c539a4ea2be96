"""`ckwatch init`."""

from __future__ import annotations

import argparse

from ckwatch.cli.output import Output
from ckwatch.workspace.init import init_workspace


def run(options: argparse.Namespace) -> int:
    """Write a workspace and say what to do with it."""
    output = Output(options)
    for path in init_workspace(options.workspace or options.folder):
        output.text(f"wrote {path}")
    output.text("next: `ckwatch check` finds mistakes in milliseconds, `ckwatch watch` compiles what changes")
    return 0
