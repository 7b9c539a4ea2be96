"""`ckwatch init`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ckwatch.cli.output import Output
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.init import init_workspace


def run(options: argparse.Namespace) -> int:
    """Write a workspace and say what to do with it."""
    output = Output(options)
    if options.workspace is not None and options.folder is not None:
        raise CkwatchError("DIR and -C both say where to write the workspace", "give one of them")
    for path in init_workspace(options.workspace or options.folder or Path()):
        output.text(f"wrote {path}")
    output.text("next: `ckwatch check` finds mistakes in milliseconds, `ckwatch watch` compiles what changes")
    return 0
