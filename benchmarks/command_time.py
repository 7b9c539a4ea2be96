"""Processor time of commands: of one's own process where a daemon runs, of all its processes where none does.

A workspace of two instances of the GEMM example, built and verified before, whose daemon is at rest: what it does for a
command is not the command's. The alternative is an interpreter that imports httpx, the least with which a Python
program asks a server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.gemm_example import Example, build, example_daemon, tile, until_idle
from benchmarks.process_tree import processor_s
from benchmarks.rebuilding import CKWATCH
from benchmarks.reporting import DAEMON_CODE, Row, row

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/cli")

ASKING = ("list", "status", "build UNIT", "check UNIT", "verify UNIT", "inspect UNIT", "explain UNIT", "render UNIT")
WITHOUT_DAEMON = "check UNIT UNIT --no-daemon"
ASKING_LIMIT_S, WHOLE_LIMIT_S = 0.2, 1.0
IMPORT = "import httpx"


def measured_s(program: Sequence[str], example: Example) -> float:
    """Processor time, in s, of a process in the workspace and of those that it started and waited for."""
    begun = processor_s()
    subprocess.run(program, cwd=example.root, check=True, stdout=subprocess.DEVNULL)
    return processor_s() - begun


def compared(command: str, example: Example, most_s: float) -> Row:
    """The command and the interpreter by turns."""
    units = iter(example.units)
    program = [CKWATCH, *(next(units) if word == "UNIT" else word for word in command.split())]
    ours, reference = list[float](), list[float]()
    for _ in range(asked_runs()):
        ours.append(measured_s(program, example))
        reference.append(measured_s([sys.executable, "-c", IMPORT], example))
    return row(
        f"processor time of `ckwatch {command}`",
        ours,
        reference,
        reference_name=f"`python -c '{IMPORT}'`",
        unit="s",
        goal=f"at most {most_s} s",
        met=lambda seconds, _: seconds <= most_s,
    )


async def commands() -> list[Row]:
    """A row for each command."""
    async with example_daemon({"v1": tile("v1"), "v3": tile("v3")}) as (example, client):
        await build(example, client)
        await client.verify(example.units[0])
        await until_idle(client)
        rows = [compared(command, example, ASKING_LIMIT_S) for command in ASKING]
        return [*rows, compared(WITHOUT_DAEMON, example, WHOLE_LIMIT_S)]


def measure() -> list[Row]:
    """Nine rows."""
    return anyio.run(commands)


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
