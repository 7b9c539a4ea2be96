"""Memory that compilers may use (free, used by children, limited by a cgroup), and what this process uses."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PARENT, _RESIDENT_PAGES = 1, 21
"""Fields of /proc/PID/stat after the name (proc(5): ppid is field 4, rss field 24)."""


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
    """Resident memory of all descendants of `pid`."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
            resident[int(entry.name)] = int(fields[_RESIDENT_PAGES]) * PAGE_BYTES
    total, pending = 0, list(children.get(pid, ()))
    while pending:
        child = pending.pop()
        total += resident.get(child, 0)
        pending += children.get(child, ())
    return total
