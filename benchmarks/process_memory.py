"""Memory of all processes below one, sampled: what a build takes at its worst moment.

Pages that several processes map are counted once, each process with its share (PSS), or the libraries of LLVM would
count once for each compiler that runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STEP_S = 0.05
_PROC = Path("/proc")


def below(root: int) -> dict[int, str]:
    """The processes that descend from `root`, without itself: their names by id."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        process = int(entry.name)
        names[process] = text[text.index("(") + 1 : text.rindex(")")]
        parents.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(process)
    found: dict[int, str] = {}
    queue = [root]
    while queue:
        for child in parents.get(queue.pop(), ()):
            found[child] = names[child]
            queue.append(child)
    return found


def names_below(root: int) -> list[str]:
    """The names of the processes that descend from `root`."""
    return list(below(root).values())


def memory_bytes(process: int) -> int:
    """Its share of the memory now; 0 when it has ended."""
    try:
        for line in (_PROC / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Peak:
    """The largest sum so far. `busy_s`: processor time that sampling took, `samples` how many there were."""

    def __init__(self) -> None:
        self.bytes = 0
        self.samples = 0
        self.busy_s = 0.0

    @property
    def megabytes(self) -> float:
        """In MB."""
        return self.bytes / 1e6


@contextmanager
def peak_below(root: int) -> Iterator[Peak]:
    """Sample the memory of all that descends from `root` every 50 ms while the body runs."""
    peak = Peak()
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(STEP_S):
            begun_s = time.thread_time()
            peak.bytes = max(peak.bytes, sum(map(memory_bytes, below(root))))
            peak.samples += 1
            peak.busy_s += time.thread_time() - begun_s

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
