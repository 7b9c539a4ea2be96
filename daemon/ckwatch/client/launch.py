"""Finds the daemon of a workspace, starts it, and waits for its end.

A daemon that is being started reports over a pipe when it is ready, or why it cannot start: no one has to guess when to
retry, and its errors reach the user. If several clients start one at the same time, one daemon lives, the others report
that, and all clients connect to the one.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import IO

import anyio
from anyio import to_thread

from ckwatch.client.errors import DaemonGoneError
from ckwatch.client.http import connection_to
from ckwatch.model.errors import CkwatchError
from ckwatch.system.file_locks import try_lock, unlock
from ckwatch.system.processes import ProcessHandle, ProcessStartError, start
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.wire.endpoint import PACKAGE, Endpoint, code_identity, endpoint_of, prepare_folder, unusable_lock
from ckwatch.wire.readiness import LIMIT_BYTES, Readiness, parse

START_LIMIT_S = 30.0
"""How long a daemon may take until it answers."""

STOP_LIMIT_S = 10.0
"""How long a daemon may take to end."""

PAUSES_S = (0.01, 0.02, 0.05, 0.1)
"""Seconds between attempts to reach a daemon that another process has started; the last is repeated."""

DAEMON = module_command("ckwatch.server")

_LAST_WORDS = 10


async def find_daemon(root: Path) -> Endpoint | None:
    """The endpoint of the workspace's daemon if one accepts connections.

    Raises CkwatchError when the socket's folder is not the user's own.
    """
    endpoint = await to_thread.run_sync(_endpoint, root)
    return endpoint if await _answers(endpoint) else None


async def ensure_daemon(root: Path, *, program: Sequence[str] = DAEMON) -> Endpoint:
    """The endpoint of the workspace's daemon, which is started if there is none.

    Raises UntrustedError where that would run code of a workspace that is not trusted, DaemonGoneError for a daemon
    that dies or is not ready in time, and CkwatchError with its own words for one that cannot start.
    """
    found = await find_daemon(root)
    if found is not None:
        return found
    await to_thread.run_sync(_require_trusted, root)
    endpoint = await to_thread.run_sync(_endpoint, root)
    with anyio.move_on_after(START_LIMIT_S):
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            if await _started_alone(root, endpoint, program):
                return endpoint
            # the other daemon is there, begins or ends
            await anyio.sleep(pause_s)
            if await _answers(endpoint):
                return endpoint
    message = f"the daemon of {root} is not ready {START_LIMIT_S:.0f} s after its start"
    raise DaemonGoneError(message, f"its log is {endpoint.log}")


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
        return True
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
        return await _answers(endpoint) or await _started(root, endpoint, program)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(unlock, path, lock)


async def _started(root: Path, endpoint: Endpoint, program: Sequence[str]) -> bool:
    """Start a daemon; whether it is ready, else another one has the workspace. Raises as `ensure_daemon`."""
    read_fd, write_fd = os.pipe()
    try:
        os.set_blocking(read_fd, False)
        try:
            await to_thread.run_sync(_spawn, root, endpoint, program, write_fd)
        finally:
            os.close(write_fd)
        readiness = parse(await report_of(read_fd))
    finally:
        os.close(read_fd)
    return await to_thread.run_sync(_ready, readiness, endpoint)


def _ready(readiness: Readiness, endpoint: Endpoint) -> bool:
    if readiness.state == "failed":
        raise CkwatchError(readiness.message, readiness.hint)
    if readiness.state == "died":
        raise DaemonGoneError(
            "the daemon died while it started", f"{last_words(endpoint.log)}its log is {endpoint.log}"
        )
    return readiness.state == "ready"


async def report_of(read_fd: int) -> bytes:
    """All that comes through the pipe of a starting process, which ends with its report."""
    received = b""
    while len(received) < LIMIT_BYTES:
        await anyio.wait_readable(read_fd)
        data = os.read(read_fd, LIMIT_BYTES)
        if not data:
            break
        received += data
    return received


def _spawn(root: Path, endpoint: Endpoint, program: Sequence[str], write_fd: int) -> None:
    """Start the daemon. It parts from this process by itself, which is why its first process is waited for."""
    try:
        with _log_file(endpoint.log) as log:
            first = start(
                [*program, str(root), "--ready-fd", str(write_fd)],
                environment=module_environment(),
                folder=Path("/"),
                stdout=log,
                stderr=log,
                pass_fds=(write_fd,),
            )
            first.wait()
            first.close()
    except ProcessStartError as error:
        raise CkwatchError(f"the daemon cannot be started: {error.program}: {error.reason}") from error
    except OSError as error:
        raise CkwatchError(f"the daemon cannot be started: {error}") from error


def _log_file(path: Path) -> IO[bytes]:
    """The log, or nowhere to write to: the daemon warns of a state folder that cannot be written, and works."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists() or path.is_file():  # a FIFO would block who opens it
            return path.open("ab")
    return open(os.devnull, "wb")  # noqa: PTH123  # no path of anybody's


def last_words(log: Path) -> str:
    """The last lines of a log; for a thread."""
    with suppress(OSError), log.open(encoding="utf-8", errors="replace") as file:
        return "".join(deque(file, _LAST_WORDS))
    return ""
