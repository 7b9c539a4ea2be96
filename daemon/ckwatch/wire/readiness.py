"""How a starting daemon reports to the process that started it: one message over a pipe that it then closes.

A pipe that ends without one means that the daemon died.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Literal

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass

StartState = Literal["ready", "taken", "failed", "died"]

LIMIT_BYTES = 65_536
"""How much is read. A pipe holds as much, so that a report never blocks."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ready`: it answers on its socket. `taken`: another daemon has the workspace. `failed`: why it cannot start.

    `died`: it ended without a report.
    """

    state: StartState
    message: str = ""
    hint: str | None = None


READY = Readiness("ready")
TAKEN = Readiness("taken")
DIED = Readiness("died")


def failed(error: CkwatchError) -> Readiness:
    """The report of a daemon that cannot start."""
    return Readiness("failed", error.message, error.hint)


def report(descriptor: int, readiness: Readiness) -> None:
    """Write it to the pipe, which may have no reader any more, and close it."""
    line = {"state": readiness.state, "message": readiness.message[:10_000], "hint": readiness.hint}
    try:
        with suppress(OSError):
            os.write(descriptor, json.dumps(line).encode())
    finally:
        with suppress(OSError):
            os.close(descriptor)


def parse(data: bytes) -> Readiness:
    """The report, from everything that came through the pipe."""
    try:
        line = json.loads(data)
        return Readiness(line["state"], str(line["message"]), line["hint"])
    except (ValueError, TypeError, KeyError):
        return DIED
