"""`ckwatch farm up|status|down|certificates`: the machines that compile and time for a workspace."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.cli.command_words import workspace_at, workspace_if_any
from ckwatch.cli.output import Output
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.client.launch import last_words, started_apart
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, DiagnosedError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.version import __version__
from ckwatch.system.processes import ProcessHandle
from ckwatch.system.python_process import module_command
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.settings import FarmSection, Settings

if TYPE_CHECKING:
    from ckwatch.farm.connection import FarmConnection, ListedWorker


@dataclass(frozen=True, slots=True)
class FarmWorkerLine:
    """A worker: `compiles` at once with the workspace's toolchain, on a machine called `machine` (empty where it says
    nothing to this version); `devices` are what it times on."""

    address: str
    machine: str
    threads: int
    compiles: int
    executing: int
    toolchain: str
    devices: tuple[str, ...]
    problem: str | None


ENDED_S = 60.0
"""How long a cluster may take to end its workers before it is killed."""


IN_BETWEEN = "the farm is starting or stopping", "Try again in a moment."

UNPROTECTED = (
    "ckwatch: without certificates, every user of this machine can run programs as you through the farm; "
    "`ckwatch farm certificates` makes some"
)
"""Said of a farm on loopback without TLS."""


async def up(options: argparse.Namespace) -> int:
    """Start the cluster, and wait until its scheduler listens."""
    root, settings = _workspace(options)
    require_trust(root, options)
    farm = settings.farm
    if farm.cluster is None:
        raise CkwatchError(*_nothing_to_start(farm))
    from ckwatch.farm.certificates import require_packages
    from ckwatch.farm.cluster import cluster_log, is_up, running_cluster

    async with stoppable():
        require_packages()
        if await to_thread.run_sync(is_up, root):
            found = await to_thread.run_sync(running_cluster, root)
            if found is None:
                raise CkwatchError(*IN_BETWEEN)
            print(f"the farm is already up at {found.address}")
            return 0
        log = cluster_log(root)
        await started_apart("the farm", [*module_command("ckwatch.farm.cluster"), str(root)], log, kept=False)
        found = await to_thread.run_sync(running_cluster, root)
        if found is None:
            raise CkwatchError("the farm stopped while it was starting", f"{last_words(log)}its log is {log}")
        print(f"the farm is up at {found.address}")
        print(f"  process  {found.pid}\n  log      {log}")
        if found.address.startswith("tcp:"):
            print(UNPROTECTED, file=sys.stderr)
    return 0


def _nothing_to_start(farm: FarmSection) -> tuple[str, str]:
    from ckwatch.farm.certificates import AUTHORITY, MEMBER, MEMBER_KEY, default_certificates_folder

    if farm.scheduler is None:
        return (
            "[farm] of ckwatch.toml names no cluster to start",
            'Write `[farm]` with `cluster = "local"`, or with `scheduler = "tls://HOST:8786"` where one runs already.',
        )
    folder = farm.certificates or default_certificates_folder()
    files = (("ca-file", AUTHORITY), ("cert", MEMBER), ("key", MEMBER_KEY))
    tls = " ".join(f"--tls-{name} {shlex.quote(str(folder / file))}" for name, file in files)
    tls = f" {tls}" if farm.scheduler.startswith("tls:") else ""
    port = farm.scheduler.rpartition(":")[2]
    web = "--no-dashboard --dashboard-address 127.0.0.1:0"  # until the preloads stop dask's HTTP server
    protocol = " --protocol tls" if tls else " --host 127.0.0.1"
    return (
        f"[farm] names a scheduler that others start, {farm.scheduler}",
        "\n".join(
            [
                f"There: dask scheduler{protocol} --port {port} --preload ckwatch.farm.scheduler {web}{tls}",
                f"On each worker: dask worker {farm.scheduler} --preload ckwatch.farm.worker {web}{tls}",
            ]
        ),
    )


async def down(options: argparse.Namespace) -> int:
    """End the cluster and its workers."""
    root, settings = _workspace(options)
    if settings.farm.scheduler is not None:
        raise CkwatchError(
            f"[farm] names a scheduler that others start, {settings.farm.scheduler}",
            "End it where it was started.",
        )
    from ckwatch.farm.cluster import is_up, running_cluster

    async with stoppable():
        found = await to_thread.run_sync(running_cluster, root)
        if found is None:
            if await to_thread.run_sync(is_up, root):
                raise CkwatchError(*IN_BETWEEN)
            print("the farm is not up")
            return 0
        with suppress(ProcessLookupError), ProcessHandle(found.pid) as handle:
            for number in (signal.SIGTERM, signal.SIGKILL):
                handle.signal(number)
                with anyio.move_on_after(ENDED_S) as waiting:
                    await anyio.wait_readable(handle)
                if not waiting.cancelled_caught:
                    break
                print(f"the farm has not ended after {number.name}", file=sys.stderr)
        print(f"the farm is down (process {found.pid})")
    return 0


async def status(options: argparse.Namespace) -> int:
    """Show the scheduler and its workers. The exit status is 1 while the farm cannot be reached."""
    root, settings = _workspace(options)
    from ckwatch.farm.certificates import require_packages
    from ckwatch.farm.cluster import farm_address, farm_security
    from ckwatch.farm.connection import FarmConnection

    async with stoppable():
        farm, output = settings.farm, Output(options)
        if farm.scheduler is None and farm.cluster is None:
            raise CkwatchError(*_nothing_to_start(farm))
        require_packages()
        address = await to_thread.run_sync(farm_address, farm, root)
        if address is None:
            output.answer(up=False, cluster=farm.cluster, address=None, workers=())
            output.text("the farm is not up: `ckwatch farm up` starts it")
            return 1
        security = await to_thread.run_sync(farm_security, farm) if address.startswith("tls:") else None
        connection = await FarmConnection.open(address, security)
        try:
            await connection.refresh()
            identity = await to_thread.run_sync(_identity, settings)
            workers = tuple(_line(one, connection, identity) for one in connection.listed)
        finally:
            await connection.close()
        output.answer(up=True, cluster=farm.cluster, address=address, workers=workers)
        _show(output, address, workers)
    return 0


def _identity(settings: Settings) -> str:
    """That of the workspace's toolchain; empty without one."""
    from ckwatch.farm.messages import toolchain_identity

    try:
        toolchain = discover(settings.toolchain)
    except ToolchainError:
        return ""
    with ArtifactStore(settings.store.folder or default_folder()) as store:
        return toolchain_identity(toolchain, store.contents)


def _line(worker: ListedWorker, connection: FarmConnection, identity: str) -> FarmWorkerLine:
    from ckwatch.farm.messages import compile_resource

    known = next((one for one in connection.workers if one.address == worker.address), None)
    problem = None
    compiles = int(worker.resources.get(compile_resource(identity), 0)) if identity else 0
    if worker.address in connection.refused:
        problem = connection.refused[worker.address]
    elif known is None:
        versions = [name.split(":")[1] for name in worker.resources if name.startswith("ckwatch:")]
        problem = (
            f"it has ckwatch {versions[0]}, not {__version__}"
            if versions
            else "it starts, or was started without `--preload ckwatch.farm.worker`"
        )
    elif not known.facts.toolchain and not known.facts.devices:
        problem = "it has neither a toolchain nor a device"
    elif identity and not compiles and known.facts.toolchain:
        problem = "its toolchain or its Composable Kernel is another one than this workspace's"
    return FarmWorkerLine(
        address=worker.address,
        machine="" if known is None else known.facts.machine,
        threads=worker.threads,
        compiles=compiles,
        executing=worker.executing,
        toolchain="" if known is None else known.facts.toolchain,
        devices=() if known is None else tuple(f"{one.name} {one.description}" for one in known.facts.devices),
        problem=problem,
    )


def _show(output: Output, address: str, workers: Sequence[FarmWorkerLine]) -> None:
    compiles = sum(one.compiles for one in workers)
    output.text(f"{address}: {count(len(workers), 'worker')}, {count(compiles, 'compile')} at once", "bold")
    rows = [
        [
            one.machine or one.address,
            count(one.threads, "thread"),
            f"{count(one.compiles, 'compile')} at once",
            f"{one.executing} at work",
            ", ".join(one.devices),
            one.problem or one.toolchain,
        ]
        for one in workers
    ]
    output.table(rows)


def certificates(options: argparse.Namespace) -> int:
    """Make what is missing, and say what to copy where."""
    from ckwatch.farm.certificates import MEMBER_FILES, default_certificates_folder, make_certificates

    # certificates are the user's, not a workspace's
    farm = FarmSection() if workspace_if_any(options) is None else _workspace(options)[1].farm
    made = make_certificates(farm.certificates or default_certificates_folder(), tuple(options.names))
    output = Output(options)
    if made.new_authority:
        output.text(f"made an authority: {made.folder}", "bold")
    for folder in made.members:
        output.text(f"made a certificate: {folder}")
    if not made.members:
        output.text(f"the certificates in {made.folder} hold")
    for name in options.names:
        output.text(f"copy {', '.join(MEMBER_FILES)} of {made.folder / name} to {name}, into ~/.config/ckwatch/farm")
    output.text(
        "Who has a member's key can run programs on all workers of the farm: copy it over ssh, to its user alone."
    )
    return 0


def _workspace(options: argparse.Namespace) -> tuple[Path, Settings]:
    root = workspace_at(options)
    loaded = load_workspace(root)
    named = str(root / FILE_NAME)
    wrong = tuple(one for one in loaded.diagnostics if one.severity is Severity.ERROR and one.span.path == named)
    if wrong:  # what is not as it should be would be passed over
        raise DiagnosedError(wrong)
    return root, loaded.settings
