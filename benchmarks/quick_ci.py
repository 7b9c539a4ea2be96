"""`ckwatch ci` or another command with the compiler that is done at once.

`FOLDER COMMAND…`: FOLDER is that of `ci_overhead`. A process of its own, which loads what the command needs.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.quick_compiler import QuickCompiler
from ckwatch.cli import main as command


def main(arguments: list[str]) -> int:
    """Run the command; the exit status."""
    folder, *given = arguments
    find = QuickCompiler(Path(folder) / "compiler").find_toolchain
    others: dict[str, Any] = {}
    if given[0] == "ci":
        from ckwatch.engine.workspace_outcomes import OutcomeTools

        others["outcome_tools"] = OutcomeTools(find_toolchain=find, renders=len(os.sched_getaffinity(0)))
    else:
        from ckwatch.engine import bootstrap

        bootstrap.open_engine = partial(bootstrap.open_engine, find_toolchain=find)
    return command([*given, "--trust", "-C", f"{folder}/workspace"], **others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
