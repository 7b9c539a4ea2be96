"""`python tests/other_machine [--cores N] [--cache-mib N] -- COMMAND …`: run a command as on another machine.

A stand-in (see `sitecustomize.py`): only what is reported changes. 0 MiB: the machine does not tell its caches.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KIB_PER_MIB = 1024


def make_system(folder: Path, cores: int, cache_mib: float) -> None:
    """The part of sysfs that ckwatch reads: each processor a core of its own, the last-level cache shared by all."""
    everyone = f"0-{cores - 1}"
    for number in range(cores):
        files = {"topology/thread_siblings_list": str(number)}
        caches = [("1", "Data", "32K", str(number)), ("3", "Unified", f"{cache_mib * KIB_PER_MIB:.0f}K", everyone)]
        for index, cache in enumerate(caches if cache_mib else ()):
            names = ("level", "type", "size", "shared_cpu_list")
            files |= {f"cache/index{index}/{name}": text for name, text in zip(names, cache, strict=True)}
        for name, text in files.items():
            file = folder / f"cpu{number}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")


def main() -> int:
    """The command's exit status."""
    parser = argparse.ArgumentParser(description="Run a command with other processors and caches reported.")
    parser.add_argument("--cores", type=int, default=7)
    parser.add_argument("--cache-mib", type=float, default=260.0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_system(Path(folder), options.cores, options.cache_mib)
        environment = {
            **os.environ,
            "OTHER_MACHINE_CORES": str(options.cores),
            "OTHER_MACHINE_SYSTEM": folder,
            "OTHER_MACHINE_REAL_PROCESSORS": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")])
            ),
        }
        return subprocess.run(options.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
