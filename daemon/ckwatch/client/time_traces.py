"""The answer to a request for a time trace, which comes when the unit has been compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.client.access import parsed
from ckwatch.client.failures import DaemonGoneError, error_of
from ckwatch.client.http import Exchange
from ckwatch.errors import ProtocolError

if TYPE_CHECKING:
    from ckwatch.wire.messages import TimeTrace

_WRONG = 400


async def time_trace_in(exchange: Exchange) -> TimeTrace:
    """Wait for the result. Raises the CkwatchError that the daemon answers with, DaemonGoneError if it ends before."""
    from ckwatch.wire.messages import TimeTraceLine

    while (data := await exchange.line()) is not None:
        line = parsed(TimeTraceLine, data)
        if line.problem is not None:
            raise error_of(_WRONG, line.problem.model_dump_json().encode())
        if line.result is not None:
            return line.result
        if line.event == "done":
            raise ProtocolError("the daemon's time trace is empty")
    raise DaemonGoneError("the daemon was stopped during the compile", began=True)
