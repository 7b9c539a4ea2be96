"""Processes that tests have left behind, such as a daemon that was only starting when its test stopped it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def end_left_processes(folder: Path) -> None:
    """Kill all processes whose environment names a file in `folder`, but this one."""
    for process in _left_processes(f"={folder}/".encode()):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _left_processes(named: bytes) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            # of a dead process that nobody waited for it is empty
            if int(entry.name) != os.getpid() and named in (entry / "environ").read_bytes():
                yield int(entry.name)
