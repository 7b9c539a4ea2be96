"""A program that starts as the daemon does, and then does what its first argument says."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from ckwatch.model.errors import CkwatchError
from ckwatch.wire import readiness
from ckwatch.wire.endpoint import acquire, bind, endpoint_of, note_start


def main() -> None:
    """Parts from its parent, as the daemon does."""
    parser = ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("root", type=Path)
    parser.add_argument("--ready-fd", type=int)
    options = parser.parse_args()
    if os.fork():
        os._exit(0)
    match options.what:
        case "serve":
            _serve(options.root, options.ready_fd)
        case "die":
            print("a word before the end", file=sys.stderr)
            os._exit(1)
        case "fail":
            readiness.report(options.ready_fd, readiness.failed(CkwatchError("the reason", "the advice")))
        case "garbage":
            os.write(options.ready_fd, b"ready or not")
        case "linger":
            _serve(options.root, options.ready_fd, loading="loading 5,000 kernel files")


def _serve(root: Path, ready_fd: int, loading: str = "") -> None:
    """Accept connections until one of them sends something. With `loading` only when somebody has opened `go`."""
    endpoint = endpoint_of(root)
    lock = acquire(endpoint)
    if lock is None:
        readiness.report(ready_fd, readiness.TAKEN)
        return
    with bind(endpoint) as listener, (root / "started").open("a") as started:
        started.write(f"{os.getpid()}\n")
        started.flush()
        if loading:
            note_start(lock, loading)
            (root / "go").read_bytes()
            note_start(lock, "")
        readiness.report(ready_fd, readiness.READY)
        listener.setblocking(True)
        while True:
            connection, _ = listener.accept()
            with connection:
                if connection.recv(1):
                    return


if __name__ == "__main__":
    main()
