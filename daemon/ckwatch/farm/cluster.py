"""The cluster of a workspace: a scheduler on this machine and workers where `[farm] cluster` starts them.

`python -P -m ckwatch.farm.cluster ROOT --ready-fd N` is its process. `ckwatch farm up` starts it and `ckwatch farm
down` ends it, with SIGTERM; it holds a lock as long as it lives, and says in a file beside the daemon's log where its
scheduler listens. Where it is killed, workers see that their scheduler is gone and end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_dir

from ckwatch.farm.certificates import default_certificates_folder, require_packages, security_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file
from ckwatch.system.file_locks import is_locked, try_lock, unlock
from ckwatch.system.installation import command_for_extra
from ckwatch.system.python_process import shell_python
from ckwatch.system.user_files import read_file
from ckwatch.wire import readiness
from ckwatch.wire.endpoint import endpoint_of
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.settings import FarmSection
from ckwatch.workspace.trust import require_trusted

if TYPE_CHECKING:
    from distributed import Security, SpecCluster

log = logging.getLogger(__name__)

PRELOAD, SCHEDULER_PRELOAD = "ckwatch.farm.worker", "ckwatch.farm.scheduler"
WORKER_TTL = "60s"
"""A worker that has not reported for so long is taken to be gone."""

DEATH_TIMEOUT_S = 60
"""A worker that has had no scheduler for so long ends."""

REPLACED_S = 30.0
"""How often workers are started again that have ended: a killed job, a host that is back."""

CONNECT_OPTIONS = {"connect_timeout": 20, "keepalive_interval": 15}
"""Of ssh, in seconds, so that a host that is gone is noticed."""

ON_LOOPBACK = "127.0.0.1:0"
"""The address of the HTTP server that dask starts beside everything, until the preloads stop it."""

CONFIGURATION = {
    "distributed.scheduler.worker-ttl": WORKER_TTL,
    "distributed.worker.daemon": False,
}
"""Of dask, in the cluster's process and those that it starts itself."""

LOCAL_OPTIONS = ("threads_per_worker", "memory_limit", "local_directory", "env", "interface")

QUEUES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
    "moab": "MoabCluster",
}
"""The class of dask-jobqueue for each kind of cluster."""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """The address of a cluster's scheduler, and the cluster's process."""

    address: str
    pid: int


def cluster_file(root: Path) -> Path:
    """Return the file in which the cluster of the workspace at `root` is described; its lock is beside it."""
    return endpoint_of(root).log.with_name("farm.json")


def cluster_log(root: Path) -> Path:
    """Return the log of the cluster's process and its workers on this machine."""
    return endpoint_of(root).log.with_name("farm.log")


def _lock_of(root: Path) -> Path:
    return cluster_file(root).with_suffix(".lock")


def is_up(root: Path) -> bool:
    """Return True if a cluster's process is alive."""
    return is_locked(_lock_of(root))


def running_cluster(root: Path) -> RunningCluster | None:
    """The workspace's cluster; None while it is not up."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_up(root):
            found = json.loads(read_file(cluster_file(root)))
            return RunningCluster(str(found["address"]), int(found["pid"]))
    return None


def farm_address(settings: FarmSection, root: Path) -> str | None:
    """Return the address of the farm's scheduler, or None if the workspace's own cluster is not up. Blocks; call from a
    worker thread."""
    if settings.scheduler is not None:
        return settings.scheduler
    found = running_cluster(root)
    return None if found is None else found.address


def farm_security(settings: FarmSection) -> Security | None:
    """The certificates; None for a cluster on this machine alone that has none. Raises CkwatchError."""
    folder = settings.certificates or default_certificates_folder()
    if settings.cluster == "local" and not folder.is_dir():
        return None
    return security_of(folder)


def make_cluster(settings: FarmSection, security: Security | None, logs: Path) -> SpecCluster:
    """The cluster that the settings describe, not started yet; jobs print into the folder `logs`. Raises CkwatchError
    for options that are none."""
    options = dict(settings.options)
    try:
        if settings.cluster == "local":
            return _local(settings, security, options)
        if settings.cluster == "ssh":
            return _ssh(settings, security, options)
        return _queue(settings, security, options, logs)
    except ImportError as error:
        raise CkwatchError(
            f"a farm needs more packages: {error.name} is not installed", command_for_extra("farm")
        ) from error
    except TypeError as error:
        raise CkwatchError(
            f"the cluster does not take these options: {error}", "See [farm.options] of ckwatch.toml."
        ) from error
    except (ValueError, RuntimeError) as error:
        raise CkwatchError(f"the cluster cannot be made: {error}", "See [farm] of ckwatch.toml.") from error


def _local(settings: FarmSection, security: Security | None, options: dict[str, Any]) -> SpecCluster:
    from distributed import LocalCluster

    cores = len(os.sched_getaffinity(0))
    defaults = {
        "threads_per_worker": max(1, cores // settings.workers),
        "memory_limit": 0,
        "local_directory": user_cache_dir("ckwatch"),
    }
    if unknown := options.keys() - LOCAL_OPTIONS:
        raise TypeError(f"{', '.join(unknown)}; there are {', '.join(LOCAL_OPTIONS)}")
    return LocalCluster(
        n_workers=settings.workers,
        host="127.0.0.1",
        scheduler_port=settings.port,
        protocol="tcp://" if security is None else "tls://",
        security=security,
        processes=True,
        dashboard_address=None,
        preload=[PRELOAD],
        scheduler_kwargs={"preload": [SCHEDULER_PRELOAD]},
        death_timeout=DEATH_TIMEOUT_S,
        asynchronous=True,
        **defaults | options,
    )


def _ssh(settings: FarmSection, security: Security | None, options: dict[str, Any]) -> SpecCluster:
    """As dask's SSHCluster, with the scheduler in this process.

    dask puts its configuration on the workers' command lines, which every user there reads. It stays without the
    sections of other programs, where their passwords and tokens are.
    """
    import dask.config
    from distributed import Scheduler, SpecCluster

    for section in dask.config.config.keys() - set().union(*dask.config.defaults):
        del dask.config.config[section]

    from ckwatch.farm.ssh_worker import SshWorker

    scheduler = {"cls": Scheduler, "options": _scheduler(settings, security, options)}
    remote = {
        "connect_options": CONNECT_OPTIONS | options.pop("connect_options", {}),
        "remote_python": options.pop("remote_python", shell_python()),
        "worker_class": "ckwatch.farm.ssh_worker.CertifiedNanny",
        "kwargs": {
            "certificates": None if settings.certificates is None else str(settings.certificates),
            "of_host": settings.workers,
            "n_workers": settings.workers,
            "preload": [PRELOAD],
            "death_timeout": DEATH_TIMEOUT_S,
            **options.pop("worker_options", {}),
        },
    }
    if options:
        known = "connect_options, remote_python, worker_options and scheduler_options"
        raise TypeError(f"{', '.join(options)}; there are {known}")
    workers = {host: {"cls": SshWorker, "options": {**remote, "address": host}} for host in settings.hosts}
    return SpecCluster(workers, scheduler, security=security, asynchronous=True, name="ckwatch")


def _queue(settings: FarmSection, security: Security | None, options: dict[str, Any], logs: Path) -> SpecCluster:
    """Workers as jobs."""
    import dask_jobqueue

    kind = getattr(dask_jobqueue, QUEUES[settings.cluster or "slurm"])
    program = kind.job_cls.submit_command.split()[0]
    if shutil.which(program) is None:
        raise CkwatchError(
            f"jobs cannot be submitted here: there is no `{program}`",
            "Run `ckwatch farm up` on a machine from which jobs are submitted.",
        )
    folder = str(settings.certificates or default_certificates_folder())
    if shlex.quote(folder) != folder:
        raise CkwatchError(f"the script of a job cannot name {folder}", "Let [farm] certificates name a plain path.")
    web = ("--no-dashboard", "--dashboard-address", ON_LOOPBACK)
    defaults = {
        "cores": 1,
        "processes": 1,
        "memory": "4 GiB",
        "log_directory": str(logs),
        "python": shell_python(),
    }
    try:
        made: SpecCluster = kind(
            n_workers=0,
            scheduler_options=_scheduler(settings, security, options),
            security=security,
            protocol="tls://",
            asynchronous=True,
            worker_extra_args=["--preload", PRELOAD, *web, *options.pop("worker_extra_args", [])],
            death_timeout=DEATH_TIMEOUT_S,
            **defaults | options,
        )
    except ValueError as error:
        raise (error.__cause__ if isinstance(error.__cause__, TypeError) else error) from None
    return made


def _scheduler(settings: FarmSection, security: Security | None, options: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = options.pop("scheduler_options", {})
    own = {"port": settings.port, "protocol": "tls://", "security": security}
    return given | own | {"dashboard": False, "dashboard_address": ON_LOOPBACK, "preload": [SCHEDULER_PRELOAD]}


async def complete(cluster: Any) -> str | None:
    """Start the workers that are missing; why one could not be started. Others are there nevertheless."""
    from distributed.core import Status

    for name, worker in [*cluster.workers.items()]:
        if worker.status in (Status.created, Status.closed, Status.failed):
            del cluster.workers[name]  # it has ended, or was not to be started the last time
    try:
        await cluster
    except Exception as error:  # noqa: BLE001  # of the library, of ssh, of programs that submit jobs
        log.warning("a worker cannot be started: %s", error)
        of_hosts = sorted(one for worker in cluster.workers.values() if (one := getattr(worker, "failure", None)))
        return "; ".join(of_hosts) or str(error).rpartition("stderr:\n")[2].strip()  # what a submitting program says
    return None


async def start(cluster: Any, settings: FarmSection) -> None:
    """Start the scheduler and the workers. Raises CkwatchError where none can be started."""
    from distributed.core import Status

    why = await complete(cluster)
    if why is None and settings.cluster in QUEUES:
        cluster.scale(jobs=settings.workers)
        why = await complete(cluster)
    running = any(one.status is Status.running for one in cluster.workers.values())
    if why is not None and not running:
        raise CkwatchError(f"the cluster cannot be started: {why}")
    if settings.most_workers is not None:
        bounds = (settings.workers, settings.most_workers)
        names = ("minimum_jobs", "maximum_jobs") if settings.cluster in QUEUES else ("minimum", "maximum")
        cluster.adapt(**dict(zip(names, bounds, strict=True)))


async def serve(root: Path, settings: FarmSection, ready: Callable[[RunningCluster], None]) -> None:
    """Run the cluster until SIGTERM or SIGINT, also while it starts. Raises CkwatchError where it cannot be started."""
    import dask

    security = farm_security(settings)
    this = asyncio.current_task()
    assert this is not None  # noqa: S101  # it runs
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    dask.config.set(CONFIGURATION)
    cluster: Any = make_cluster(settings, security, cluster_log(root).with_name("farm-jobs"))
    try:
        await start(cluster, settings)
        ready(RunningCluster(cluster.scheduler_address, os.getpid()))
        while True:
            await asyncio.sleep(REPLACED_S)
            await complete(cluster)
    except asyncio.CancelledError:
        log.info("ended by a signal")
    finally:
        cluster_file(root).unlink(missing_ok=True)
        try:
            await cluster.close()
        except Exception:
            log.exception("not all of the cluster could be stopped; the remaining parts end without a scheduler")


def main(arguments: list[str]) -> int:
    """Be the cluster of the workspace `ROOT`; `--ready-fd N` gets a `Readiness`."""
    root, descriptor = Path(arguments[0]), int(arguments[2])
    if os.fork():  # whoever has started it does not wait for its end  # noqa: TID251  # a cluster leaves its terminal
        os._exit(0)
    reported = False

    def report(what: readiness.Readiness) -> None:
        nonlocal reported
        reported = True
        readiness.report(descriptor, what)

    def ready(found: RunningCluster) -> None:
        replace_file(cluster_file(root), json.dumps(asdict(found)).encode(), mode=0o600)
        report(readiness.READY)

    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    lock = try_lock(_lock_of(root))
    while lock is None and not is_up(root):  # who only looks shares it for a moment
        lock = try_lock(_lock_of(root))
    if lock is None:
        report(readiness.TAKEN)
        return 0
    try:
        cluster_file(root).unlink(missing_ok=True)  # of one that was killed
        require_trusted(root)
        require_packages()
        asyncio.run(serve(root, load_workspace(root).settings.farm, ready))
    except CkwatchError as error:
        if not reported:
            report(readiness.failed(error))
        return 1
    finally:
        unlock(_lock_of(root), lock)
    return 0


if __name__ == "__main__":
    ended = main(sys.argv[1:])
    logging.shutdown()
    os._exit(ended)  # dask would end what is left once more, and wait for it
