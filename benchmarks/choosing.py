"""Which benchmark programs run, and how often: the command lines of `python -m benchmarks` and of single programs."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Sequence

from benchmarks.reporting import Row, show, write
from ckwatch.model.errors import CkwatchError

RUNS = "CKWATCH_BENCHMARK_RUNS"
"""How many paired runs; fewer than `PROVEN` only try a program out."""

PROVEN = 5
"""Paired runs below which nothing is written to the results."""


def asked_runs() -> int:
    """How many paired runs the caller wants."""
    return int(os.environ.get(RUNS, PROVEN))


def report(rows: Sequence[Row]) -> None:
    """Print, and keep it unless there were too few runs."""
    if asked_runs() >= PROVEN:
        write(list(rows))
    else:
        show(rows)
        print(f"{asked_runs()} of {PROVEN} runs: not written to the results")


def arguments(description: str | None, programs: Sequence[str] = ()) -> list[str]:
    """Read the command line: the chosen programs, none for all. `--runs` goes into the environment."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if programs:
        parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"all unless named: {', '.join(programs)}")
    parser.add_argument("--runs", type=int, help=f"paired runs where a program is asked; {PROVEN} otherwise")
    options = parser.parse_args()
    chosen: list[str] = getattr(options, "programs", [])
    unknown = [name for name in chosen if name not in programs]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(programs)}")
    if options.runs is not None:
        if options.runs < 1:
            parser.error("--runs takes a number from 1")
        os.environ[RUNS] = str(options.runs)
    return chosen


def end_in_order() -> None:
    """Let SIGTERM, which `timeout` sends, end the program as Ctrl-C does: daemons and folders are cleared away."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))


def alone(measure: Callable[[], list[Row]], description: str | None) -> int:
    """Be the command line of one program; the exit status."""
    arguments(description)
    end_in_order()
    try:
        report(measure())
    except CkwatchError as error:
        print(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    return 0
