"""A dask scheduler and workers, each in a process of its own, and daemons that are told of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from benchmarks.process_tree import descendants, end_tree, is_busy
from benchmarks.saving import save
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError

SHIPPED = "ckwatch.farm.worker"
"""The preload that people use."""

STAND_IN = str(Path(__file__).parent / "farm_worker.py")
"""The preload with another compiler."""

LIMIT_S = 60.0
POLL_S = 0.05
LOGGED = 2000
"""Characters of the workers' log that are shown where none comes."""

QUIET_S = 3.0
"""Longer than a worker rests between two precompiled headers."""

SECTION = "\n[farm]\n"


class FarmProcesses:
    """A scheduler at `address`, and workers, each with a folder of its own below `folder` that it keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    async def start(self) -> None:
        """Start the scheduler."""
        self.folder.mkdir(parents=True)
        told = self.folder / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told))
        self._scheduler = self._run("scheduler", *options)
        with anyio.fail_after(LIMIT_S):
            while not (told.exists() and told.read_text()):  # another process says so, in a file
                await anyio.sleep(POLL_S)
        self.address = json.loads(told.read_text())["address"]

    def add_workers(self, count: int, preload: str = SHIPPED, **variables: str) -> None:
        """Start workers of one thread, with these variables in their environment."""
        for _ in range(count):
            name = f"worker{len(self._workers)}"
            own = {"CKWATCH_FARM_FOLDER": str(self.folder / name), **variables}
            folder = ("--local-directory", str(self.folder / "dask"))
            options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", *folder, "--preload", preload)
            self._workers.append(self._run("worker", self.address, *options, **own))

    @property
    def processes(self) -> list[int]:
        """The workers'."""
        return [worker.pid for worker in self._workers]

    @property
    def logged(self) -> str:
        """The end of what the workers have logged."""
        return (self.folder / "worker.log").read_text(errors="replace")[-LOGGED:]

    async def until_quiet(self) -> None:
        """Return when no compiler of the workers works, not for what is made in the background either."""
        quiet_s = 0.0
        while quiet_s < QUIET_S:
            await anyio.sleep(POLL_S)
            busy = any(is_busy(one) for process in self.processes for one in descendants(process))
            quiet_s = 0.0 if busy else quiet_s + POLL_S

    def end_workers(self) -> None:
        """Kill them, and their compilers."""
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def _run(self, what: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{what}.log").open("ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **variables})

    def close(self) -> None:
        """Kill everything."""
        self.end_workers()
        if self._scheduler is not None:
            _end(self._scheduler)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        end_tree(process.pid)
    process.wait()


@asynccontextmanager
async def farm_in(folder: Path) -> AsyncIterator[FarmProcesses]:
    """A farm without workers; all that is started goes at the end."""
    farm = FarmProcesses(folder)
    try:
        await farm.start()
        yield farm
    finally:
        farm.close()


async def use(client: Client, root: Path, farm: FarmProcesses, slots: int) -> None:
    """Name the farm in the workspace; return when its daemon has room for so many compiles there."""
    settings = root / "ckwatch.toml"
    text = settings.read_text().partition(SECTION)[0]
    save(settings, f'{text}{SECTION}scheduler = "{farm.address}"\n')
    try:
        await has_slots(client, slots)
    except CkwatchError as error:
        raise CkwatchError(f"{error}; its workers logged:\n{farm.logged}") from None


async def leave(client: Client, root: Path) -> None:
    """Name no farm in the workspace; return when its daemon knows none."""
    settings = root / "ckwatch.toml"
    save(settings, settings.read_text().partition(SECTION)[0])
    with anyio.fail_after(LIMIT_S):
        while (await client.status()).farm is not None:
            await anyio.sleep(POLL_S)


async def has_slots(client: Client, wanted: int) -> None:
    """Return when the farm has room for so many compiles. Raises CkwatchError when it never has."""
    with anyio.move_on_after(LIMIT_S):
        while (found := (await client.status()).farm) is None or found.slots != wanted:
            await anyio.sleep(POLL_S)
        return
    status = await client.status()
    raise CkwatchError(f"the farm has no room for {wanted} compiles: {status.farm}, {status.warnings}")
