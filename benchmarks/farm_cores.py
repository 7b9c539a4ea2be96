"""What N workers with cores of their own compile with hipcc, against one daemon without a farm on as many cores.

Goal: N workers compile at least 0.9 N times as much, N = 1, 2, 4. Needs 16 cores, so that each of the seven workers,
the daemon that is compared with and the three that have a farm are alone on theirs, all at the same time: what they
share of the machine slows all of them alike. A daemon with a farm compiles, too; what it makes is not counted.

All instances are one tile in texts of their own, and each edit gives them a tile that nobody has compiled: ratios are
medians of the runs' ratios. A rate is how many shared objects a store got since the edit, over the seconds until the
last of them; those of workers are added.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio

from benchmarks import farm
from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import edition
from benchmarks.farm import WORKERS
from benchmarks.farm_processes import FarmProcesses, farm_in, use
from benchmarks.gemm_example import TILES, Example, build, example_daemon, tile, until_idle
from benchmarks.process_tree import descendants
from benchmarks.reporting import MANY, Row, row
from benchmarks.saving import save
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.trust import trust

MEASURED_CODE = (*farm.MEASURED_CODE, "benchmarks/farm.py")

EACH = 2
"""Instances for each that compiles."""

GOAL = 0.9


@dataclass(slots=True)
class Party:
    """A daemon with its stores: its own, or those of its workers. `rates`: units per second, of each edit; `made`: how
    many units, and the seconds until the last, of each store after the last edit."""

    example: Example
    client: Client
    stores: Sequence[Path]
    farm: FarmProcesses | None = None
    rates: list[float] = field(default_factory=list)
    made: list[tuple[int, float]] = field(default_factory=list)

    async def as_it_is(self) -> None:
        """Build all instances before any edit. No client looks at them, so that none is parsed before it is edited."""
        await build(self.example, self.client)
        await self.at_rest()

    async def at_rest(self) -> None:
        """Return when what is made in the background for the next edit is there, here and on the workers."""
        await until_idle(self.client)
        if self.farm is not None:
            await self.farm.until_quiet()

    async def edited(self, text: str) -> None:
        """Edit all instances, wait for their artifacts, and rest: one that waits for others must not be better prepared
        for the next edit than they are."""
        begun_s = time.time()
        save(self.example.kernel_file, text)
        await self.client.sync()
        await build(self.example, self.client)
        ages = [[one.stat().st_mtime - begun_s for one in store.glob("artifacts/*/*/*/*.so")] for store in self.stores]
        fresh = [[seconds for seconds in own if seconds > 0] for own in ages]
        self.made = [(len(own), max(own)) for own in fresh if own]
        self.rates.append(sum(count / seconds for count, seconds in self.made))
        await self.at_rest()

    def summary(self) -> str:
        """The last rate, and what it is made of."""
        made = ", ".join(f"{count} in {seconds:.1f} s" for count, seconds in self.made)
        return f"{self.rates[-1]:.3f} units/s ({made})"


def pin(process: int, cores: set[int]) -> None:
    """Give a process, its threads and what it has started these cores and no others."""
    for one in (process, *descendants(process)):
        with suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{one}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


async def party(stack: AsyncExitStack, workers: int, cores: Iterator[set[int]], share: int) -> Party:
    """A daemon with so many workers, each with a `share` of the cores of its own."""

    def prepare(example: Example) -> None:
        trust(example.root.parent)  # whatever farm it comes to name
        settings = example.root / "ckwatch.toml"
        settings.write_text(f"{settings.read_text()}\n[compile]\njobs = {1 if workers else share}\n")

    instances = {f"text_{number}": {**tile("v3"), "edition": number} for number in range(EACH * (workers + 1))}
    example, client = await stack.enter_async_context(example_daemon(instances, prepare))
    pin((await client.status()).pid, next(cores))
    folder = example.root.parent
    if not workers:
        return Party(example, client, [folder / "store"])
    made = await stack.enter_async_context(farm_in(folder / "farm"))
    made.add_workers(workers)
    await use(client, example.root, made, workers)
    for process in made.processes:
        pin(process, next(cores))
    stores = [folder / f"farm/worker{number}/store" for number in range(workers)]
    return Party(example, client, stores, made)


async def compare(runs: int) -> list[Row]:
    """All rows. Raises CkwatchError for more runs than there are tiles to edit."""
    if runs > len(TILES):
        raise CkwatchError(f"at most {len(TILES)} runs: a run needs a tile that nobody has compiled")
    there = iter(sorted(os.sched_getaffinity(0)))
    share = len(os.sched_getaffinity(0)) // (1 + len(WORKERS) + sum(WORKERS))
    cores = iter(lambda: set(islice(there, share)), set())
    async with AsyncExitStack() as stack:
        parties = {count: await party(stack, count, cores, share) for count in (0, *WORKERS)}
        async with anyio.create_task_group() as tasks:
            for one in parties.values():
                tasks.start_soon(one.as_it_is)
        for number in range(runs):
            changes = edition(number)
            async with anyio.create_task_group() as tasks:
                for one in parties.values():
                    tasks.start_soon(one.edited, one.example.kernel_text(changes))
            print(*(f"{count} workers: {one.summary()}" for count, one in parties.items()), sep="\n")
    return [
        row(
            f"hipcc on {share} cores of each worker's own: edited instances built by the workers alone, N = {count}",
            parties[count].rates,
            parties[0].rates,
            reference_name=f"a daemon without a farm on {share} cores",
            unit="units/s",
            goal=f"at least 0.9 N = {GOAL * count:.1f} ×",
            met=lambda _, ratio, count=count: ratio >= GOAL * count,  # type: ignore[misc]
            alike=True,
        )
        for count in WORKERS
    ]


def measure() -> list[Row]:
    """Three rows; none on fewer cores."""
    if len(os.sched_getaffinity(0)) < MANY:
        print(f"left out: this needs {MANY} cores")
        return []
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
