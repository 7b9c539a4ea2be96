"""Memory of all processes below one, sampled: what a build takes at its worst moment.

Pages that several processes map are counted once, each process with its share (PSS), or the libraries of LLVM would
count once for each compiler that runs. To tell that, the kernel walks all pages of a process, which at every sample
would take a third of a core. So it is asked when resident memory, which is cheap to know, has reached a new height, and
twice a second: where forks share most pages, shares are at their highest at another moment than resident memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.process_tree import descendants

STEP_S = 0.05
RISE = 1.02
"""A new height is so many times the last one for which shares were asked."""

AGAIN_S = 0.5

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(process: int) -> int:
    """Its resident memory now, shared pages in full; 0 when it has ended."""
    with suppress(OSError):
        return int((_PROC / str(process) / "statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def share_bytes(process: int) -> int:
    """Its share of the memory now; 0 when it has ended."""
    with suppress(OSError):
        for line in (_PROC / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
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
        height, asked_s = 0, 0.0
        while not ended.wait(STEP_S):
            begun_s = time.thread_time()
            processes = descendants(root)
            resident = sum(map(resident_bytes, processes))
            now_s = time.monotonic()
            if resident > height * RISE or now_s > asked_s + AGAIN_S:
                height, asked_s = max(height, resident), now_s
                peak.bytes = max(peak.bytes, sum(map(share_bytes, processes)))
            peak.samples += 1
            peak.busy_s += time.thread_time() - begun_s

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
