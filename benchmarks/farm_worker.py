"""A preload for `dask worker`: as `ckwatch.farm.worker`, with a compiler that stands in for hipcc.

With FARM_COMPILER it is the `QuickCompiler` in that folder. Without, the toolchain is the machine's, so that daemons
send what they have, and a compile waits until it is cancelled, as on a machine far away that uses no core of this one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import anyio
from distributed import Worker

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.quick_compiler import QuickCompiler
from ckwatch.farm.worker import NAME, FarmWorker

COMPILER = "FARM_COMPILER"


async def dask_setup(worker: Worker) -> None:
    """Called by dask before the worker registers."""
    folder = os.environ.get(COMPILER)
    if folder:
        toolchain = QuickCompiler(Path(folder)).toolchain
        plugin = FarmWorker(find_toolchain=lambda: toolchain, with_devices=False)
    else:
        plugin = FarmWorker(launch=_wait, with_devices=False)
    await worker.plugin_add(plugin, name=NAME, catch_errors=False)


async def _wait(_arguments: list[str], **_: object) -> NoReturn:
    await anyio.sleep_forever()
    raise AssertionError
