"""Closes a scheduler, as a preload of dask: `dask scheduler --preload ckwatch.farm.scheduler`.

A scheduler of dask loads what is pickled in a message of a worker or a client, and runs functions that it is sent.
After this import its process loads plain data and the names of ckwatch's own tasks, answers no question that would run
or write anything, and listens for no HTTP.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import dask
from distributed import Scheduler
from distributed import scheduler as dask_scheduler
from distributed.protocol import pickle as dask_pickle

NAMES = {
    ("dask._expr", "Expr._reconstruct"),
    ("dask._expr", "LLGExpr"),
    ("dask._task_spec", "Task"),
    ("ckwatch.farm.worker", "compile_task"),
    ("ckwatch.farm.worker", "measure_task"),
}
"""All that a graph of ckwatch's names."""

BLOCKED = [
    "benchmark_hardware",
    "dump_cluster_state_to_url",
    "feed",
    "register_nanny_plugin",
    "register_scheduler_plugin",
    "register_worker_plugin",
    "run_function",
]
"""Handlers that run what they are sent, or write to paths that they are sent."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"{module}.{name} is not a name that a farm's scheduler loads")
        return super().find_class(module, name)


def loads(content: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return what was pickled. Raises UnpicklingError for names that are not among `NAMES`."""
    return _Unpickler(io.BytesIO(content), buffers=buffers).load()


vars(dask_pickle)["loads"] = loads
vars(dask_scheduler).update(loads=loads, pickle=SimpleNamespace(dumps=pickle.dumps, loads=loads))
dask.config.set({"distributed.scheduler.blocked-handlers": BLOCKED, "distributed.scheduler.http.routes": []})


def dask_setup(scheduler: Scheduler) -> None:
    """Called by dask when the scheduler listens."""
    scheduler.http_server.stop()
