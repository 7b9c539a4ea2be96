"""Audit AITER's tuned tables, and read the same rows with Python's csv module alone and as `import timings` does.

    python -m benchmarks.audit CHECKOUT

CHECKOUT is one of AITER, whose tables and lists of kernels are read. Each line has the time of one process, and rows
per second of its processor time; the last one the peak of memory and the load of the machine.
"""

from __future__ import annotations

import csv
import io
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.bench.imports.aiter_audit import TableAudit
from ckwatch.bench.imports.aiter_registry import Registry
from ckwatch.bench.imports.records import TimingsFileError
from ckwatch.cli.audit import AiterCheckout


def main(words: list[str]) -> int:
    """Print the speed of the three."""
    if len(words) != 1 or not (Path(words[0]) / "csrc").is_dir():
        print(__doc__)
        return 2
    root = Path(words[0]).resolve()
    paths = sorted((root / "aiter/configs").rglob("*.csv"))
    tables = {path: path.read_bytes() for path in paths if "untuned" not in path.name}
    rows = _timed("csv.reader", lambda: sum(len(_rows(content)) for content in tables.values()))
    _timed("import timings", lambda: sum(_imported(content) for content in tables.values()))
    audit, registry = TableAudit(), Registry(AiterCheckout(root))
    _timed("audit", lambda: sum(audit.table(str(path), content, registry).rows for path, content in tables.items()))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(tables)} tables, {rows:,} rows, peak memory {peak_mib:.0f} MiB, load {os.getloadavg()[0]:.1f}")
    return 0


def _rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]


def _imported(content: bytes) -> int:
    try:
        read = read_aiter(content.decode())
    except TimingsFileError:
        return 0
    return len(read.records) + len(read.left_out)


def _timed(name: str, run: Callable[[], int]) -> int:
    wall, processor = time.perf_counter(), time.process_time()
    rows = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    times = f"{wall:7.2f} s wall  {processor:6.2f} s processor  {rows / processor:>10,.0f} rows/s"
    print(f"{name:<15}{rows:>8,} rows  {times}")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
