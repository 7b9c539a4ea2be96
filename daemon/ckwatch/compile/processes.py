"""Running a compiler so that nothing of it survives.

Each process leads a session of its own; on cancellation, timeout and error the whole group is ended, first politely,
and the call returns only when it has gone. Even after a normal end the group is swept, so that a forgotten child
neither runs on nor holds a pipe open. The end of the process is awaited through a pidfd, which leaves its exit status
and resource usage to one `wait4`.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread

from ckwatch.compile.priority import stand_back
from ckwatch.errors import ToolchainError

OnLine = Callable[[str], None]

_OUTPUT_LIMIT_BYTES = 16 * 2**20
_GRACE_S = 2.0
_SWEEP_S = 10.0
_LAST_WORDS_S = 2.0
_CHUNK_BYTES = 1 << 16


class Verdict(StrEnum):
    """How a process ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended.

    `exit_status` is negative for a signal. `stdout` and `stderr` hold at most the limit each; `dropped_bytes` counts
    what went beyond it. `peak_memory_bytes` is the largest resident set of any process that it waited for.
    """

    arguments: tuple[str, ...]
    verdict: Verdict
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


class _Capture:
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


Launcher = Callable[..., Awaitable[Finished]]
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
) -> Finished:
    """Run `arguments` in `folder` with exactly `environment`, without input, and wait for its end.

    `on_line` gets each line of standard error without its newline, as it is written. A process past `timeout_s` is
    ended and reported as timed out. `nice` is added to its niceness. Raises ToolchainError when it cannot be started.
    """
    begin = time.monotonic()
    with anyio.CancelScope(shield=True):
        process = await anyio.to_thread.run_sync(_start, tuple(arguments), dict(environment), folder)
    stdout = _Capture(output_limit_bytes, None)
    stderr = _Capture(output_limit_bytes, on_line)
    timed_out = swept = False
    try:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as readers:
                readers.start_soon(_drain, process.stdout, stdout)
                readers.start_soon(_drain, process.stderr, stderr)
                async with anyio.create_task_group() as meanwhile:
                    meanwhile.start_soon(stand_back, process.pid, nice)
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
    verdict = _verdict(ended.status, text, timed_out=timed_out, oom_killed=ended.oom_kills > process.oom_kills)
    return Finished(
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
class _Ended:
    status: int
    peak_memory_bytes: int
    oom_kills: int


class _Process:
    """A started process and its three descriptors, which `reap` closes."""

    def __init__(self, popen: subprocess.Popen[bytes], stdout: IO[bytes], stderr: IO[bytes], oom_kills: int) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.stdout = stdout
        self.stderr = stderr
        self.pidfd = os.pidfd_open(popen.pid)
        self.oom_kills = oom_kills

    def reap(self) -> _Ended:
        """Take the exit status of a process that has ended."""
        _, status, usage = os.wait4(self.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        os.close(self.pidfd)
        self.stdout.close()
        self.stderr.close()
        return _Ended(self._popen.returncode, usage.ru_maxrss * 1024, oom_kills())


def _start(arguments: tuple[str, ...], environment: dict[str, str], folder: Path) -> _Process:
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
        return _Process(popen, stdout, stderr, kills)
    except BaseException:
        _signal_group(popen.pid, signal.SIGKILL)
        popen.communicate()
        raise


async def _drain(pipe: IO[bytes], capture: _Capture) -> None:
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
    if not await _alive(group):
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
        while await _alive(group):
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return True
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _alive(group: int) -> bool:
    """Whether a process of `group` still runs. Zombies do not count: their parent may never ask for them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return await anyio.to_thread.run_sync(_runs, group)


def _runs(group: int) -> bool:
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


def _verdict(status: int, stderr: str, *, timed_out: bool, oom_killed: bool) -> Verdict:
    if timed_out:
        return Verdict.TIMED_OUT
    if status == 0:
        return Verdict.EXITED
    if says_out_of_memory(stderr) or (oom_killed and (status == -signal.SIGKILL or "Killed" in stderr)):
        return Verdict.OUT_OF_MEMORY
    return Verdict.SIGNALLED if status < 0 else Verdict.EXITED


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
