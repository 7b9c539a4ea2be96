"""Compiles on workers of a farm, against the same compilers without one, and what a farm costs who looks at an edit.

Goals: N workers compile at least 0.9 N times as much as the compiler run back to back, also with hipcc as far as there
are cores; a compile on a worker takes at most 100 ms longer than here; the first error of what is looked at comes as
soon as without a farm, at most 1.1 ×.

Scheduler, workers and daemon are processes of their own on this machine. The compiler that takes 5 s sleeps, and so
needs no core; the daemon's own one is one more compiler, whose units are not counted. A compile's price is that of one
unit asked for by itself, with a compiler that takes no time; the daemon's own compiler is kept busy so that it is sent.

With hipcc there is a worker for each core but one, and the daemon compiles one unit at a time as well: as many as the
daemon without a farm, which began with the same store. Each edit gives all instances another tile, as in
`eight_instances`, and both daemons get the same ones; the first is not counted, after which everybody has precompiled
headers. For the first error, the same daemon is told of the farm and not, in turns; an edit of the template changes all
its units, one is looked at, and the farm's workers get the others and use no core of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import artifacts, built_as_it_is, edition
from benchmarks.farm_processes import STAND_IN, FarmProcesses, farm_in, has_slots, leave, use
from benchmarks.farm_worker import COMPILER
from benchmarks.first_error import Edits
from benchmarks.gemm_example import EIGHT, Example, Follower, example_daemon, following, until_idle
from benchmarks.hipcc import Hipcc
from benchmarks.quick_compiler import QuickCompiler
from benchmarks.quick_daemon import apart, daemon_of
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.client import Client, connect
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.trust import trust

MEASURED_CODE = (
    *DAEMON_CODE,
    "daemon/ckwatch/compile",
    "daemon/ckwatch/farm",
    "templates",
    "benchmarks/farm_processes.py",
    "benchmarks/farm_worker.py",
)

WORKERS = (1, 2, 4)
ASLEEP_S = 5.0
ROUNDS = 6
LOOPED = 2
"""Units that the compiler by itself is run for."""

BUSY_S = 550.0
SINGLE = 20
"""Units of which each is asked for by itself."""

CORES = len(os.sched_getaffinity(0))
INSTANCES = dict(islice(EIGHT.items(), 4))

_SETTINGS = """\
[store]
folder = "{store}"
[compile]
jobs = 1
[daemon]
idle_exit_s = 900
[verify]
automatic = "off"  # what stands in for artifacts cannot be executed
"""

_TEMPLATE = """\
#include "common.hpp"
constexpr int per_block = {{ MPerBlock }};
extern "C" PT_EXPORT int {{ KERNEL_NAME }}(const void* a, const void* b, void* c) { return per_block + common; }
"""

_KERNEL = """\
template = "quick.hip.j2"
[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }
"""


@dataclass
class Samples:
    """Units per second by the number of workers, and by the loop; milliseconds; seconds with hipcc."""

    farm: dict[int, list[float]] = field(default_factory=dict)
    loop: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)
    here: list[float] = field(default_factory=list)
    hipcc_farm: list[float] = field(default_factory=list)
    hipcc_alone: list[float] = field(default_factory=list)
    error_farm: list[float] = field(default_factory=list)
    error_alone: list[float] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """Six."""
        throughput = [
            row(
                f"a compiler that takes {ASLEEP_S:g} s: units built by the farm's workers alone, N = {count}",
                rates,
                self.loop,
                reference_name="the compiler, one run after the other",
                unit="units/s",
                goal=f"at least 0.9 N = {0.9 * count:.1f} ×",
                met=lambda _, ratio, count=count: ratio >= 0.9 * count,  # type: ignore[misc]
            )
            for count, rates in self.farm.items()
        ]
        return [
            *throughput,
            row(
                "a compiler that takes no time: one unit from the request until it is built, on a worker",
                self.there,
                self.here,
                reference_name="the same daemon's own compiler",
                unit="ms",
                goal="at most 100 ms more",
                met=lambda ours, ratio: ours - ours / ratio <= 100,
            ),
            row(
                f"{len(INSTANCES)} edited instances with hipcc: edit to all artifacts, "
                f"one compile at a time here and on each of {CORES - 1} workers",
                self.hipcc_farm,
                self.hipcc_alone,
                reference_name=f"a daemon without a farm, {CORES} compiler processes",
                unit="s",
                goal="at most 1 / 0.9 ×",
                met=lambda _, ratio: ratio <= 1 / 0.9,
            ),
            row(
                f"undeclared name in a template of {len(INSTANCES)} units: edit to diagnostic of the one looked at, "
                "while a farm gets the others",
                self.error_farm,
                self.error_alone,
                reference_name="the same daemon without a farm",
                unit="ms",
                goal="at most 1.1 ×",
                met=lambda _, ratio: ratio <= 1.1,
            ),
        ]


class QuickWorkspace:
    """Units of one template with a header, below `folder`; the daemon has one quick compiler, the workers another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.here = QuickCompiler(folder / "compiler")
        self.there = QuickCompiler(folder / "compiler_of_workers")
        count = ROUNDS * (max(WORKERS) + 1)
        self.units = [f"quick/tile_{number}@gfx942" for number in range(count)]

    def make(self) -> None:
        """Write everything."""
        self.here.make()
        self.there.make()
        (self.root / "templates").mkdir(parents=True)
        settings = _SETTINGS.format(store=self.root.parent / "store")
        (self.root / "ckwatch.toml").write_text(settings)
        (self.root / "templates/quick.hip.j2").write_text(_TEMPLATE)
        (self.root / "templates/common.hpp").write_text("constexpr int common = 0;\n")
        instances = (f'[[instance]]\nname = "tile_{n}"\nMPerBlock = {n + 1}\n' for n in range(len(self.units)))
        (self.root / "quick.kernel.toml").write_text(_KERNEL + "".join(instances))

    def forget(self) -> None:
        """Forget all runs of both compilers."""
        self.here.forget()
        self.there.forget()


@asynccontextmanager
async def quick_workspace() -> AsyncIterator[tuple[QuickWorkspace, Client, FarmProcesses]]:
    """The workspace, its daemon, which has built everything, and its farm, which has no worker yet."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ckwatch-benchmark-"))
        stack.enter_context(apart())
        quick = QuickWorkspace(Path(folder).resolve())
        quick.make()
        trust(quick.root.parent)  # whatever farm it comes to name
        await stack.enter_async_context(daemon_of(quick.root))
        client = await stack.enter_async_context(connect(quick.root, start=False))
        farm = await stack.enter_async_context(farm_in(Path(folder).resolve() / "farm"))
        await use(client, quick.root, farm, 0)
        await built(client, quick.units)
        yield quick, client, farm


async def built(client: Client, units: list[str]) -> None:
    """Build units, whatever the store has. Raises CkwatchError where one fails."""
    if not (await client.build(*units, force=True)).ok:
        raise CkwatchError("units of the quick compiler are not built")


async def throughput(quick: QuickWorkspace, client: Client, count: int) -> float:
    """Units per second that so many workers build while the daemon's own compiler builds, too."""
    quick.forget()
    units = quick.units[: ROUNDS * (count + 1)]
    begun_s = time.monotonic()
    await built(client, units)
    seconds = time.monotonic() - begun_s
    sent, kept = len(quick.there.started_ns()), len(quick.here.started_ns())
    if sent + kept != len(units):
        raise CkwatchError(f"{sent + kept} compilers ran for {len(units)} units")
    print(f"{count} workers: {sent} units in {seconds:.1f} s, and {kept} here")
    return sent / seconds


def looped(compiler: QuickCompiler, folder: Path) -> float:
    """Units per second of the compiler by itself, without linking."""
    toolchain = compiler.toolchain
    environment = {**toolchain.environment, "CC_PRINT_HEADERS_FILE": str(folder / "headers")}
    begun_s = time.monotonic()
    for _ in range(LOOPED):
        subprocess.run([toolchain.hipcc, "-c", "-o", folder / "object"], env=environment, check=True)
    return LOOPED / (time.monotonic() - begun_s)


async def one_by_one(client: Client, units: list[str]) -> float:
    """The median of the milliseconds from a request for one unit until it is built."""
    times = []
    for unit in units:
        begun_s = time.monotonic()
        await built(client, [unit])
        times.append((time.monotonic() - begun_s) * 1e3)
    return median(times)


async def overhead(quick: QuickWorkspace, client: Client) -> tuple[float, float]:
    """Milliseconds of a compile that takes no time, on a worker and here."""
    first, *others = quick.units[: SINGLE + 1]
    quick.forget()
    quick.here.sleep(BUSY_S)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(built, client, [first])
        while not quick.here.started_ns():
            await anyio.sleep(0.01)
        there = await one_by_one(client, others)
        tasks.cancel_scope.cancel()
    sent = len(quick.there.started_ns())
    quick.here.sleep(0)
    await until_idle(client)
    here = await one_by_one(client, others)
    if sent != SINGLE or len(quick.there.started_ns()) != SINGLE:
        raise CkwatchError(f"of {SINGLE} units {sent} were sent, and {len(quick.there.started_ns()) - sent} too many")
    print(f"a compile that takes no time: {there:.0f} ms on a worker, {here:.0f} ms here")
    return there, here


async def with_quick_compiler(runs: int, samples: Samples) -> None:
    """Measure what needs no core: throughput and overhead."""
    async with quick_workspace() as (quick, client, farm):
        for _ in range(runs):
            quick.there.sleep(0)
            farm.add_workers(1, STAND_IN, **{COMPILER: str(quick.there.folder)})
            await has_slots(client, 1)
            await built(client, quick.units)
            there, here = await overhead(quick, client)
            samples.there.append(there)
            samples.here.append(here)
            quick.there.sleep(ASLEEP_S)
            quick.here.sleep(ASLEEP_S)
            samples.loop.append(await anyio.to_thread.run_sync(looped, quick.there, quick.root.parent))
            running = 1
            for count in WORKERS:
                farm.add_workers(count - running, STAND_IN, **{COMPILER: str(quick.there.folder)})
                running = count
                await has_slots(client, count)
                samples.farm.setdefault(count, []).append(await throughput(quick, client, count))
            quick.here.sleep(0)
            farm.end_workers()
            await has_slots(client, 0)


def any_farm(example: Example) -> None:
    """The workspace is trusted, whatever farm it comes to name."""
    trust(example.root.parent)


def one_job(example: Example) -> None:
    """One compile at a time here, and any farm."""
    any_farm(example)
    settings = example.root / "ckwatch.toml"
    settings.write_text(f"{settings.read_text()}\n[compile]\njobs = 1\n")


async def with_hipcc(runs: int, samples: Samples) -> None:
    """Measure what needs cores: instances of the example, and an edit's first error."""
    async with AsyncExitStack() as stack:
        example, client = await stack.enter_async_context(example_daemon(INSTANCES, any_farm))
        follower = await stack.enter_async_context(following(client))
        await built_as_it_is(example, client)

        def prepare(sending: Example) -> None:
            one_job(sending)
            shutil.copytree(example.root.parent / "store", sending.root.parent / "store")

        async with example_daemon(INSTANCES, prepare) as (sending, sender), following(sender) as watcher:
            await edited_instances((sending, sender, watcher), (example, client, follower), runs, samples)
        edits = Edits(example, follower, Hipcc(discover(), example.root.parent / "hipcc"))
        await client.focus(example.units[0])
        await edits.undo()
        await first_errors(edits, client, runs, samples)


Watched = tuple[Example, Client, Follower]
"""A workspace, and who speaks with its daemon."""


async def edited_instances(sending: Watched, alone: Watched, runs: int, samples: Samples) -> None:
    """Seconds from an edit of all instances to their artifacts, with a farm and without, in turns."""
    example, client, _ = sending
    async with farm_in(example.root.parent / "farm") as farm:
        farm.add_workers(CORES - 1)
        await use(client, example.root, farm, CORES - 1)
        await built_as_it_is(example, client)
        for number in range(runs + 1):
            text = example.kernel_text(edition(number))
            both = [(sending, samples.hipcc_farm), (alone, samples.hipcc_alone)]
            for (edited, asked, follower), times in both if number % 2 == 0 else reversed(both):
                seconds, units = await artifacts(edited, follower, text)
                if any(unit.from_store for unit in units):
                    raise CkwatchError("edited instances were in the store")
                await until_idle(asked)
                await farm.until_quiet()
                times.append(seconds)
            print(f"hipcc: with the farm {samples.hipcc_farm[-1]:.1f} s, without {samples.hipcc_alone[-1]:.1f} s")
        del samples.hipcc_farm[0], samples.hipcc_alone[0]


async def first_errors(edits: Edits, client: Client, runs: int, samples: Samples) -> None:
    """Milliseconds until the error of what is looked at, with the farm and without, in turns."""
    root, others = edits.example.root, len(INSTANCES) - 1
    async with farm_in(root.parent / "farm") as farm:
        farm.add_workers(others, STAND_IN)
        for number in range(2 * runs):
            on_farm = number % 4 in (0, 3)
            if on_farm:
                await use(client, root, farm, others)
            else:
                await leave(client, root)
            await until_idle(client)
            seconds, _ = await edits.undeclared_name(in_type=True)
            if on_farm:
                await all_sent(client, others)
            await edits.undo()
            (samples.error_farm if on_farm else samples.error_alone).append(seconds * 1e3)
            print(f"first error {'with' if on_farm else 'without'} a farm {seconds * 1e3:.0f} ms")


async def all_sent(client: Client, wanted: int) -> None:
    """Return when the farm has so many compiles."""
    with anyio.fail_after(60):
        while (farm := (await client.status()).farm) is None or farm.compiling != wanted:
            await anyio.sleep(0.05)


async def compare(runs: int) -> list[Row]:
    """All rows."""
    samples = Samples()
    await with_quick_compiler(runs, samples)
    await with_hipcc(runs, samples)
    return samples.rows()


def measure() -> list[Row]:
    """Six rows."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
