"""A preload for `dask scheduler`: to every client it sends objects in whatever it says, again and again, and for a worker
that there is not. FARM_BENCH names the folder of its compiler, FARM_ATTACK what is attacked beside."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.protocol.serialize import ToPickle, to_serialize
from tornado.ioloop import PeriodicCallback

sys.path.insert(0, str(Path(__file__).parent.parent))

from benches.daemon_bench import Bench
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.farm.messages import READY, WorkerFacts, compile_resource, toolchain_identity
from ckwatch.farm.plain_data import encode
from farms.farm_payload import Payload

PICKLED = pickle.dumps(Payload())
OBJECTS: tuple[Any, ...] = (ToPickle(Payload()), to_serialize(Payload()), to_serialize(PICKLED), PICKLED)
ALWAYS: list[dict[str, Any]] = [
    {"op": "event", "topic": topic, "event": (0.0, {"message": one, "category": one})}
    for topic in ("warn", "print", "other")
    for one in OBJECTS
]
AT_LAST = {"status": "error", "exception": PICKLED, "traceback": PICKLED}
"""dask's client reads nothing more after this."""

ATTACK = os.environ.get("FARM_ATTACK", "")
WORKER = "tls://192.0.2.1:1"
"""One that there is not."""


def hostile(answer: Any) -> Any:
    """An answer with objects in it."""
    return {**answer, "more": OBJECTS, "status": "uncaught-error", "exception": PICKLED, "exception_text": "no"}


def dask_setup(scheduler: Scheduler) -> None:
    """Called by dask when the scheduler listens."""
    usual = Comm.handshake_info
    Comm.handshake_info = lambda self: {**usual(self), "more": OBJECTS}  # type: ignore[method-assign]
    identity: Any = scheduler.identity
    bench = os.environ.get("FARM_BENCH")
    can = {} if bench is None else {READY: 1.0, resource(Path(bench)): 1.0}
    worker = {"host": "192.0.2.1", "nthreads": 1, "resources": can, "metrics": {}}

    def listing(**how: Any) -> Any:
        found = {**identity(**how), "more": OBJECTS, "workers": {WORKER: worker}}
        return hostile(found) if ATTACK == "answers" else found

    async def broadcast(**_: Any) -> Any:
        return {WORKER: encode(WorkerFacts(machine="none", toolchain="none"), WorkerFacts)}

    async def gather(keys: Any, **_: Any) -> Any:
        return {"status": "OK", "data": dict.fromkeys(keys, OBJECTS[1])}

    scheduler.handlers |= {
        "identity": listing,
        "broadcast": broadcast,
        "gather": gather,
        "who_has": lambda keys: {key: [WORKER] for key in keys},
        "get_story": lambda **_: [("key", "waiting", "processing", {}, "stimulus", 0.0)],
    }
    again = PeriodicCallback(lambda: attack(scheduler), 100)
    scheduler.periodic_callbacks["attack"] = again
    again.start()


def resource(folder: Path) -> str:
    """Return the announcement of a worker with the bench's compiler."""
    toolchain: Any = Bench(folder, make=False).toolchain
    return compile_resource(toolchain_identity(toolchain, ContentHashes(None)))


def attack(scheduler: Scheduler) -> None:
    """Send unrequested messages."""
    for client, comm in [*scheduler.client_comms.items()]:
        wanted = [ts.key for ts in scheduler.clients[client].wants_what]
        for message in ALWAYS:
            comm.send(message)
        for number, key in enumerate(wanted):
            kind = OBJECTS[number % len(OBJECTS)]
            comm.send({"op": "key-in-memory", "key": key, "type": kind})
            comm.send({"op": "task-erred", "key": key, "exception": kind, "traceback": kind})
        if ATTACK == "stream":
            comm.send(AT_LAST)
