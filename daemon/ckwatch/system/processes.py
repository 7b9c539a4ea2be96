"""Starts processes, waits for them, and ends them so that nothing of them survives.

Each process leads a session of its own; on cancellation, timeout and error the whole group is ended, first politely,
and the call returns only when it has gone. anyio kills the direct child alone, but hipcc, apt and launchers have
children of their own. Even after a normal end the group is swept, so that a forgotten child neither runs on nor holds a
pipe open. The end of the process is awaited through a pidfd, which leaves its exit status and resource usage to one
`wait4`.

Compilers stand back for other programs: for editors, the language server and the daemon itself. Niceness alone does
nothing between sessions where the kernel schedules each session as one group (autogroup, sched(7)), as those of most
desktops do: there the group has a niceness of its own.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.abc
import anyio.to_thread

from ckwatch.model.errors import ToolchainError

AUTOGROUP_PAUSE_S = 0.1
"""A user may set the niceness of one session in so many seconds (`proc_sched_autogroup_set_nice` of Linux)."""

AUTOGROUP_TRIES = 50


async def lower_priority(session: int, nice: int) -> None:
    """Add `nice` to the niceness of a session that has just been started by its leader; it may have ended already."""
    if nice <= 0:
        return
    with suppress(OSError):
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        os.setpriority(os.PRIO_PGRP, session, niceness)
        autogroup = Path("/proc", str(session), "autogroup")
        for _ in range(AUTOGROUP_TRIES):
            try:
                autogroup.write_text(str(niceness))  # noqa: ASYNC240  # a word for the kernel; no disk
            except BlockingIOError:
                await anyio.sleep(AUTOGROUP_PAUSE_S)
            else:
                return


OnLine = Callable[[str], None]

_OUTPUT_LIMIT_BYTES = 16 * 2**20
_GRACE_S = 2.0
_SWEEP_S = 10.0
_LAST_WORDS_S = 2.0
_CHUNK_BYTES = 1 << 16


class ExitReason(StrEnum):
    """How a process ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A process that has ended.

    `exit_status` is negative for a signal. `stdout` and `stderr` hold at most the limit each; `dropped_bytes` counts
    what went beyond it. `peak_memory_bytes` is the largest resident set of any process that it waited for.
    """

    arguments: tuple[str, ...]
    verdict: ExitReason
    exit_status: int
    stdout: str
    stderr: str
    dropped_bytes: int
    duration_s: float
    peak_memory_bytes: int

    @property
    def signal_name(self) -> str | None:
        """`SIGKILL` and so on for a process that a signal ended."""
        if self.exit_status >= 0:
            return None
        try:
            return signal.Signals(-self.exit_status).name
        except ValueError:
            return f"signal {-self.exit_status}"


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


Launcher = Callable[..., Awaitable[ProcessResult]]
"""Has the signature of `run_process`; tests pass another."""


async def run_process(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout_s: float | None = None,
    nice: int = 0,
    on_line: OnLine | None = None,
    output_limit_bytes: int = _OUTPUT_LIMIT_BYTES,
    grace_s: float = _GRACE_S,
) -> ProcessResult:
    """Run `arguments` in `folder` with exactly `environment`, without input, and wait for its end.

    `on_line` gets each line of standard error without its newline, as it is written. A process past `timeout_s` is
    ended and reported as timed out. `nice` is added to its niceness. Raises ToolchainError when it cannot be started.
    """
    begin = time.monotonic()
    with anyio.CancelScope(shield=True):
        process = await anyio.to_thread.run_sync(_start, tuple(arguments), dict(environment), folder)
    stdout = _BoundedText(output_limit_bytes, None)
    stderr = _BoundedText(output_limit_bytes, on_line)
    timed_out = swept = False
    try:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as readers:
                readers.start_soon(_drain, process.stdout, stdout)
                readers.start_soon(_drain, process.stderr, stderr)
                async with anyio.create_task_group() as meanwhile:
                    meanwhile.start_soon(lower_priority, process.pid, nice)
                    await anyio.wait_readable(process.pidfd)
                    meanwhile.cancel_scope.cancel()
                # Whoever still holds the pipes is not the compiler: its last words are in them already.
                await _sweep(process.pid, 0.0)
                swept = True
                readers.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
        timed_out = limit.cancelled_caught
    finally:
        with anyio.CancelScope(shield=True):
            if not swept:
                await _sweep(process.pid, grace_s)
            await anyio.wait_readable(process.pidfd)
            ended = await anyio.to_thread.run_sync(process.reap)
    text = stderr.finish()
    verdict = _exit_reason(ended.status, text, timed_out=timed_out, oom_killed=ended.oom_kills > process.oom_kills)
    return ProcessResult(
        tuple(arguments),
        verdict,
        ended.status,
        stdout.finish(),
        text,
        stdout.dropped_bytes + stderr.dropped_bytes,
        time.monotonic() - begin,
        ended.peak_memory_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Usage:
    status: int
    peak_memory_bytes: int
    oom_kills: int


class _StartedProcess:
    """A started process and its three descriptors, which `reap` closes."""

    def __init__(self, popen: subprocess.Popen[bytes], stdout: IO[bytes], stderr: IO[bytes], oom_kills: int) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.stdout = stdout
        self.stderr = stderr
        self.pidfd = os.pidfd_open(popen.pid)
        self.oom_kills = oom_kills

    def reap(self) -> _Usage:
        """Take the exit status of a process that has ended."""
        _, status, usage = os.wait4(self.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.pidfd)
        self.stdout.close()
        self.stderr.close()
        return _Usage(self._popen.returncode, usage.ru_maxrss * 1024, oom_kills())


def _start(arguments: tuple[str, ...], environment: dict[str, str], folder: Path) -> _StartedProcess:
    kills = oom_kills()
    try:
        popen = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolchainError(
            f"cannot start {arguments[0]}: {error.strerror}", "`ckwatch doctor` says what is missing."
        ) from error
    stdout, stderr = popen.stdout, popen.stderr
    assert stdout is not None  # noqa: S101  # both are pipes
    assert stderr is not None  # noqa: S101
    try:
        os.set_blocking(stdout.fileno(), False)
        os.set_blocking(stderr.fileno(), False)
        return _StartedProcess(popen, stdout, stderr, kills)
    except BaseException:
        _signal_group(popen.pid, signal.SIGKILL)
        popen.communicate()
        raise


async def _drain(pipe: IO[bytes], capture: _BoundedText) -> None:
    while True:
        await anyio.wait_readable(pipe)
        try:
            chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            continue
        if not chunk:
            return
        capture.feed(chunk)


async def _sweep(group: int, grace_s: float) -> None:
    """End every process of `group`: SIGTERM, and SIGKILL after `grace_s`; returns when none runs any more."""
    if not await _group_alive(group):
        return
    if grace_s > 0:
        _signal_group(group, signal.SIGTERM)
        if await _gone_within(group, grace_s):
            return
    _signal_group(group, signal.SIGKILL)
    await _gone_within(group, _SWEEP_S)


async def _gone_within(group: int, limit_s: float) -> bool:
    pause_s = 0.001
    with anyio.move_on_after(limit_s):
        while await _group_alive(group):
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return True
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _group_alive(group: int) -> bool:
    """Whether a process of `group` still runs. Zombies do not count: their parent may never ask for them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return await anyio.to_thread.run_sync(_group_runs, group)


def _group_runs(group: int) -> bool:
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is wanted
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # "PID (NAME) STATE PARENT GROUP …"; the name may hold blanks and parentheses.
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    return True
    return False


# Not in a quoted source line, and not in a message that has a place: those speak of the source.
_OUT_OF_MEMORY = re.compile(
    r"^(?:LLVM ERROR: out of memory"
    r"|terminate called after throwing an instance of 'std::bad_alloc'"
    r"|(?!\s)(?!.*:\d+:\d+:).*(?:Cannot allocate memory|memory exhausted))",
    re.MULTILINE,
)


def says_out_of_memory(text: str) -> bool:
    """Whether a compiler's or linker's output says that it found no memory."""
    return _OUT_OF_MEMORY.search(text) is not None


def _exit_reason(status: int, stderr: str, *, timed_out: bool, oom_killed: bool) -> ExitReason:
    if timed_out:
        return ExitReason.TIMED_OUT
    if status == 0:
        return ExitReason.EXITED
    if says_out_of_memory(stderr) or (oom_killed and (status == -signal.SIGKILL or "Killed" in stderr)):
        return ExitReason.OUT_OF_MEMORY
    return ExitReason.SIGNALLED if status < 0 else ExitReason.EXITED


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """How a process ended; `output` is stdout, `errors` stderr."""

    status: int
    output: str
    errors: str


async def run_tool(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    directory: Path | None = None,
    meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None,
    timeout_s: float | None = None,
) -> ToolOutput:
    """Run to the end and return what it said, whatever its exit status; `meanwhile` runs beside it, to watch it.

    Raises `ToolchainError` when the program is missing or cannot be started, and when it takes over `timeout_s`.
    """
    name = os.fspath(arguments[0])
    try:
        # Cancelled between the start and its answer, only the direct child would be killed.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                [os.fspath(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                cwd=directory,
                env=dict(env),
                start_new_session=True,
            )
    except OSError as error:
        raise ToolchainError(f"cannot start {name}: {error.strerror}") from error
    streams: dict[str, bytes] = {}

    async def collect(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
        streams[name] = b"".join([chunk async for chunk in stream])

    assert process.stdout is not None  # noqa: S101 - opened with pipes
    assert process.stderr is not None  # noqa: S101
    try:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as outer:
                if meanwhile is not None:
                    outer.start_soon(meanwhile)
                async with anyio.create_task_group() as inner:
                    inner.start_soon(collect, "output", process.stdout)
                    inner.start_soon(collect, "errors", process.stderr)
                await process.wait()
                outer.cancel_scope.cancel()
        if limit.cancelled_caught:
            raise ToolchainError(f"{name} took over {timeout_s:g} s and was stopped")
        return ToolOutput(
            process.returncode if process.returncode is not None else -1,
            streams.get("output", b"").decode(errors="replace"),
            streams.get("errors", b"").decode(errors="replace"),
        )
    finally:
        kill_group(process.pid)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def kill_group(group: int) -> None:
    """Kill every process of a session that was started by its leader `group`; those already gone are no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_processes_in(folder: Path) -> None:
    inside = f"{os.path.realpath(folder)}{os.sep}"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            working_folder = os.readlink(entry / "cwd")  # noqa: PTH115  # as it is, resolved or deleted
        except OSError:
            continue  # it has ended, or is another user's
        if working_folder.startswith(inside):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(entry.name), signal.SIGKILL)
