"""`python -m ckwatch.server ROOT` runs the daemon of a workspace.

In the foreground it logs to stderr. With `--ready-fd` it detaches from the process that started it, logs to its file,
and reports once over that pipe whether it started.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ckwatch.server import TAKEN
from ckwatch.system.processes import drop_niceness


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: as `run_daemon` says, 2 for what a user can fix, 1 for a fault of ours."""
    parser = argparse.ArgumentParser(prog="python -m ckwatch.server", description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--ready-fd", type=int, help="report readiness to this pipe, and run in the background")
    parser.add_argument("--idle-exit-s", type=float, help="override the workspace's setting; 0 for never")
    options = parser.parse_args(arguments)
    root = Path(os.path.abspath(options.root))  # noqa: PTH100 - Path.absolute keeps `..`
    if options.ready_fd is not None:
        os.set_inheritable(options.ready_fd, False)
        if os.fork():  # noqa: TID251  # a daemon leaves its terminal
            os._exit(0)  # the starting process waits for this process only
        drop_niceness()  # it serves others than the command that happened to start it
    return _run(root, options.ready_fd, options.idle_exit_s)


def _run(root: Path, ready_fd: int | None, idle_exit_s: float | None) -> int:
    import logging

    from ckwatch.model.errors import CkwatchError
    from ckwatch.server.logs import file_handler, logging_to
    from ckwatch.system.allocator import return_freed_memory
    from ckwatch.wire import readiness
    from ckwatch.wire.endpoint import endpoint_of

    return_freed_memory()  # before there is a second thread

    def report(what: readiness.Readiness) -> None:
        if ready_fd is not None:
            readiness.report(ready_fd, what)

    log = logging.getLogger("ckwatch.server")
    handler = logging.StreamHandler() if ready_fd is None else file_handler(endpoint_of(root).log)
    outcome = None
    with logging_to(handler):
        try:
            status = _serve(root, idle_exit_s, lambda: report(readiness.READY))
            outcome = readiness.TAKEN if status == TAKEN else None
        except CkwatchError as error:
            log.error("%s", error)
            outcome = readiness.failed(error)
            status = 2
        except Exception:
            log.exception("the daemon failed")
            status = 1
    if outcome is not None:  # by now the log can be read
        report(outcome)
    return status


def _serve(root: Path, idle_exit_s: float | None, on_ready: Callable[[], None]) -> int:
    from ckwatch.wire.endpoint import endpoint_of, owner

    if owner(endpoint_of(root)) is not None:  # known before what takes long to import
        return TAKEN
    gc.disable()  # nothing that an import makes is garbage; collecting meanwhile takes a sixth of the time
    try:
        from functools import partial

        import anyio

        from ckwatch.engine.bootstrap import open_engine
        from ckwatch.server.daemon import run_daemon
    finally:
        gc.enable()

    return anyio.run(partial(run_daemon, root, open_engine=open_engine, idle_exit_s=idle_exit_s, on_ready=on_ready))


def _run_and_leave() -> NoReturn:
    """Run the daemon and end the process at once: all is closed by then, so clients that wait for its end wait less."""
    status = main()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _run_and_leave()
