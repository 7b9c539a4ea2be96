"""Cost of a daemon while nothing happens and one client follows it: processor time, and memory.

Goals: under 0.4 % of a core, at most 90 MB with 5,000 units, 100 MB else. Measured are a workspace of 5,000 units and
the GEMM example, with the processes that watch files and render. The alternative is a bare process that only watches
the same folder with watchfiles.awatch, at a step of 20 ms and at its own of 50.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.large_workspace import UNITS, large_workspace
from benchmarks.quick_daemon import PROGRAM, apart, daemon_of
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.client import Client, connect
from ckwatch.client.launch import DAEMON
from ckwatch.engine.bootstrap import REST_S

MEASURED_CODE = DAEMON_CODE

IDLE_S = 30.0
CALM_S = 3.0
"""So long nothing must have happened before."""

EXAMPLE = Path(__file__).parent.parent / "examples/gemm"
MB = 1e6

_SCHEDULED = 2
"""Of the clocks that a process has (clock_getcpuclockid(3))."""

BARE = """
import asyncio, sys, watchfiles
async def main():
    async for _ in watchfiles.awatch(sys.argv[1], step=int(sys.argv[2])):
        pass
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Percent of a core that processes took, and their memory, in MB: resident, and their share of it."""

    percent: float
    resident_mb: float
    share_mb: float


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def ran_s(pids: list[int]) -> float:
    """Processor time of processes, by the scheduler's count in nanoseconds, threads that have ended included."""
    return sum(time.clock_gettime((~pid << 3) | _SCHEDULED) for pid in pids)


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident, and with what is shared divided among those who share it."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, size = line.partition(":")
        sizes[name] = int(size.split()[0]) * 1024 / MB
    return sizes["Rss"], sizes["Pss"]


async def cost_of(pid: int) -> tuple[Cost, Cost]:
    """Of the process while it is idle, and of its descendants."""
    pids = family(pid)
    began_s, before_s = time.monotonic(), (ran_s(pids[:1]), ran_s(pids[1:]))
    await anyio.sleep(IDLE_S)
    passed_s, after_s = time.monotonic() - began_s, (ran_s(pids[:1]), ran_s(pids[1:]))
    shares = [(after - before) / passed_s * 100 for before, after in zip(before_s, after_s, strict=True)]
    memory = [memory_mb(pid) for pid in pids]
    others = Cost(shares[1], sum(resident for resident, _ in memory[1:]), sum(share for _, share in memory[1:]))
    return Cost(shares[0], *memory[0]), others


async def follow(client: Client, seen: list[float]) -> None:
    """Follow, and note when something changed."""
    async with client.events() as changes:
        async for _ in changes:
            seen[:] = [time.monotonic()]


async def daemon_cost(root: Path, program: tuple[str, ...]) -> tuple[Cost, Cost]:
    """Of a daemon that has looked at everything and has one follower."""
    async with daemon_of(root, program) as pid, connect(root, start=False) as client:
        began_s = time.monotonic()
        seen = [began_s]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, client, seen)
            while (await client.status()).busy or time.monotonic() - seen[0] < CALM_S:
                await anyio.sleep(0.5)
            # So that something has been rendered, and the process for that is there.
            await client.rendered((await client.units())[0])
            print(f"settled after {time.monotonic() - began_s:.0f} s")
            await anyio.sleep(REST_S + CALM_S)  # by then it has gone to rest, and the processes that it ends have ended
            found = await cost_of(pid)
            tasks.cancel_scope.cancel()
    return found


async def bare_cost(root: Path, step_ms: int) -> Cost:
    """Of watchfiles in a process that does nothing else."""
    with subprocess.Popen([sys.executable, "-c", BARE, str(root), str(step_ms)]) as process:
        await anyio.sleep(CALM_S)
        cost, _ = await cost_of(process.pid)
        process.terminate()
    return cost


async def compare(name: str, root: Path, program: tuple[str, ...], most_mb: float) -> list[Row]:
    """Rows for one workspace; `most_mb` is the goal for memory."""
    runs = [await once(name, root, program) for _ in range(asked_runs())]
    own_pace = statistics.median(bare[50].percent for _, _, bare in runs)
    return [
        row(
            f"idle daemon, {name}: processor",
            [daemon.percent + others.percent for daemon, others, _ in runs],
            [bare[20].percent for _, _, bare in runs],
            reference_name=f"watchfiles alone, step 20 ms; {own_pace:.2g} % at its own 50 ms",
            unit="% of a core",
            goal="under 0.4 %",
            met=lambda percent, _: percent < 0.4,
        ),
        row(
            f"idle daemon, {name}: memory",
            [daemon.resident_mb for daemon, _, _ in runs],
            [bare[20].resident_mb for _, _, bare in runs],
            reference_name="watchfiles alone",
            unit="MB",
            goal=f"at most {most_mb:g} MB",
            met=lambda mb, _: mb <= most_mb,
        ),
    ]


async def once(name: str, root: Path, program: tuple[str, ...]) -> tuple[Cost, Cost, dict[int, Cost]]:
    """Of the daemon, of the processes that it has started, and of watchfiles alone by its step."""
    daemon, others = await daemon_cost(root, program)
    bare: dict[int, Cost] = {}

    async def measure_bare(step_ms: int) -> None:
        bare[step_ms] = await bare_cost(root, step_ms)

    async with anyio.create_task_group() as tasks:
        for step_ms in (20, 50):
            tasks.start_soon(measure_bare, step_ms)
    for what, cost in (
        ("daemon", daemon),
        ("its processes", others),
        *((f"watchfiles, step {step_ms} ms", bare[step_ms]) for step_ms in sorted(bare)),
    ):
        print(
            f"{name}: {what:<24} {cost.percent:6.3f} %   {cost.resident_mb:6.1f} MB resident, share {cost.share_mb:.1f}"
        )
    return daemon, others, bare


def measure() -> list[Row]:
    """Four rows."""
    large = large_workspace()
    rows = []
    with apart():
        rows += anyio.run(compare, f"{UNITS} units", large.root, PROGRAM, 90)
    with apart(), tempfile.TemporaryDirectory() as folder:
        example = Path(folder).resolve() / "gemm"
        shutil.copytree(EXAMPLE, example)
        rows += anyio.run(compare, "the GEMM example", example, DAEMON, 100)
    return rows


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
