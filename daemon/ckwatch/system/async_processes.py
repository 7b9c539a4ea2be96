"""Runs processes beside other tasks, and ends them so that nothing of them survives.

On cancellation, timeout and error the whole group is ended, first politely, and the call returns only when it has gone.
Even after a normal end the group is swept, so that a forgotten child neither runs on nor holds a pipe open.

Compilers stand back for other programs: for editors, the language server and the daemon itself. Niceness alone does
nothing between sessions where the kernel schedules each session as one group (autogroup, sched(7)), as those of most
desktops do: there the group has a niceness of its own.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio
from anyio import to_thread

from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system import processes
from ckwatch.system.time_limits import Overrun, TimeLimits

AUTOGROUP_PAUSE_S = 0.1
"""A user may set the niceness of one session in so many seconds (`proc_sched_autogroup_set_nice` of Linux)."""

AUTOGROUP_TRIES = 50

OnLine = Callable[[str], None]
OnUsed = Callable[[float], None]

_OUTPUT_LIMIT_BYTES = 16 * 2**20
_GRACE_S = 2.0
_KILLED_S = 10.0
"""Seconds that the system, or a driver whose device is busy, may need to end a killed process."""
_LAST_WORDS_S = 2.0
_CHUNK_BYTES = 1 << 16


class AsyncProcess:
    """A process that was started, and its pipes."""

    def __init__(self, process: processes.Process) -> None:
        self._process = process
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """Of the process, which leads its group."""
        return self._process.pid

    async def wait(self) -> None:
        """Wait until the process has ended. Others of its group may run on."""
        await anyio.wait_readable(self._process.pidfd)

    def poll(self) -> processes.ProcessEnd | None:
        """How the process ended; None while it runs."""
        return self._process.poll()

    def reap(self) -> processes.ProcessEnd:
        """How the process ended; blocks while it runs."""
        return self._process.wait()

    async def write(self, content: bytes) -> bool:
        """Write all of `content` to its standard input; False when it does not read any more."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101  # a pipe was asked for
        view = memoryview(content)
        while view:
            if stdin.closed:
                return False
            try:
                view = view[os.write(stdin.fileno(), view[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                await anyio.wait_writable(stdin)
            except OSError:
                return False
        return True

    async def read_stdout(self) -> bytes:
        """The next bytes; none at the end."""
        return await _read(self._process.stdout)

    async def read_stderr(self) -> bytes:
        """The next bytes; none at the end."""
        return await _read(self._process.stderr)

    async def end_politely(self, grace_s: float) -> bool:
        """Close its standard input, and end the process if it still runs after `grace_s`: by SIGTERM, then by SIGKILL.
        What it leaves behind is killed. Returns whether it had to be signalled, after some seconds at most, even when
        cancelled; `poll` is None for one that does not even end when it is killed."""
        with anyio.CancelScope(shield=True):
            if self._process.stdin is not None:
                self._process.stdin.close()
            signalled = not await self._ended_within(grace_s)
            if signalled:
                self._process.signal_group(signal.SIGTERM)
                if not await self._ended_within(grace_s):
                    self._process.signal_group(signal.SIGKILL)
                    await self._ended_within(_KILLED_S)
            # Its children have the pipes; it is not reaped yet, so the number of its group is still its own.
            self._process.signal_group(signal.SIGKILL)
        return signalled

    async def kill(self) -> None:
        """Kill the whole group, and wait for the process, even when cancelled."""
        with anyio.CancelScope(shield=True):
            self._process.signal_group(signal.SIGKILL)
            await self._ended_within(_KILLED_S)

    async def sweep(self, grace_s: float) -> None:
        """End every process of its group: SIGTERM, and SIGKILL after `grace_s`; returns when none runs any more."""
        if not await self._group_runs():
            return
        if grace_s > 0:
            self._process.signal_group(signal.SIGTERM)
            if await self._group_gone_within(grace_s):
                return
        self._process.signal_group(signal.SIGKILL)
        await self._group_gone_within(_KILLED_S)

    def close(self) -> None:
        """Close all descriptors."""
        self._process.close()

    async def _ended_within(self, limit_s: float) -> bool:
        with anyio.move_on_after(limit_s) as limit:
            await self.wait()
        return not limit.cancelled_caught

    async def _group_gone_within(self, limit_s: float) -> bool:
        pause_s = 0.001
        with anyio.move_on_after(limit_s) as limit:
            while await self._group_runs():
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.05)
        return not limit.cancelled_caught

    async def _group_runs(self) -> bool:
        return processes.has_group(self.pid) and await to_thread.run_sync(processes.group_runs, self.pid)


async def start_process(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    stdin: int = processes.DEVNULL,
    stderr: int | None = processes.PIPE,
) -> AsyncProcess:
    """Start `arguments` with a pipe for its output; see `processes.start`. The caller ends and closes it. Raises
    ProcessStartError."""
    how = partial(processes.start, arguments, environment=environment, folder=folder, stdin=stdin, stderr=stderr)
    # A cancellation inside would leave a process that nothing tracks.
    with anyio.CancelScope(shield=True):
        process = await to_thread.run_sync(how)
    return AsyncProcess(process)


async def _read(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None  # noqa: S101  # a pipe was asked for
    while True:
        await anyio.wait_readable(pipe)
        try:
            return os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            continue


class ExitReason(StrEnum):
    """Why a process ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed out"
    """It used more of the processor than it may."""
    STALLED = "stalled"
    """It used no processor for too long."""
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A process that has ended.

    `exit_status` is negative for a signal. `stdout` and `stderr` hold at most the limit each; `dropped_bytes` counts
    what went beyond it. `peak_memory_bytes` is the largest resident set of any process that it waited for.
    """

    arguments: tuple[str, ...]
    exit_reason: ExitReason
    exit_status: int
    stdout: str
    stderr: str
    dropped_bytes: int
    duration_s: float
    peak_memory_bytes: int

    @property
    def succeeded(self) -> bool:
        """True where it has ended by itself with exit status 0."""
        return self.exit_reason is ExitReason.EXITED and self.exit_status == 0

    @property
    def signal_name(self) -> str | None:
        """`SIGKILL` and so on for a process that a signal ended."""
        return processes.signal_name(-self.exit_status) if self.exit_status < 0 else None


Launcher = Callable[..., Awaitable[ProcessResult]]
"""Has the signature of `run_process`; tests pass another."""


async def run_process(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    timeout_s: float | None = None,
    stalled_s: float | None = None,
    nice: int = 0,
    on_line: OnLine | None = None,
    on_used: OnUsed | None = None,
    meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None,
    output_limit_bytes: int = _OUTPUT_LIMIT_BYTES,
    grace_s: float = _GRACE_S,
) -> ProcessResult:
    """Run `arguments` in `folder` (default: this process's) with exactly `environment`, without input, and wait for its
    end.

    `on_line` gets each line of standard error without its newline, as it is written; `on_used` gets, now and then, what
    it has used of the processor so far, in seconds, if there is a `timeout_s`; `meanwhile` runs beside it. A
    process that has used `timeout_s` of the processor, its children included, is ended and reported as timed out; one
    that has used none for `stalled_s` (default: `timeout_s`) as stalled. `nice` is the least niceness that it runs
    with. Raises ToolchainError when it cannot be started.
    """
    begin = time.monotonic()
    try:
        process = await start_process(arguments, environment=environment, folder=folder)
    except processes.ProcessStartError as error:
        raise ToolchainError(error.message, "`ckwatch doctor` says what is missing.") from error
    stdout = _BoundedText(output_limit_bytes, None)
    stderr = _BoundedText(output_limit_bytes, on_line)
    overruns: list[Overrun] = []
    swept = False
    try:
        with anyio.CancelScope() as limit:
            async with anyio.create_task_group() as readers:
                readers.start_soon(_drain, process.read_stdout, stdout)
                readers.start_soon(_drain, process.read_stderr, stderr)
                async with anyio.create_task_group() as others:
                    others.start_soon(lower_priority, process.pid, nice)
                    if timeout_s is not None:
                        limits = TimeLimits(timeout_s, timeout_s if stalled_s is None else stalled_s, begin)
                        others.start_soon(_enforce, process.pid, limits, overruns, limit, on_used)
                    if meanwhile is not None:
                        others.start_soon(meanwhile)
                    await process.wait()
                    others.cancel_scope.cancel()
                # A process that still holds the pipes is not the compiler: its last words are in them already.
                await process.sweep(0.0)
                swept = True
                readers.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
    finally:
        with anyio.CancelScope(shield=True):
            if not swept:
                await process.sweep(grace_s)
            await process.wait()
            ended = await to_thread.run_sync(process.reap)
            process.close()
    text = stderr.finish()
    return ProcessResult(
        tuple(os.fspath(argument) for argument in arguments),
        _exit_reason(ended, text, overruns[0] if overruns else None),
        ended.status,
        stdout.finish(),
        text,
        stdout.dropped_bytes + stderr.dropped_bytes,
        time.monotonic() - begin,
        ended.peak_memory_bytes,
    )


async def _enforce(
    group: int, limits: TimeLimits, overruns: list[Overrun], limit: anyio.CancelScope, on_used: OnUsed | None
) -> None:
    """Cancel `limit` when a limit is exceeded, and note which."""
    while True:
        await anyio.sleep(limits.pause_s)
        overrun = limits.overrun(await to_thread.run_sync(processes.group_usage, group), time.monotonic())
        if on_used is not None:
            on_used(limits.used_s)
        if overrun is not None:
            overruns.append(overrun)
            limit.cancel()
            return


async def lower_priority(session: int, nice: int) -> None:
    """Let a session that has just been started by its leader run with niceness `nice` at least: it has inherited this
    process's, which does not add up with it. It may have ended already."""
    if nice <= 0:
        return
    with suppress(OSError):
        if processes.niceness() < nice:
            os.setpriority(os.PRIO_PGRP, session, nice)
        autogroup = Path("/proc", str(session), "autogroup")
        for _ in range(AUTOGROUP_TRIES):
            try:
                autogroup.write_text(str(nice))  # noqa: ASYNC240  # a word for the kernel; no disk
            except BlockingIOError:
                await anyio.sleep(AUTOGROUP_PAUSE_S)
            else:
                return


class _BoundedText:
    """The text of one stream, bounded, handed on line by line."""

    def __init__(self, limit_bytes: int, on_line: OnLine | None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = limit_bytes
        self._on_line = on_line
        self._parts: list[str] = []
        self._line = ""
        self.dropped_bytes = 0

    def feed(self, chunk: bytes) -> None:
        kept = chunk[: self._left]
        self._left -= len(kept)
        self.dropped_bytes += len(chunk) - len(kept)
        if kept:
            self._take(self._decoder.decode(kept))

    def finish(self) -> str:
        self._take(self._decoder.decode(b"", final=True))
        if self._line and self._on_line is not None:
            self._on_line(self._line)
        return "".join(self._parts)

    def _take(self, text: str) -> None:
        self._parts.append(text)
        if self._on_line is None:
            return
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._on_line(line.removesuffix("\r"))


async def _drain(read: Callable[[], Awaitable[bytes]], capture: _BoundedText) -> None:
    while chunk := await read():
        capture.feed(chunk)


# Not in a quoted source line, and not in a message that has a place: those speak of the source.
_OUT_OF_MEMORY = re.compile(
    r"^(?:LLVM ERROR: out of memory"
    r"|terminate called after throwing an instance of 'std::bad_alloc'"
    r"|(?!\s)(?!.*:\d+:\d+:).*(?:Cannot allocate memory|memory exhausted))",
    re.MULTILINE,
)


def _exit_reason(ended: processes.ProcessEnd, stderr: str, overrun: Overrun | None) -> ExitReason:
    if overrun is not None:
        return ExitReason.TIMED_OUT if overrun is Overrun.PROCESSOR else ExitReason.STALLED
    if ended.status == 0:
        return ExitReason.EXITED
    killed = ended.oom_killed and (ended.status == -signal.SIGKILL or "Killed" in stderr)
    if killed or _OUT_OF_MEMORY.search(stderr) is not None:
        return ExitReason.OUT_OF_MEMORY
    return ExitReason.SIGNALLED if ended.status < 0 else ExitReason.EXITED
