"""`ckwatch build KERNEL --no-daemon` with the compiler that is done at once.

`FOLDER KERNEL`: FOLDER is a LargeWorkspace's. A process of its own, as somebody without a daemon would start it.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.large_workspace import LargeWorkspace
from ckwatch.cli import main as command
from ckwatch.engine import bootstrap


def main(arguments: list[str]) -> int:
    """Build the kernel; the exit status."""
    folder, kernel = arguments
    large = LargeWorkspace(Path(folder))
    bootstrap.open_engine = partial(
        bootstrap.open_engine, find_toolchain=large.compiler.find_toolchain, history=large.history
    )
    return command(["build", "--no-daemon", "--trust", "--workspace", str(large.root), kernel])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
