"""From a save to the batch that reports it, and what waiting for one costs, against `watchfiles.awatch` as it is.

The watcher asks watchfiles in processes of its own, and compares what that reports; the alternative is watchfiles in
this process with a step of 20 ms, which is the quiet that the watcher waits for. One after the other is measured, on a
workspace of 1,000 folders with 1,200 followed headers in 200 more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import watchfiles
from watchfiles._rust_notify import RustNotify

from benchmarks.choosing import alone, asked_runs
from benchmarks.idle import family, ran_s
from benchmarks.reporting import Row, row
from ckwatch.engine.watch import Batch, Watcher
from ckwatch.server.daemon import SWITCH_S

MEASURED_CODE = ("daemon/ckwatch/engine/watch",)

SAVES = 10
MANY = 10_000
IDLE_S = 20
STEP_MS = 20

WRITE_MANY = """
import sys, time
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}.j2", "w") as file:
        file.write("1")
"""


class Places:
    """The files to watch."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.headers = folder / "workspace", list[str]()
        for number in range(1000):
            (self.workspace / f"t{number}").mkdir(parents=True)
        for number in range(200):
            (folder / f"include/{number}").mkdir(parents=True)
            for name in "abcdef":
                path = folder / f"include/{number}/{name}.hpp"
                path.write_text("")
                self.headers.append(str(path))

    @property
    def folders(self) -> list[str]:
        """The folders of the headers."""
        return sorted({str(Path(path).parent) for path in self.headers})


class Arrivals:
    """Paths as they are reported, whoever reports them."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.batches = 0
        self._news = anyio.Event()

    def add(self, paths: set[str] | frozenset[str]) -> None:
        """More of them."""
        self.paths |= paths
        self.batches += 1
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, met: Callable[[set[str]], bool]) -> None:
        """Wait for the condition."""
        with anyio.fail_after(60):
            while not met(self.paths):
                await self._news.wait()


@asynccontextmanager
async def ours(places: Places) -> AsyncIterator[Arrivals]:
    """The watcher of ckwatch."""
    arrivals = Arrivals()

    async def deliver(batch: Batch) -> None:
        arrivals.add(batch.paths)

    watcher = Watcher(deliver, lambda *_: None, step_ms=STEP_MS)
    watcher.follow([str(places.workspace)], places.headers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        await watcher.settled()
        yield arrivals
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def theirs(places: Places) -> AsyncIterator[Arrivals]:
    """Two instances of watchfiles: one that recurses, one for the folders of the headers."""
    arrivals = Arrivals()

    async def watch(paths: list[str], *, recursive: bool) -> None:
        async for changes in watchfiles.awatch(*paths, recursive=recursive, step=STEP_MS, watch_filter=None):
            arrivals.add({path for _, path in changes})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(watch, [str(places.workspace)], recursive=True))
        tasks.start_soon(partial(watch, places.folders, recursive=False))
        await anyio.sleep(1)
        yield arrivals
        tasks.cancel_scope.cancel()


async def latencies_ms(places: Places, arrivals: Arrivals) -> list[float]:
    """From just before a save until it is reported, in ms; saves at odd times."""
    times: list[float] = []
    path = places.workspace / "t7/gemm.hip.j2"
    for number in range(SAVES):
        await anyio.sleep(0.05 + number % 9 * 0.003)
        arrivals.paths.clear()
        began_s = time.perf_counter()
        path.write_text(str(number))
        await arrivals.until(lambda paths: str(path) in paths)
        times.append((time.perf_counter() - began_s) * 1e3)
    return times


async def idle_percent(_: Places, __: Arrivals) -> list[float]:
    """Processor time of this process and those that it has started while nothing happens, in percent of one core."""
    await anyio.sleep(1)
    processes = family(os.getpid())
    began_s = ran_s(processes)
    await anyio.sleep(IDLE_S)
    return [(ran_s(processes) - began_s) / IDLE_S * 100]


async def many_ms(places: Places, arrivals: Arrivals) -> list[float]:
    """From the last of many files written by another process until all are reported, in ms."""
    folder = places.workspace / "t1"
    arrivals.batches = 0
    arrivals.paths.clear()
    await anyio.run_process([sys.executable, "-c", WRITE_MANY, str(folder), str(MANY)], stderr=subprocess.STDOUT)
    began_s = time.perf_counter()
    await arrivals.until(lambda paths: sum(path.endswith(".j2") for path in paths) >= MANY)
    took_ms = (time.perf_counter() - began_s) * 1e3
    print(f"{MANY} files: {arrivals.batches} batch(es), {took_ms:.0f} ms")
    for number in range(MANY):
        (folder / f"{number}.j2").unlink()
    return [took_ms]


async def longest_pause_ms(act: Callable[[], Awaitable[object]]) -> float:
    """The longest time that the event loop did not get to run while something was done, in ms."""
    pauses: list[float] = []

    async def tick() -> None:
        last_s = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now_s = time.perf_counter()
            pauses.append(now_s - last_s - 0.001)
            last_s = now_s

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await anyio.sleep(0.05)
        pauses.clear()
        await act()
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    return max(pauses) * 1e3


async def start_ours(places: Places) -> None:
    """Watch everything."""
    async with ours(places):
        pass


async def start_theirs(places: Places) -> None:
    """Watch everything, in a thread."""
    options = (False, False, 300, True, True)
    notify = await anyio.to_thread.run_sync(lambda: RustNotify([str(places.workspace), *places.folders], *options))
    notify.close()


async def compare(places: Places) -> list[Row]:
    """All rows."""
    figures: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(asked_runs()):
        for side, watching in enumerate((ours, theirs)):
            for name, measure in (("latency", latencies_ms), ("idle", idle_percent), ("many", many_ms)):
                async with watching(places) as arrivals:
                    figures.setdefault(name, ([], []))[side].extend(await measure(places, arrivals))
        for side, start in enumerate((start_ours, start_theirs)):
            pause_ms = await longest_pause_ms(partial(start, places))
            figures.setdefault("pause", ([], []))[side].append(pause_ms)
    ordered = sorted(figures["latency"][0])
    middle, ninth = ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]
    print(f"save to batch: p50 {middle:.1f}, p90 {ninth:.1f}, max {ordered[-1]:.1f} ms")
    name = f"watchfiles, step {STEP_MS} ms"
    return [
        row(
            "save to batch",
            *figures["latency"],
            reference_name=name,
            unit="ms",
            goal="under 70 ms",
            met=lambda ms, _: ms < 70,
        ),
        row(
            "watching while nothing happens",
            *figures["idle"],
            reference_name=name,
            unit="% of a core",
            goal="under 0.35 %, 0.4 % for the daemon",
            met=lambda percent, _: percent < 0.35,
        ),
        row(
            f"{MANY} files written to all reported",
            *figures["many"],
            reference_name=name,
            unit="ms",
            goal="under 2 s",
            met=lambda ms, _: ms < 2000,
        ),
        row(
            "event loop blocked when 1,200 folders are followed",
            *figures["pause"],
            reference_name="RustNotify in a thread",
            unit="ms",
            goal="under 20 ms",
            met=lambda ms, _: ms < 20,
        ),
    ]


def measure() -> list[Row]:
    """Four rows; takes six minutes."""
    sys.setswitchinterval(SWITCH_S)  # as in a daemon's own process
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(compare, Places(Path(folder).resolve()))


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
