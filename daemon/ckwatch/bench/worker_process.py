"""Starts a worker process, perhaps through a launcher, and ends it so that nothing of it keeps running.

A worker exits by itself when its stdin closes, which reaches it through any launcher that passes bytes on. Only a
worker that does not react gets a signal. It leads a session of its own, and everything it has started ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread

from ckwatch.model.errors import DeviceError
from ckwatch.model.python_process import module_environment
from ckwatch.system.processes import oom_kills

_CHUNK_BYTES = 1 << 16
_GRACE_S = 1.0
"""For each of the polite ways to end."""

_KILLED_S = 10.0
"""What a driver may need to end a process that was killed while its device was busy."""


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended. `status` is negative for a signal, None when it does not even end when it is killed.

    `out_of_memory`: the kernel killed something for want of memory meanwhile. `ended_by_us`: it would have run on.
    """

    status: int | None
    out_of_memory: bool
    ended_by_us: bool

    @property
    def signal(self) -> signal.Signals | None:
        """The signal that ended it. Shells and launchers tell a signal of what they ran as 128 + its number."""
        if self.status is None or 0 <= self.status <= 128:
            return None
        with suppress(ValueError):
            return signal.Signals(-self.status if self.status < 0 else self.status - 128)
        return None


class WorkerProcess:
    """A worker that was started, and its three pipes."""

    def __init__(self, popen: subprocess.Popen[bytes], oom_kills: int) -> None:
        self._popen = popen
        self._pipes: list[IO[bytes]] = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None]
        self._oom_kills = oom_kills
        self._pidfd = os.pidfd_open(popen.pid)
        self._ended: WorkerExit | None = None
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """Of the launcher, where there is one."""
        return self._popen.pid

    async def wait(self) -> None:
        """Until the process has ended."""
        await anyio.wait_readable(self._pidfd)

    async def write(self, content: bytes) -> bool:
        """Write all of `content` to its standard input; False when it does not read any more."""
        view = memoryview(content)
        stdin = self._pipes[0]
        while view:
            if stdin.closed:
                return False
            await anyio.wait_writable(stdin)
            try:
                view = view[os.write(stdin.fileno(), view[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    async def read_stdout(self) -> bytes:
        """The next bytes; none at the end."""
        return await self._read(self._pipes[1])

    async def read_stderr(self) -> bytes:
        """The next bytes; none at the end."""
        return await self._read(self._pipes[2])

    async def end(self) -> WorkerExit:
        """End it if it runs, and wait for it: at most some seconds, whoever is cancelled."""
        with anyio.CancelScope(shield=True):
            ended = self._ended or await self._end()
        self._ended = ended
        return ended

    async def _end(self) -> WorkerExit:
        self._pipes[0].close()
        ended_by_us = False
        for number, grace_s in ((None, _GRACE_S), (signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _KILLED_S)):
            if number is not None:
                ended_by_us = True
                self._signal(number)
            with anyio.move_on_after(grace_s):
                await self.wait()
                break
        # Children have the pipes and the lease; who leads the group is not reaped yet, so the number is still its own.
        self._signal(signal.SIGKILL)
        status = self._popen.poll()
        return WorkerExit(status, oom_kills() > self._oom_kills, ended_by_us)

    def close(self) -> None:
        """Close all descriptors."""
        for pipe in self._pipes:
            pipe.close()
        os.close(self._pidfd)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    @staticmethod
    async def _read(pipe: IO[bytes]) -> bytes:
        while True:
            await anyio.wait_readable(pipe)
            try:
                return os.read(pipe.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                continue


@asynccontextmanager
async def running_worker(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None, folder: Path
) -> AsyncIterator[WorkerProcess]:
    """Start `arguments` in `folder`; on leaving it is ended if it still runs.

    Raises DeviceError when it cannot be started.
    """
    with anyio.CancelScope(shield=True):
        process = await anyio.to_thread.run_sync(_start, tuple(arguments), environment, folder)
    try:
        yield process
    finally:
        await process.end()
        process.close()


def _start(arguments: tuple[str, ...], environment: Mapping[str, str] | None, folder: Path) -> WorkerProcess:
    kills = oom_kills()
    try:
        popen = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env=module_environment(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DeviceError(f"the benchmark worker cannot be started: {arguments[0]}: {reason}") from error
    try:
        return WorkerProcess(popen, kills)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.communicate()
        raise


class OutputExcerpt:
    """The beginning and the end of a stream of bytes."""

    def __init__(self, limit_bytes: int = 1 << 16) -> None:
        self._half = limit_bytes // 2
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """More of it."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        rest = self._tail + chunk[room:]
        self._tail = rest[-self._half :]
        self._dropped += len(rest) - len(self._tail)

    @property
    def text(self) -> str:
        """What was kept; what was left out is marked."""
        gap = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")
