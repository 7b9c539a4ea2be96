"""Who else computes on an AMD device: what the kernel driver (KFD) says of its processes.

A process that computes has a folder under `/sys/class/kfd/kfd/proc` with one file per device, `vram_GPU-ID`: the bytes
of device memory that it holds.
"""

from __future__ import annotations

import os
from pathlib import Path

KFD = Path("/sys/class/kfd/kfd")
PROCESSES = Path("/proc")


def others(pci: str, kfd: Path = KFD, processes: Path = PROCESSES, own: int | None = None) -> tuple[str, ...]:
    """`PID NAME` of each other process that has memory on the device at the PCI address; empty where that cannot be
    seen. `own`: this process (default).

    In a container the driver's process numbers may be those of the host: then the others are counted, and none is
    named.
    """
    own = os.getpid() if own is None else own
    gpu = _gpu_id(pci, kfd)
    if gpu is None:
        return ()
    holders = sorted(pid for pid in _numbers(kfd / "proc") if _number(kfd / "proc" / str(pid) / f"vram_{gpu}"))
    if own in _numbers(kfd / "proc"):
        return tuple(f"{pid} {_name(pid, processes)}" for pid in holders if pid != own)
    return ("a process outside of this container",) * (len(holders) - 1)


def _gpu_id(pci: str, kfd: Path) -> int | None:
    """KFD's number of the device. A node tells its address as domain and `bus << 8 | device << 3 | function`."""
    domain, bus, rest = pci.split(":")
    device, _, function = rest.partition(".")
    location = int(bus, 16) << 8 | int(device, 16) << 3 | int(function or "0", 16)
    for node in _numbers(kfd / "topology/nodes"):
        folder = kfd / "topology/nodes" / str(node)
        properties = _properties(folder / "properties")
        if properties.get("location_id") == location and properties.get("domain", 0) == int(domain, 16):
            return _number(folder / "gpu_id") or None
    return None


def _properties(path: Path) -> dict[str, int]:
    try:
        words = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}
    except OSError:
        return {}


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    except OSError:
        return []


def _name(pid: int, processes: Path) -> str:
    try:
        return (processes / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"
