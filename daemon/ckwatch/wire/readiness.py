"""What a starting daemon reports to whoever waits for it: once, over a pipe that it then closes.

Nothing before the end of the pipe means that it died.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ckwatch.model.errors import CkwatchError

StartState = Literal["ready", "taken", "failed", "died"]

LIMIT_BYTES = 65_536
"""So much is read; it is also what a pipe holds, so that telling never waits."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ready`: it answers on its socket. `taken`: another daemon has the workspace. `failed`: why it cannot start.

    `died`: it ended without a word.
    """

    state: StartState
    message: str = ""
    hint: str | None = None


READY = Readiness("ready")
TAKEN = Readiness("taken")
DIED = Readiness("died")


def failed(error: CkwatchError) -> Readiness:
    """It cannot start because of this."""
    return Readiness("failed", error.message, error.hint)


def report(descriptor: int, readiness: Readiness) -> None:
    """Write it to the pipe and close it. Nobody may be listening any more."""
    line = {"state": readiness.state, "message": readiness.message[:10_000], "hint": readiness.hint}
    try:
        with suppress(OSError):
            os.write(descriptor, json.dumps(line).encode())
    finally:
        with suppress(OSError):
            os.close(descriptor)


def parse(data: bytes) -> Readiness:
    """All that came through the pipe."""
    try:
        line = json.loads(data)
        return Readiness(line["state"], str(line["message"]), line["hint"])
    except (ValueError, TypeError, KeyError):
        return DIED
