"""Fifty clients that follow the events while all 5,000 units are built anew, over the real socket.

Goals: every client ends with the state that the daemon has, also one that reads slowly, after at most 1.15 times as
long as one client alone, which is the alternative in the same run; the daemon's memory stays bounded (under 1.5 times
what it takes with one). All followers are in one process, whose processor time is printed: where cores are few it is a
part of the ratio. Compilers are no processes here and nothing is forced onto the disk, so that it is the daemon's own
work that is measured.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.large_workspace import UNITS, LargeWorkspace, large_workspace, save
from benchmarks.quick_daemon import INSIDE, apart, daemon_of
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.client import Client, connect
from ckwatch.wire.state import Unit

MEASURED_CODE = DAEMON_CODE

FOLLOWERS = 50
SLOW_S = 0.02
"""Seconds that the slow client waits after each line."""

LIMIT_S = 550.0


def state_of(unit: Unit) -> tuple[object, ...]:
    """The part of a unit that all clients must agree on."""
    return unit.phase, unit.outcome, unit.key, unit.generation


async def follow(root: Path, final: dict[str, tuple[object, ...]], done: anyio.Event, pause_s: float) -> None:
    """Be a client that follows until what it has seen is `final`, which is filled in when the daemon is at rest."""
    async with connect(root, start=False) as client:
        await _follow(client, final, done, pause_s)


async def _follow(client: Client, final: dict[str, tuple[object, ...]], done: anyio.Event, pause_s: float) -> None:
    seen: dict[str, tuple[object, ...]] = {}
    async for change in client.events():
        kind, _, name = change.topic.partition("/")
        if kind == "unit" and change.state is None:
            seen.pop(name, None)
        elif isinstance(change.state, Unit):
            seen[name] = state_of(change.state)
        if pause_s and not done.is_set():
            await anyio.sleep(pause_s)
        if done.is_set() and seen == final:
            return


def memory_mb(process: int) -> float:
    """Resident memory of the daemon now."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def rebuild(large: LargeWorkspace, followers: int) -> tuple[float, float]:
    """Build all units anew under the eyes of so many; seconds until the last of them knows, and the peak in MB."""
    async with daemon_of(large.root) as process, connect(large.root, start=False) as client:
        await client.build()
        final: dict[str, tuple[object, ...]] = {}
        done = anyio.Event()
        peak = memory_mb(process)
        began = time.monotonic()
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as followed:
                for number in range(followers):
                    followed.start_soon(follow, large.root, final, done, SLOW_S if number == 1 else 0.0)
                save(large.common, f"constexpr int shared = {time.time_ns() % 1_000_000_000};\n")
                async with anyio.create_task_group() as building:

                    async def watch_memory() -> None:
                        nonlocal peak
                        while True:
                            peak = max(peak, memory_mb(process))
                            await anyio.sleep(0.1)

                    building.start_soon(watch_memory)
                    result = await client.build()
                    assert len(result.units) == UNITS
                    assert result.ok
                    building.cancel_scope.cancel()
                final |= {unit.id: state_of(unit) for unit in await client.units()}
                done.set()
                # A follower that has seen everything before looks once more.
                kernel = large.kernel_file(0)
                text = kernel.read_text()
                save(kernel, f"{text}\n")
        save(kernel, text)
        return time.monotonic() - began, max(peak, memory_mb(process))


def measure() -> list[Row]:
    """Two rows."""
    large = large_workspace()
    found: dict[int, list[tuple[float, float]]] = {1: [], FOLLOWERS: []}
    with apart(**{INSIDE: "1"}):
        for number in range(asked_runs()):
            for followers in sorted(found, reverse=number % 2 == 1):
                cpu_s = time.process_time()
                found[followers].append(anyio.run(rebuild, large, followers))
                seconds, peak_mb = found[followers][-1]
                own_s = time.process_time() - cpu_s
                print(f"followers: {followers}, {seconds:.1f} s; their processor time {own_s:.1f} s; {peak_mb:.0f} MB")
    (one_s, one_mb), (many_s, many_mb) = (zip(*runs, strict=True) for runs in found.values())
    return [
        row(
            f"{FOLLOWERS} followers, one slow, while {UNITS} units are rebuilt: until all know",
            [*many_s],
            [*one_s],
            reference_name="one follower",
            unit="s",
            goal="at most 1.15 ×; all see every final state (asserted)",
            met=lambda _, ratio: ratio <= 1.15,
        ),
        row(
            f"peak memory of the daemon with {FOLLOWERS} followers",
            [*many_mb],
            [*one_mb],
            reference_name="one follower",
            unit="MB",
            goal="under 1.5 ×",
            met=lambda _mb, ratio: ratio < 1.5,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
