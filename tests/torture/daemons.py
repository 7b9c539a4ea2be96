"""Daemons with the scripted compiler, each a process of its own that can be killed (`killable_daemon`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from benches.daemon_bench import Bench
from ckwatch.wire.endpoint import endpoint_of
from ckwatch.workspace.trust import trust
from fakes.patience import PATIENCE_S
from helpers.running_processes import runs

TESTS = Path(__file__).parent.parent


class Daemon:
    """Daemons of one workspace, one after the other."""

    def __init__(self, bench: Bench, process: subprocess.Popen[bytes]) -> None:
        self.bench = bench
        self.pid = 0
        self._process = process
        self._http: httpx.Client | None = None
        self._read = 0

    def start(self) -> None:
        """Start one; returns when it answers."""
        self.fork()
        self.wait_until_ready()

    def fork(self) -> None:
        """Start one, without waiting for it."""
        self.hang_up()
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()
        self.pid = self._line()

    def wait_until_ready(self) -> None:
        """Return when it answers. Raises AssertionError when it ends instead."""
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            with suppress(httpx.TransportError, OSError):
                assert self.http.get("/status").status_code == 200
                return
            assert self.is_running(), f"the daemon ended with status {self.ended()}"
            time.sleep(0.01)
        raise AssertionError("the daemon does not answer")

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL
        self.hang_up()

    def is_running(self) -> bool:
        """Return True while it exists; a zombie does not."""
        return runs(self.pid)

    def check_log(self) -> None:
        """Raises AssertionError for a traceback in what daemons wrote since the last time."""
        with (self.bench.folder / "log").open("rb") as log:
            log.seek(self._read)
            text = log.read().decode(errors="replace")
            self._read = log.tell()
        assert "Traceback" not in text, text[-5000:]

    def log_tail(self) -> str:
        """Return the last lines that daemons wrote."""
        return (self.bench.folder / "log").read_text(errors="replace")[-3000:]

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        return self._line()

    @property
    def http(self) -> httpx.Client:
        """A client of it."""
        if self._http is None:
            transport = httpx.HTTPTransport(uds=str(endpoint_of(self.bench.root).socket))
            self._http = httpx.Client(transport=transport, base_url="http://localhost/v1", timeout=PATIENCE_S)
        return self._http

    def hang_up(self) -> None:
        """Close the client."""
        if self._http is not None:
            self._http.close()
        self._http = None

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def daemons(bench: Bench) -> Iterator[Daemon]:
    """Daemons of a workspace; none runs yet."""
    folder = bench.folder
    trust(bench.root)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(TESTS / "benches/killable_daemon.py"), str(folder)]
    environment = {**os.environ, "PYTHONPATH": path}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=folder
        ) as process,
    ):
        daemon = Daemon(bench, process)
        try:
            yield daemon
        finally:
            daemon.hang_up()
            if daemon.is_running():
                os.kill(daemon.pid, signal.SIGKILL)
            process.kill()


def descendants(process: int) -> list[int]:
    """The processes that `process` started, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents.setdefault(int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []).append(
                int(entry.name)
            )
    found, todo = [], [process]
    while todo:
        todo += (children := parents.get(todo.pop(), []))
        found += children
    return sorted(found)
