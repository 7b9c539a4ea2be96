"""The error by which a signal ends a command; apart from `signals`, so that starting does not load anyio."""

from __future__ import annotations

import signal


class TerminatedError(Exception):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number
