"""The program of a process that watches folders with `watchfiles`, and prints the paths at which something happens.

A process of its own, because the library's constructor walks all folders, hidden ones as well, and holds Python's lock
for so long: 35 ms for 10,000 files. It imports nothing but the library's compiled part, which makes it 11 MB large and
lets it begin within 30 ms. It ends when its standard input does.

In: one line of JSON, `{"library": [FOLDER], "folders": [FOLDER, …], "recursive": true, "step_ms": 30}`.
Out: lines of JSON. `{}` once the folders are watched, then `{"PATH": GONE, …}` with whether the library has reported
that what was at the path is gone; at last `{"error": [CLASS, TEXT]}`, if it comes to that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from types import ModuleType

GROUP_MS = 60
"""Changes without a pause are printed after so long; less than the quiet that ends a batch of many."""

PATHS_AT_ONCE = 500
"""Paths in a line: the reader takes 0.3 ms for so many."""

DELETED = 3
"""`watchfiles.Change.deleted`."""


def main() -> None:
    """Watch until standard input or the library ends."""
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        return  # whoever started it has ended
    request = json.loads(line)
    package = sys.modules["watchfiles"] = ModuleType("watchfiles")
    package.__path__ = request["library"]
    from watchfiles._rust_notify import RustNotify

    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        notify = RustNotify(request["folders"], False, False, 0, request["recursive"], False)
        _print({})
        while True:
            changes = notify.watch(GROUP_MS, request["step_ms"], 0, None)
            assert not isinstance(changes, str)  # noqa: S101  # there is no limit of time, and no event to stop it
            paths: dict[str, bool] = {}
            for change, path in changes:
                paths[path] = paths.get(path, False) or change == DELETED
                if len(paths) >= PATHS_AT_ONCE:
                    _print(paths)
                    paths = {}
            if paths:
                _print(paths)
    except (OSError, RuntimeError, UnicodeError) as error:
        _print({"error": [type(error).__name__, str(error)]})


def _print(line: object) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # nothing reads it any more


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
