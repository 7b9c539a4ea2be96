"""Which benchmark programs run, and how often: the command lines of `python -m benchmarks` and of single programs."""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.reporting import PROVEN, Row, show, write, write_page
from ckwatch.model.errors import CkwatchError

RUNS = "CKWATCH_BENCHMARK_RUNS"
"""How many paired runs; fewer than `PROVEN` only try a program out."""


def asked_runs(usual: int = PROVEN) -> int:
    """How many paired runs the caller wants; `usual` is what the program does otherwise."""
    return int(os.environ.get(RUNS, usual))


def report(program: str, rows: list[Row]) -> None:
    """Print, and keep it unless there were too few runs of anything."""
    show(rows)
    fewest = min((entry.runs for entry in rows), default=0)
    if fewest >= PROVEN:
        write(program, rows)
    else:
        print(f"{fewest} of {PROVEN} runs: not written to the results")


def arguments(description: str | None, programs: Sequence[str] = (), words: Sequence[str] | None = None) -> list[str]:
    """Read the command line, or `words`: the chosen programs, none for all. `--runs` goes into the environment."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if programs:
        parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"all unless named: {', '.join(programs)}")
        parser.add_argument("--page", action="store_true", help="measure nothing: write the page of the results anew")
    parser.add_argument("--runs", type=int, help=f"paired runs; {PROVEN} or more unless given")
    options = parser.parse_args(words)
    if getattr(options, "page", False):
        write_page()
        sys.exit()
    chosen: list[str] = getattr(options, "programs", [])
    unknown = [name for name in chosen if name not in programs]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(programs)}")
    if options.runs is not None:
        if options.runs < 1:
            parser.error("--runs takes a number from 1")
        os.environ[RUNS] = str(options.runs)
    return chosen


def begin() -> None:
    """Say how busy the machine is, and let SIGTERM, which `timeout` sends, end the program as Ctrl-C does: daemons and
    folders are cleared away.

    Python writes its bytecode as it does for users; without it every start would compile ckwatch itself.
    """
    print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores", flush=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def alone(measure: Callable[[], list[Row]], description: str | None) -> int:
    """Be the command line of one program; the exit status."""
    arguments(description)
    begin()
    try:
        report(Path(inspect.getfile(measure)).stem, measure())
    except CkwatchError as error:
        print(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    return 0
