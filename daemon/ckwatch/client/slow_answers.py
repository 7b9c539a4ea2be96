"""An answer that takes as long as a compile: heartbeats, then the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from ckwatch.client.access import parsed
from ckwatch.client.failures import DaemonGoneError, error_of
from ckwatch.client.http import Exchange
from ckwatch.errors import ProtocolError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ckwatch.wire.messages import SlowAnswer

    Result = TypeVar("Result", bound=BaseModel)

_WRONG = 400
_LARGE_BYTES = 32 * 1024
"""Parsing more than this takes milliseconds."""


async def result_in(exchange: Exchange, model: type[SlowAnswer[Result]]) -> Result:
    """Wait for the result. Raises the CkwatchError that the daemon answers with, DaemonGoneError if it ends before."""
    while (data := await exchange.line()) is not None:
        if len(data) < _LARGE_BYTES:
            line = parsed(model, data)
        else:  # a listing has half a megabyte
            line = await anyio.to_thread.run_sync(parsed, model, data)
        if line.problem is not None:
            raise error_of(_WRONG, line.problem.model_dump_json().encode())
        if line.result is not None:
            return line.result
        if line.event == "done":
            raise ProtocolError("the daemon's answer is empty")
    raise DaemonGoneError("the daemon was stopped during the compile", began=True)
