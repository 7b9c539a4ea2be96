"""`ckwatch start`, `stop`, `restart` and `status`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.cli.command_words import dependency, workspace_at
from ckwatch.cli.output import Output, aligned
from ckwatch.cli.session import what_goes_on
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.client import DaemonGoneError, connect
from ckwatch.model.amounts import count, duration, memory
from ckwatch.model.errors import CkwatchError
from ckwatch.model.version import __version__
from ckwatch.system.processes import ProcessHandle
from ckwatch.wire.endpoint import Endpoint, endpoint_of, holder, owner
from ckwatch.workspace.discovery import FILE_NAME

if TYPE_CHECKING:
    from ckwatch.wire.state import FarmStatus, Status

NOT_RUNNING = 3
"""Exit status of `ckwatch status` when there is no daemon, as of init scripts."""

ASKED_S = 10.0
"""How long a daemon that is asked to end may take until it is sent SIGTERM."""

TERMINATED_S = 5.0
"""How long it may then take until it is sent SIGKILL."""


def start(options: argparse.Namespace) -> int:
    """Start the daemon in the background, or be it."""
    root = workspace_at(options)
    require_trust(root, options)
    if options.foreground:
        return _be_daemon(root)
    return anyio.run(_start, root)


def stop(options: argparse.Namespace) -> int:
    """End the daemon."""
    return anyio.run(_stop, known_workspace(options), dependency(options, "patience_s", (ASKED_S, TERMINATED_S)))


def restart(options: argparse.Namespace) -> int:
    """End the daemon and start another."""
    root = workspace_at(options)
    require_trust(root, options)
    anyio.run(_stop, root)
    return anyio.run(_start, root)


def status(options: argparse.Namespace) -> int:
    """Print what the daemon is and does."""
    return anyio.run(partial(_status, known_workspace(options), Output(options)))


def known_workspace(options: argparse.Namespace) -> Path:
    """The workspace by `workspace_at`; also one that has been deleted, if a daemon still runs for it."""
    try:
        return workspace_at(options)
    except CkwatchError:
        with suppress(OSError):
            # the kernel marks a working folder that is gone
            here = options.workspace or Path(os.readlink("/proc/self/cwd").removesuffix(" (deleted)"))  # noqa: PTH115
            begin = Path(os.path.abspath(here))  # noqa: PTH100  # links to it may be gone too
            for folder in (begin, *begin.parents):
                if owner(endpoint_of(folder)) is not None:
                    return folder
        raise


def _be_daemon(root: Path) -> int:
    import logging

    from ckwatch.engine.bootstrap import open_engine
    from ckwatch.server import TAKEN
    from ckwatch.server.daemon import run_daemon
    from ckwatch.server.logs import logging_to

    with logging_to(logging.StreamHandler()):
        ended = anyio.run(partial(run_daemon, root, open_engine=open_engine))
    if ended == TAKEN:
        raise CkwatchError(
            f"the daemon of {root} is already running{_named(endpoint_of(root))}", "`ckwatch stop` stops it"
        )
    return ended


def _named(endpoint: Endpoint) -> str:
    process = owner(endpoint)
    return "" if process is None else f", process {process}"


def _farm_words(farm: FarmStatus) -> str:
    slots = f"{count(farm.slots, 'compile')} at once, {farm.compiling} at work"
    return f"{farm.address}: {count(farm.workers, 'worker')}, {slots}"


async def _start(root: Path) -> int:
    async with stoppable():
        endpoint = endpoint_of(root)
        before = await to_thread.run_sync(owner, endpoint)
        async with what_goes_on(root), connect(root, client_name="start") as client:
            process = (await client.status()).pid
    print("the daemon is already running" if process == before else "started the daemon")
    rows = (("process", process), ("workspace", root), ("socket", endpoint.socket), ("log", endpoint.log))
    for line in aligned([(name, str(value)) for name, value in rows]):
        print(f"  {line}")
    return 0


async def _stop(root: Path, patience_s: tuple[float, float] = (ASKED_S, TERMINATED_S)) -> int:
    async with stoppable():
        endpoint = endpoint_of(root)
        process = await to_thread.run_sync(owner, endpoint)
        if process is None:
            print("the daemon is not running")
            return 0
        try:
            handle = ProcessHandle(process)
        except ProcessLookupError:
            print("stopped the daemon")
            return 0
        with handle:
            how = await _ended(root, endpoint, process, handle, patience_s)
    print(f"stopped the daemon{how} (process {process})")
    return 0


async def _ended(
    root: Path, endpoint: Endpoint, process: int, handle: ProcessHandle, patience_s: tuple[float, float]
) -> str:
    """Ask the daemon to end, then make it; says how far that went. `patience_s`: `ASKED_S` and `TERMINATED_S`."""
    asked_s, terminated_s = patience_s
    is_ours = await to_thread.run_sync(_has_open, process, endpoint.lock)
    if is_ours:
        handle.signal(signal.SIGCONT)  # one that was stopped cannot answer
    with anyio.move_on_after(asked_s) as asking:
        # one that does not answer, or not as it should, is seen to below
        with suppress(CkwatchError):
            try:
                async with connect(root, start=False, client_name="stop") as client:
                    await client.stop()
            except CkwatchError:
                found = await to_thread.run_sync(holder, endpoint)
                starts = found is not None and bool(found.starting)
                if is_ours and (starts or not (root / FILE_NAME).exists()):
                    # one that starts answers nobody, and no client finds a workspace that is gone; this asks as well
                    handle.signal(signal.SIGTERM)
                raise
        await anyio.wait_readable(handle)
    if not asking.cancelled_caught:
        return ""
    if not is_ours:
        raise CkwatchError(
            f"the daemon does not answer, and process {process} is not it",
            f"stop the ckwatch that holds {endpoint.lock}, perhaps in another container",
        )
    for number in (signal.SIGTERM, signal.SIGKILL):
        print(f"the daemon has not stopped; sending {number.name} to process {process}", file=sys.stderr)
        handle.signal(number)
        with anyio.move_on_after(terminated_s) as waiting:
            await anyio.wait_readable(handle)
        if not waiting.cancelled_caught:
            return f" by {number.name}"
    raise CkwatchError(f"process {process} does not end", "the system holds it, perhaps for a disk that is gone")


def _has_open(process: int, path: Path) -> bool:
    """Return True if the process has the file open: the number alone may be another's, of another container."""
    with suppress(OSError):
        return any(os.path.realpath(entry) == str(path) for entry in Path(f"/proc/{process}/fd").iterdir())
    return False


async def _status(root: Path, output: Output) -> int:
    async with stoppable():
        endpoint = endpoint_of(root)
        process = await to_thread.run_sync(owner, endpoint)
        running = process is not None
        if running and not await to_thread.run_sync((root / FILE_NAME).exists):
            output.answer(running=True, root=root, pid=process)
            output.text(f"a daemon runs, process {process}; its workspace is gone: `ckwatch stop -C {root}` ends it")
            return 0
        found: Status | None = None
        compiling: list[str] = []
        slow: list[str] = []
        if running:
            try:
                async with connect(root, start=False, client_name="status") as client:
                    at_work = [unit for unit in await client.units() if unit.phase == "compiling"]
                    compiling = [unit.id for unit in at_work]
                    slow = [f"{unit.id}: {unit.slow}" for unit in at_work if unit.slow]
                    found = await client.status()
            except DaemonGoneError:
                holds = await to_thread.run_sync(holder, endpoint)
                if holds is not None and holds.starting:
                    raise
    if found is None:
        output.answer(running=False, root=root, version=__version__)
        output.text(f"no daemon is running for {root}")
        return NOT_RUNNING
    output.answer(found, running=True, socket=endpoint.socket, log_file=endpoint.log, compiling=compiling)
    output.text(f"the daemon runs: ckwatch {found.version}, process {found.pid}, for {duration(found.uptime_s)}")
    output.table([(name, str(value)) for name, value in _rows(found, compiling, slow, endpoint)])
    return 0


def _rows(found: Status, compiling: Sequence[str], slow: Sequence[str], endpoint: Endpoint) -> list[tuple[str, object]]:
    phases = ", ".join(f"{number} {name}" for name, number in found.phases.items() if number)
    outcomes = ", ".join(f"{number} {name}" for name, number in found.outcomes.items() if number)
    idle = f"after {duration(found.idle_exit_s)} without clients and work" if found.idle_exit_s else "never"
    return [
        ("workspace", found.root),
        ("units", f"{found.unit_count}{f': {phases}' if phases else ''}"),
        ("results", outcomes or "none yet"),
        *(("compiles", unit) for unit in compiling),
        *(("slow", text) for text in slow),
        ("toolchain", found.toolchain or "not looked for yet"),
        *(
            (f"with {name}", ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "none yet")
            for name, counts in found.other_toolchains.items()
        ),
        *(() if found.farm is None else (("farm", _farm_words(found.farm)),)),
        *((("meanwhile", "precompiles headers"),) if found.precompiling and not found.busy else ()),
        ("clients", found.clients),
        ("memory", memory(found.memory_bytes)),
        ("idle exit", idle),
        ("socket", endpoint.socket),
        ("log", endpoint.log),
        *(("warning", f"{topic}: {line}") for topic, text in found.warnings.items() for line in text.splitlines()),
    ]
