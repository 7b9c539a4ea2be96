"""A dask scheduler and workers in processes of their own, which compile with the scripted compiler of a `Bench`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from benches.daemon_bench import Bench
from ckwatch.farm.connection import FarmConnection
from fakes.patience import PATIENCE_S

PRELOAD = Path(__file__).parent.parent / "farms/farm_worker.py"


class FarmBench:
    """The farm of a bench, whose scheduler is at `host`. `security` are arguments of dask's commands. Close it."""

    def __init__(self, bench: Bench, security: Sequence[str] = (), host: str = "127.0.0.1") -> None:
        self._host = host
        self.bench = bench
        self._security = [*security]
        self._file = bench.folder / "scheduler.json"
        self._port = 0
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """The scheduler's."""
        found: str = json.loads(self._file.read_text())["address"]
        return found

    def start_scheduler(self, preload: str = "ckwatch.farm.scheduler") -> None:
        """Start it, again at the same address."""
        self._file.unlink(missing_ok=True)
        protocol = ["--protocol", "tls"] if self._security else []
        self.scheduler = self._start(
            "scheduler", "--host", self._host, "--port", str(self._port), "--no-dashboard", *protocol,
            "--scheduler-file", str(self._file), "--preload", preload, *self._security,
        )  # fmt: skip
        until(self._file.exists, "a scheduler")
        until(lambda: bool(self._file.read_text()), "a scheduler")
        self._port = int(self.address.rpartition(":")[2])

    def start_worker(
        self, *, threads: int = 1, preload: str | None = None, namespace: str = "", **variables: str
    ) -> subprocess.Popen[bytes]:
        """Start one more worker, in a network `namespace` if one is named; `variables` of its environment."""
        worker = self._start(
            "worker", self.address, "--nthreads", str(threads), "--no-nanny", "--no-dashboard",
            "--local-directory", str(self.bench.folder / "dask"), "--death-timeout", str(PATIENCE_S),
            "--preload", preload or str(PRELOAD), *self._security,
            before=["ip", "netns", "exec", namespace] if namespace else [],
            FARM_BENCH=str(self.bench.folder), **variables,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def _start(
        self, what: str, *arguments: str, before: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[bytes]:
        log = (self.bench.folder / f"{what}.log").open("ab")
        with log:
            return subprocess.Popen(
                [*before, sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
            )

    def log(self, what: str) -> str:
        """Return the output of the scheduler or the workers."""
        return (self.bench.folder / f"{what}.log").read_text(errors="replace")

    def settings(self) -> str:
        """`[farm]` of the workspace."""
        return f'[farm]\nscheduler = "{self.address}"\n'

    def close(self) -> None:
        """Kill everything."""
        for process in (*self.workers, self.scheduler):
            if process is not None:
                kill(process)


def kill(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """End a process and wait until it has gone."""
    if process.poll() is None:
        process.send_signal(number)
        process.wait(PATIENCE_S)


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)


async def until_slots(connection: FarmConnection, identity: str) -> None:
    """Return when the connection knows a worker that compiles with a toolchain of this identity."""
    with anyio.fail_after(PATIENCE_S):
        while not connection.slots(identity):
            await anyio.sleep(0.1)
            await connection.refresh()
