"""The processes below one, and the processor time that they took."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from ckwatch.system.processes import process_state

_PROC = Path("/proc")


def processor_s(*, own: bool = False) -> float:
    """Processor time, in s, of all that this process has waited for, and of what these had; with its `own`, too."""
    whose = (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)[: 1 + own]
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def below(root: int) -> dict[int, str]:
    """The processes that descend from `root`, without itself: their names by id."""
    found: dict[int, str] = {}
    for process in descendants(root):
        with suppress(OSError):  # it may have ended meanwhile
            found[process] = (_PROC / str(process) / "comm").read_text(errors="replace").strip()
    return found


def descendants(root: int) -> list[int]:
    """The processes that descend from `root`, without itself.

    Linux tells the children of each thread (`CONFIG_PROC_CHILDREN`, on everywhere); to read of all processes of the
    machine whose children they are takes several times as long.
    """
    found: list[int] = []
    queue = [root]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def is_busy(process: int) -> bool:
    """Return True for one that has work for a processor, or waits for its files: not asleep, and not ended."""
    return process_state(process) in {"R", "D"}


def _children(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in (_PROC / str(process) / "task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def end_tree(root: int) -> None:
    """Kill `root` and all below it, in whatever groups and sessions they are: ninja gives each command its own."""
    for process in (root, *descendants(root)):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
