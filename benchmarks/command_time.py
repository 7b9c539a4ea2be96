"""Processor time of commands: of one's own process where a daemon runs, of all its processes where none does.

Two instances of the GEMM example, built once before. What the daemon does for a command is not the command's. The
alternative is an interpreter that imports httpx, the least with which a Python program asks a server.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.choosing import alone, asked_runs
from benchmarks.rebuilding import EIGHT, command, environment, example
from benchmarks.reporting import DAEMON_CODE, Row, row

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/cli")

UNITS = EIGHT[:2]
IMPORTED = "httpx"

ASKING = {name: (name,) for name in ("list", "status")} | {
    f"{name} UNIT": (name, UNITS[0]) for name in ("build", "check", "verify", "inspect", "explain", "render")
}
"""Commands that ask a daemon which has built and verified the unit."""

ASKING_LIMIT_S, WHOLE_LIMIT_S = 0.2, 1.0


def processor_s(run: Callable[[], object]) -> float:
    """Processor time, in s, of the processes that have ended in `run`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compared(name: str, workspace: Path, arguments: Sequence[str], most_s: float) -> Row:
    """The command and the interpreter by turns."""
    bare = [sys.executable, "-c", f"import {IMPORTED}"]
    command(workspace, *arguments)
    ours, reference = list[float](), list[float]()
    for _ in range(asked_runs()):
        ours.append(processor_s(lambda: command(workspace, *arguments)))
        reference.append(processor_s(lambda: subprocess.run(bare, check=True, env=environment())))
    return row(
        f"processor time of `ckwatch {name}`",
        ours,
        reference,
        reference_name=f"`python -c 'import {IMPORTED}'`",
        unit="s",
        goal=f"at most {most_s} s",
        met=lambda seconds, _: seconds <= most_s,
    )


def measure() -> list[Row]:
    """A row for each command."""
    with example() as workspace:
        command(workspace, "build", *UNITS, "--trust")
        rows = [compared(name, workspace, arguments, ASKING_LIMIT_S) for name, arguments in ASKING.items()]
        whole = ("check", *UNITS, "--no-daemon")
        return [*rows, compared("check UNIT UNIT --no-daemon", workspace, whole, WHOLE_LIMIT_S)]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
