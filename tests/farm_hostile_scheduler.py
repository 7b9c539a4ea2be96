"""A preload for `dask scheduler`: to every client it sends objects in whatever it says, again and again."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.protocol import to_serialize
from distributed.protocol.serialize import ToPickle
from tornado.ioloop import PeriodicCallback

sys.path.insert(0, str(Path(__file__).parent))

from farm_payload import Payload

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


def hostile(answer: Any) -> Any:
    """An answer with objects in it."""
    return {**answer, "more": OBJECTS, "status": "uncaught-error", "exception": PICKLED, "exception_text": "no"}


def dask_setup(scheduler: Scheduler) -> None:
    """Called by dask when the scheduler listens."""
    usual = Comm.handshake_info
    Comm.handshake_info = lambda self: {**usual(self), "more": OBJECTS}  # type: ignore[method-assign]
    identity: Any = scheduler.identity
    if ATTACK == "answers":
        scheduler.handlers["identity"] = lambda **how: hostile(identity(**how))
    else:
        scheduler.handlers["identity"] = lambda **how: {**identity(**how), "more": OBJECTS}
    scheduler.handlers["gather"] = gather
    again = PeriodicCallback(lambda: attack(scheduler), 100)
    scheduler.periodic_callbacks["attack"] = again
    again.start()


async def gather(keys: Any, **_: Any) -> Any:
    """Objects for results."""
    return {"status": "OK", "data": dict.fromkeys(keys, OBJECTS[1])}


def attack(scheduler: Scheduler) -> None:
    """What is sent without being asked for."""
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
