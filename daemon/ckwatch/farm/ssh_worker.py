"""Workers of an ssh cluster: both ends of the connection that starts them.

The nanny there finds its machine's own certificates, as the user's home may be another folder there.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import asyncssh  # noqa: F401  # dask would miss it later
from distributed import Nanny
from distributed.core import Status
from distributed.deploy.ssh import Worker
from platformdirs import user_cache_dir

from ckwatch.farm.certificates import security_of

log = logging.getLogger(__name__)


class SshWorker(Worker):
    """The workers of a host. Its status is `closed` when they have ended there.

    `failure` names the host and says why they could not be started there: the library raises that of one host alone.
    """

    failure: str | None = None

    async def start(self) -> None:
        """Raises RuntimeError with the `failure`."""
        try:
            await super().start()  # type: ignore[no-untyped-call, unused-ignore]
        except Exception as error:  # of asyncssh, of the system; the library's is no more than an Exception
            self.failure = f"{self.address}: {error}"
            raise RuntimeError(self.failure) from error
        self._reading = asyncio.ensure_future(self._read(self.proc))

    async def _read(self, process: Any) -> None:
        """Read and drop the output: unread, it would stop the workers once the connection is full."""
        async for line in process.stderr:
            log.info("%s: %s", self.address, line.rstrip())
        self.status = Status.closed


class CertifiedNanny(Nanny):
    """A nanny that dask starts by its name. `certificates` is a folder, None for the user's; its worker gets the
    threads of one of the `of_host` workers of this machine."""

    def __init__(self, scheduler: str, *, certificates: str | None, of_host: int, **options: Any) -> None:
        defaults: dict[str, Any] = {
            "nthreads": max(1, len(os.sched_getaffinity(0)) // of_host),
            "memory_limit": 0,
            "local_directory": user_cache_dir("ckwatch"),
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        }
        security = security_of(None if certificates is None else Path(certificates))
        super().__init__(scheduler, security=security, **defaults | options)
