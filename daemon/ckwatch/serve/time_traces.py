"""The answer to a request for a time trace, which takes as long as a compile."""

from __future__ import annotations

import anyio

from ckwatch.errors import CkwatchError, plain_errors
from ckwatch.serve.answers import json_bytes, problem_of
from ckwatch.serve.clients import Clients
from ckwatch.serve.engine import Engine
from ckwatch.serve.streams import NDJSON, Sender, Shared, Stream
from ckwatch.wire.messages import TimeTraceLine, TimeTraceRequest


class TimeTraceStream(Stream):
    """Heartbeats, then `done`. A mistake that is known before the first line has the status of its own."""

    media_type = NDJSON

    def __init__(self, engine: Engine, clients: Clients, shared: Shared, unit: str, request: TimeTraceRequest) -> None:
        super().__init__(shared)
        self._engine = engine
        self._clients = clients
        self._unit = unit
        self._request = request

    async def send_to(self, sender: Sender) -> None:
        """Send the lines. The compile is cancelled when this is."""
        ended = anyio.Event()
        last: TimeTraceLine | None = None
        failure: CkwatchError | None = None
        heartbeats = 0

        async def ask() -> None:
            nonlocal last, failure
            try:
                trace = await self._engine.time_trace(self._request.client, self._unit, self._request.path)
                last = TimeTraceLine(event="done", result=trace)
            except CkwatchError as error:
                failure = error
                last = TimeTraceLine(event="done", problem=problem_of(error))
            ended.set()

        async with self._clients.stream(self._request.client), plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not ended.is_set():
                with anyio.move_on_after(self.shared.limits.heartbeat_s):
                    await ended.wait()
                if not ended.is_set():
                    heartbeats += 1
                    await sender.write(_line(TimeTraceLine(event="heartbeat")))
        if failure is not None and not heartbeats:
            raise failure
        if last is not None:  # else the client was removed
            await sender.write(_line(last))


def _line(line: TimeTraceLine) -> bytes:
    return json_bytes(line) + b"\n"
