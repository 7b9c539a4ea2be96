"""Compare two checkouts: `python -m benchmarks.against ../before machine_step idle --runs 5`.

Every program runs in both by turns, each time with the Python of that checkout's `.venv`, so that what else the machine
does hits both. A row is the median of what ckwatch took here and there, their ratio, and both ranges. `make` sets a
checkout up; nothing is written to the results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.choosing import RUNS, begin
from benchmarks.reporting import REPOSITORY

ONCE = """
import dataclasses, importlib, json, sys
from benchmarks.choosing import begin
from benchmarks.quick_daemon import own_trust
begin()
try:
    with own_trust():
        rows = importlib.import_module(f"benchmarks.{sys.argv[1]}").measure()
except KeyboardInterrupt:
    sys.exit(130)
print("\\n" + json.dumps([dataclasses.asdict(row) for row in rows]))
"""
"""Runs in either checkout: it asks only for what every version has."""

OTHER_FIGURES = re.compile(r" \([^()]*\d[^()]*\)$")
"""Other figures of the run, which end some names."""

Measured = dict[str, tuple[float, str]]
"""The figure of ckwatch, and its unit, by the row's name."""


def measured(checkout: Path, program: str, each: int) -> Measured:
    """Medians of `each` runs of a program in a checkout.

    Raises CalledProcessError where it fails; its error stream is the user's.
    """
    command = [f"{checkout}/.venv/bin/python", "-c", ONCE, program]
    environment = os.environ | {RUNS: str(each)}
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            process.terminate()  # it ends its daemons
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command[:1])
    return {
        OTHER_FIGURES.sub("", row["name"]): (row["ours"], row["unit"]) for row in json.loads(printed.splitlines()[-1])
    }


def compared(program: str, before: Path, runs: int, each: int) -> list[tuple[str, ...]]:
    """Lines of the table: the row's name, both medians, their ratio, both ranges."""
    takes: dict[Path, dict[str, list[float]]] = {before: defaultdict(list), REPOSITORY: defaultdict(list)}
    units: dict[str, str] = {}
    for number in range(runs):
        for checkout in (before, REPOSITORY) if number % 2 == 0 else (REPOSITORY, before):
            for name, (taken, unit) in measured(checkout, program, each).items():
                takes[checkout][name].append(taken)
                units[name] = unit
    old, new = takes[before], takes[REPOSITORY]
    lines = []
    for name, unit in units.items():
        if name in old and name in new:
            was, now = statistics.median(old[name]), statistics.median(new[name])
            ranges = (f"{min(values):.4g} … {max(values):.4g}" for values in (old[name], new[name]))
            lines.append((name, f"{was:.4g} {unit}", f"{now:.4g} {unit}", f"{now / was:.2f}" if was else "–", *ranges))
        else:
            lines.append((name, *(f"{len(each[name])} runs" for each in (old, new)), "only one has it", "", ""))
    return lines


def main() -> int:
    """The exit status: 1 when a program failed in one of the checkouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout, with a .venv of its own")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--runs", type=int, default=5, help="turns of each program in each checkout")
    parser.add_argument(
        "--each", type=int, default=1, help="runs in a turn, one process; 100 for the steps of the core"
    )
    options = parser.parse_args()
    if not (options.before / ".venv/bin/python").is_file():
        parser.error(f"{options.before}: no .venv/bin/python; run `make fast-test` there")
    begin()
    failed = []
    for program in options.programs:
        table = Table("row", "before", "now", "ratio", "range before", "range now", title=program)
        try:
            for line in compared(program, options.before.resolve(), max(options.runs, 1), max(options.each, 1)):
                table.add_row(*line)
        except subprocess.CalledProcessError as error:
            failed.append(program)
            print(f"{program}: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted")
            return 130
        Console(width=160).print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
