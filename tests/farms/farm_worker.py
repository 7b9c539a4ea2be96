"""A preload for `dask worker`: as `ckwatch.farm.worker`, with the scripted compiler of `daemon_bench.Bench`.

FARM_BENCH names the bench's folder, FARM_TOOLCHAIN another identity of the compiler.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Worker

sys.path.insert(0, str(Path(__file__).parent.parent))

from benches.daemon_bench import Bench
from ckwatch.farm.worker import NAME, FarmWorker


async def dask_setup(worker: Worker) -> None:
    """Called by dask before the worker registers."""
    folder = Path(os.environ["FARM_BENCH"])
    toolchain: Any = Bench(folder, make=False).toolchain
    own = os.environ.get("FARM_TOOLCHAIN")
    if own:
        toolchain = replace(toolchain, identity=own)
    plugin = FarmWorker(folder / "farm", find_toolchain=lambda: toolchain, with_devices=False)
    await worker.plugin_add(plugin, name=NAME, catch_errors=False)
