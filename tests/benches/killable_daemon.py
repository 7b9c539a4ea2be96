"""Daemons to be killed: for each line on stdin, a daemon in a process of its own (forked, so that none loads anew).

`python killable_daemon.py FOLDER` serves the workspace of `daemon_bench.Bench(FOLDER)`, which is there already, with the
scripted compiler. It prints each daemon's process number, and its exit status when it has ended.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from benches.daemon_bench import Bench
from ckwatch.engine.bootstrap import open_engine
from ckwatch.model.errors import CkwatchError
from ckwatch.server.daemon import run_daemon


def serve(bench: Bench) -> None:
    """Be the daemon."""
    find: Any = lambda _choice, _environment: bench.toolchain  # noqa: E731
    opening = partial(open_engine, environment={}, find_toolchain=find, history=bench.history)
    anyio.run(partial(run_daemon, bench.root, open_engine=opening, idle_exit_s=0))


def main() -> None:
    """Fork a daemon per line, one at a time."""
    anyio.run(anyio.lowlevel.checkpoint)  # loads what runs event loops
    import_module("pydantic.v1")  # as the web framework does when it makes its first route
    bench = Bench(Path(sys.argv[1]), make=False)
    for _ in sys.stdin:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                serve(bench)
                status = 0
            except CkwatchError as error:
                print(error, file=sys.stderr, flush=True)
            except BaseException:  # noqa: BLE001  # there is nobody above to show it
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
