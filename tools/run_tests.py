"""Run the tests that need no compiler, folder by folder, on as many cores as there are.

Each folder has a pytest of its own: what a test does to its process, its output or its log concerns nobody else, which
workers that report over a pipe of their own do not allow. Arguments are passed on to pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
CHOSEN = "not toolchain and not network and not editors"
NO_TESTS = 5
"""pytest's exit status where nothing was chosen."""

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
LONGEST_FIRST = ("lsp", "templates", "runtime", "bench", ".", "bench/runtimes", "cli", "serve", "client", "lsp/jinja")
"""Folders that take longest, so that none of them is left for the end."""


def groups() -> list[list[str]]:
    """What one pytest runs: a folder's own files."""
    tests = ROOT / "tests"
    folders = sorted({path.parent for path in tests.rglob("test_*.py")})
    ranked = {tests / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    folders.sort(key=lambda folder: ranked.get(folder, len(ranked)))
    return [[str(path.relative_to(ROOT)) for path in sorted(folder.glob("test_*.py"))] for folder in folders]


class Runs:
    """Takes groups until there are none, and prints what became of each."""

    def __init__(self, options: list[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self._options = options
        self._groups: SimpleQueue[list[str]] = SimpleQueue()
        self._printing = threading.Lock()
        for group in groups():
            self._groups.put(group)

    def work(self) -> None:
        """Be one of those who take groups."""
        while True:
            try:
                group = self._groups.get_nowait()
            except Empty:
                return
            self._run(group)

    def _run(self, group: list[str]) -> None:
        began_s = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-m", CHOSEN, *self._options, *group]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = ended.stdout.decode(errors="replace")
        last = next((line for line in reversed(text.splitlines()) if COUNT.search(line)), "")
        name = str(Path(group[0]).parent)
        with self._printing:
            for count, what in COUNT.findall(last):
                self.counts[what.removesuffix("s") if what.startswith("error") else what] += int(count)
            if ended.returncode not in (0, NO_TESTS):
                self.failed.append(name)
                print(text)
            print(f"{name}: {last.strip('= ') or 'nothing'} ({time.monotonic() - began_s:.0f} s)", flush=True)


def main() -> int:
    """The exit status: 1 when a test failed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # dozens of processes would each compile the same modules anew
    runs = Runs(sys.argv[1:])
    workers = [threading.Thread(target=runs.work) for _ in range(os.cpu_count() or 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(", ".join(f"{count} {what}" for what, count in runs.counts.items()))
    if runs.failed:
        print(f"failed: {', '.join(runs.failed)}")
    return 1 if runs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
