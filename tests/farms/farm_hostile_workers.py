"""Workers of a farm that send objects, each in another place: `python farm_hostile_workers.py ADDRESS CERTIFICATES`.

The addresses, by attack, go to the file that FARM_ADDRESSES names. FARM_BENCH as for `farm_worker`.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import dask
from distributed import Worker, get_worker
from distributed.protocol.serialize import ToPickle, to_serialize

sys.path.insert(0, str(Path(__file__).parent.parent))

from benches.daemon_bench import Bench
from ckwatch.farm import worker as farm_worker
from ckwatch.farm.certificates import security_of
from ckwatch.farm.messages import DESCRIBE, WorkerFacts
from ckwatch.farm.plain_data import encode
from ckwatch.system.durable_files import replace_file
from farms.farm_payload import Payload

IN_RESULTS = ("object", "pickle", "error", "collection", "no message")
IN_DESCRIPTIONS = ("facts", "pickled facts", "metrics", "control characters", "devices of others")


async def compile_task(message: bytes) -> Any:  # dask's signature
    """In place of ckwatch's."""
    attack = get_worker().name
    if attack == "error":
        raise Payload
    return {
        "object": Payload(),
        "pickle": pickle.dumps(Payload()),
        "collection": [b"bytes", Payload()],
        "no message": encode({"machine": 1}, dict),
    }.get(attack, b"")


async def start(address: str, certificates: Path, attack: str) -> str:
    """A worker that otherwise is one."""
    folder = Path(os.environ["FARM_BENCH"])
    toolchain: Any = Bench(folder, make=False).toolchain
    worker = Worker(
        address, name=attack, nthreads=1, security=security_of(certificates), memory_limit=0,
        local_directory=str(folder / "dask"),
    )  # fmt: skip
    await worker
    plugin = farm_worker.FarmWorker(folder / "farm", find_toolchain=lambda: toolchain, with_devices=False)
    await worker.plugin_add(plugin, name=farm_worker.NAME, catch_errors=False)
    answers = {
        "facts": to_serialize(Payload()),
        "pickled facts": ToPickle(Payload()),
        "control characters": encode(WorkerFacts(machine="\x1b[2Jbox"), WorkerFacts),
        "devices of others": encode({"machine": "b", "devices": [GPU]}, Any),
    }
    if attack in answers:
        worker.handlers[DESCRIBE] = lambda: answers[attack]
    if attack == "metrics":
        worker.metrics["more"] = lambda _worker: to_serialize(Payload())
    KEPT.append(worker)
    return worker.address


GPU = {"name": "hip:0", "description": "", "arch": "gfx942", "machine": ""}
KEPT: list[Worker] = []


async def main(address: str, certificates: str) -> None:
    """Until killed."""
    vars(farm_worker).update(compile_task=compile_task)
    attacks = (*IN_RESULTS, *IN_DESCRIPTIONS)
    started = {one: await start(address, Path(certificates), one) for one in attacks}
    replace_file(Path(os.environ["FARM_ADDRESSES"]), json.dumps(started).encode())
    await asyncio.Event().wait()


if __name__ == "__main__":
    dask.config.set({"distributed.admin.system-monitor.interval": "1h"})
    asyncio.run(main(*sys.argv[1:]))
