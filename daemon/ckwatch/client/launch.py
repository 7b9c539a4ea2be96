"""Finds the daemon of a workspace, starts it, and waits for its end.

A daemon that is being started reports over a pipe when it is ready, or why it cannot start: no one has to guess when to
retry, and its errors reach the user. If several clients start one at the same time, one daemon lives, the others report
that, and all clients connect to the one.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import IO

import anyio
from anyio import to_thread

from ckwatch.client.http import connection_to
from ckwatch.model.errors import CkwatchError, DaemonGoneError, DaemonSilentError, plain_errors
from ckwatch.system.file_locks import try_lock, unlock
from ckwatch.system.processes import ProcessHandle, ProcessStartError, signal_group, start
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.wire.endpoint import (
    PACKAGE,
    Endpoint,
    LockHolder,
    code_identity,
    endpoint_of,
    holder,
    owner,
    prepare_folder,
    unusable_lock,
)
from ckwatch.wire.readiness import LIMIT_BYTES, Readiness, parse

SAID_S = 5.0
"""A wait for a daemon that starts is said from then on."""

LOOK_S = 0.5
"""How often it is looked what the daemon does meanwhile."""

STOP_LIMIT_S = 10.0
"""How long a daemon may take to end."""

PAUSES_S = (0.01, 0.02, 0.05, 0.1)
"""Seconds between attempts to reach a daemon that another process has started; the last is repeated."""

DAEMON = module_command("ckwatch.server")

_LAST_WORDS = 10

_log = logging.getLogger(__name__)


async def find_daemon(root: Path) -> Endpoint | None:
    """The endpoint of the workspace's daemon if one answers requests, which one that still starts does not. Raises
    DaemonSilentError for one that a signal has stopped, and CkwatchError when the socket's folder is not the user's
    own."""
    endpoint = await to_thread.run_sync(_endpoint, root)
    return endpoint if await _answers(endpoint) else None


async def ensure_daemon(root: Path, *, program: Sequence[str] = DAEMON) -> Endpoint:
    """The endpoint of the workspace's daemon, which is started if there is none; it is waited for as long as its
    process lives, with a warning in the log now and then.

    Raises UntrustedError where that would run code of a workspace that is not trusted, DaemonGoneError for a daemon
    that dies, DaemonSilentError for one that a signal has stopped, and CkwatchError with its own words for one that
    cannot start.
    """
    found = await find_daemon(root)
    if found is not None:
        return found
    await to_thread.run_sync(_require_trusted, root)
    endpoint = await to_thread.run_sync(_endpoint, root)
    async with plain_errors(), anyio.create_task_group() as tasks:
        tasks.start_soon(_tell_waits, endpoint)
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            if await _started_alone(root, endpoint, program):
                break
            # the other daemon is there, begins or ends
            await anyio.sleep(pause_s)
            if await _answers(endpoint):
                break
        tasks.cancel_scope.cancel()
    return endpoint


async def _tell_waits(endpoint: Endpoint) -> None:
    begun_s = anyio.current_time()
    wait = StartWait()
    while True:
        await anyio.sleep(LOOK_S)
        found = await to_thread.run_sync(holder, endpoint)
        _require_running(found)
        if (line := wait.line(anyio.current_time() - begun_s, found)) is not None:
            _log.warning(line)


async def not_there(root: Path) -> DaemonGoneError:
    """The error for a workspace whose daemon does not answer and may not be started."""
    found = await to_thread.run_sync(lambda: holder(endpoint_of(root)))
    if found is None or not found.starting:
        return DaemonGoneError(f"there is no daemon for {root}", "`ckwatch start` starts one")
    hint = f"process {found.process}; `ckwatch stop` ends it"
    return DaemonGoneError(f"the daemon of {root} still starts: {found.starting}", hint)


class StartWait:
    """Messages about a daemon that takes long to start: after some seconds, when it does something else, and when it
    has taken twice as long."""

    def __init__(self) -> None:
        self._printed = ""
        self._next_s = SAID_S

    def line(self, passed_s: float, found: LockHolder | None) -> str | None:
        """Return the message after `passed_s`, None for nothing; `found` has the daemon's lock."""
        doing = "its process starts" if found is None else found.starting or "it ends"
        if passed_s < SAID_S or (doing == self._printed and passed_s < self._next_s):
            return None
        self._printed, self._next_s = doing, 2 * passed_s
        stop = "" if found is None else f"; process {found.process}, `ckwatch stop` ends it"
        return f"Waiting for the daemon ({passed_s:.0f} s): {doing}{stop}"


def _require_running(found: LockHolder | None) -> None:
    if found is not None and found.stopped:
        number = found.process
        raise DaemonSilentError(
            f"the daemon, process {number}, is stopped (SIGSTOP) and does not answer",
            f"`kill -CONT {number}` lets it go on; `ckwatch stop` ends it",
        )


@contextmanager
def end_of(process: int) -> Iterator[Callable[[], Awaitable[None]]]:
    """A function that waits until the process has ended. It must be there now."""
    with ExitStack() as stack:
        handle = None
        with suppress(OSError):  # it cannot be seen from here
            handle = stack.enter_context(ProcessHandle(process)) if process != os.getpid() else None

        async def ended() -> None:
            if handle is None:
                return
            with anyio.move_on_after(STOP_LIMIT_S) as waiting:
                await anyio.wait_readable(handle)
            if waiting.cancelled_caught:
                raise CkwatchError(f"the daemon has not ended within {STOP_LIMIT_S:.0f} s", f"`kill {process}` ends it")

        yield ended


def trust(root: Path) -> None:
    """Put the workspace on the user's list. Raises CkwatchError when that cannot be written."""
    from ckwatch.workspace import trust

    trust.trust(root)


def installed_code(package: Path) -> bytes:
    """Changes with every edit of the Python files of `package` and of ckwatch itself: those that are there, not those
    that run. Raises OSError while they are being replaced."""
    return b"\0".join((code_identity(PACKAGE), code_identity(package)))


def _require_trusted(root: Path) -> None:
    from ckwatch.workspace.trust import require_trusted

    require_trusted(root)


def _endpoint(root: Path) -> Endpoint:
    endpoint = endpoint_of(root)
    prepare_folder(endpoint.socket.parent)
    return endpoint


async def _answers(endpoint: Endpoint) -> bool:
    with suppress(DaemonGoneError):
        (await connection_to(endpoint.socket)).close()
        found = await to_thread.run_sync(holder, endpoint)
        _require_running(found)
        return found is None or not found.starting
    return False


async def _started_alone(root: Path, endpoint: Endpoint, program: Sequence[str]) -> bool:
    """`_started`, unless another process is at it: a hundred that lose their daemon start one."""
    path = endpoint.lock.with_suffix(".starting")
    try:
        lock = await to_thread.run_sync(try_lock, path)
    except OSError as error:
        raise unusable_lock(path, error) from error
    if lock is None:
        return False
    try:
        if await _answers(endpoint):
            return True
        # one whose client was interrupted goes on starting
        if await to_thread.run_sync(owner, endpoint) is not None:
            return False
        return await _started(root, endpoint, program)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(unlock, path, lock)


async def _started(root: Path, endpoint: Endpoint, program: Sequence[str]) -> bool:
    """Start a daemon; whether it is ready, else another one has the workspace. Raises as `ensure_daemon`."""
    readiness = await started_apart("the daemon", [*program, str(root)], endpoint.log)
    if readiness.state == "died":
        words = await to_thread.run_sync(last_words, endpoint.log)
        raise DaemonGoneError("the daemon died while it started", f"{words}its log is {endpoint.log}")
    return readiness.state == "ready"


async def started_apart(name: str, command: Sequence[str], log: Path, *, kept: bool = True) -> Readiness:
    """Start a process that parts from this one, and wait for its report, or its end. Its output goes to `log`. Raises
    CkwatchError where it cannot be started, or with its own words if it has failed. One that is not `kept` ends when
    this is cancelled."""
    read_fd, write_fd = os.pipe()
    group: int | None = None
    try:
        os.set_blocking(read_fd, False)
        try:
            group = await to_thread.run_sync(_spawn, name, command, log, write_fd)
        finally:
            os.close(write_fd)
        readiness = parse(await _report_of(read_fd))
    except BaseException:
        if group is not None and not kept:
            signal_group(group, signal.SIGTERM)
        raise
    finally:
        os.close(read_fd)
    if readiness.state == "failed":
        raise CkwatchError(readiness.message, readiness.hint)
    return readiness


async def _report_of(read_fd: int) -> bytes:
    """All that comes through the pipe of a starting process, which ends with its report."""
    received = b""
    while len(received) < LIMIT_BYTES:
        await anyio.wait_readable(read_fd)
        data = os.read(read_fd, LIMIT_BYTES)
        if not data:
            break
        received += data
    return received


def _spawn(name: str, command: Sequence[str], log: Path, write_fd: int) -> int:
    """Start the process; its group. It parts by itself, which is why its first process is waited for."""
    try:
        with _log_file(log) as file:
            first = start(
                [*command, "--ready-fd", str(write_fd)],
                environment=module_environment(),
                folder=Path("/"),
                stdout=file,
                stderr=file,
                pass_fds=(write_fd,),
            )
            first.wait()
            first.close()
            return first.pid
    except ProcessStartError as error:
        raise CkwatchError(f"{name} cannot be started: {error.program}: {error.reason}") from error
    except OSError as error:
        raise CkwatchError(f"{name} cannot be started: {error}") from error


def _log_file(path: Path) -> IO[bytes]:
    """The log, or nowhere to write to: the daemon warns of a state folder that cannot be written, and works."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists() or path.is_file():  # a FIFO would block who opens it
            return path.open("ab")
    return open(os.devnull, "wb")  # noqa: PTH123  # no path of anybody's


def last_words(log: Path) -> str:
    """The last lines of a log. Blocks; call from a worker thread."""
    with suppress(OSError), log.open(encoding="utf-8", errors="replace") as file:
        return "".join(deque(file, _LAST_WORDS))
    return ""
