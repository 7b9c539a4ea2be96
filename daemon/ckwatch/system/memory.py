"""Memory that compilers may use (free, used by children, limited by a cgroup), and what this process uses."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PARENT = 1
"""The field of /proc/PID/stat after the name (proc(5): ppid is field 4)."""
_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty): +(\d+) kB$", re.MULTILINE)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def capacity_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Free memory plus what running compilers use; None when that cannot be read."""
    free = available_bytes(proc, cgroup)
    return None if free is None else free + used_by_children_bytes(os.getpid(), proc)


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory that is available without swapping, by the kernel's estimate, within the limit of the cgroup."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    with suppress(OSError, ValueError):
        limit = int((cgroup / "memory.max").read_text())  # "max" is not a number: no limit
        free = min(free, limit - int((cgroup / "memory.current").read_text()))
    return max(free, 0)


def used_by_children_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Memory of all descendants of `pid` that no other process shares, so that it is free when they end."""
    children: dict[int, list[int]] = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    total, pending = 0, list(children.get(pid, ()))
    while pending:
        child = pending.pop()
        with suppress(OSError):
            total += sum(map(int, _PRIVATE.findall((proc / str(child) / "smaps_rollup").read_text()))) * 1024
        pending += children.get(child, ())
    return total
