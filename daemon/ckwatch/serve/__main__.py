"""`python -m ckwatch.serve ROOT`: the daemon of a workspace, in the foreground, or started by a client that waits.

With `--ready-fd` it parts from the process that started it, logs to its file, and says once over that pipe how it went.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: as `run_daemon` says, 2 for what a user can mend, 1 for a fault of ours."""
    parser = argparse.ArgumentParser(prog="python -m ckwatch.serve", description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--ready-fd", type=int, help="tell this pipe, and run in the background")
    parser.add_argument("--idle-exit-s", type=float, help="instead of the workspace's setting; 0 for never")
    options = parser.parse_args(arguments)
    root = Path(os.path.abspath(options.root))  # noqa: PTH100 - Path.absolute keeps `..`
    if options.ready_fd is not None:
        os.set_inheritable(options.ready_fd, False)
        if os.fork():
            os._exit(0)  # whoever started it waits for this process only
    return _run(root, options.ready_fd, options.idle_exit_s)


def _run(root: Path, ready_fd: int | None, idle_exit_s: float | None) -> int:
    import logging
    from functools import partial

    from ckwatch import readiness
    from ckwatch.endpoint import endpoint_of, owner
    from ckwatch.errors import CkwatchError
    from ckwatch.serve import TAKEN
    from ckwatch.serve.logs import file_handler, logging_to

    def tell(what: readiness.Readiness) -> None:
        nonlocal ready_fd
        if ready_fd is not None:
            readiness.tell(ready_fd, what)
            ready_fd = None

    log = logging.getLogger("ckwatch.serve")
    with logging_to(logging.StreamHandler() if ready_fd is None else file_handler(endpoint_of(root).log)):
        try:
            if owner(endpoint_of(root)) is not None:  # known before what takes long to import
                tell(readiness.TAKEN)
                return TAKEN
            import anyio

            from ckwatch.runtime.opening import open_engine
            from ckwatch.serve.daemon import run_daemon

            run = partial(
                run_daemon,
                root,
                open_engine=open_engine,
                idle_exit_s=idle_exit_s,
                on_ready=lambda: tell(readiness.READY),
            )
            status = anyio.run(run)
        except CkwatchError as error:
            log.error("%s", error)
            tell(readiness.failed(error))
            return 2
        except Exception:
            log.exception("the daemon failed")
            return 1
        if status == TAKEN:
            tell(readiness.TAKEN)
        return status


if __name__ == "__main__":
    sys.exit(main())
