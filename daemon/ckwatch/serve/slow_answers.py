"""The answer to what takes as long as a compile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from pydantic import BaseModel

from ckwatch.errors import CkwatchError, plain_errors
from ckwatch.serve.answers import json_bytes, problem_of
from ckwatch.serve.clients import Clients
from ckwatch.serve.streams import NDJSON, Sender, Shared, Stream
from ckwatch.wire.messages import SlowAnswer

Result = TypeVar("Result", bound=BaseModel)


class SlowStream(Stream, Generic[Result]):
    """Heartbeats, then `done`, as lines of `model`. A mistake that is known before the first line has the status of its
    own. `ask` is cancelled when the client goes."""

    media_type = NDJSON

    def __init__(
        self,
        model: type[SlowAnswer[Result]],
        ask: Callable[[], Awaitable[Result]],
        clients: Clients,
        shared: Shared,
        client: str | None,
    ) -> None:
        super().__init__(shared)
        self._model = model
        self._ask = ask
        self._clients = clients
        self._client = client

    async def send_to(self, sender: Sender) -> None:
        """Send the lines."""
        ended = anyio.Event()
        last: SlowAnswer[Result] | None = None
        failure: CkwatchError | None = None
        heartbeats = 0

        async def ask() -> None:
            nonlocal last, failure
            try:
                last = self._model(event="done", result=await self._ask())
            except CkwatchError as error:
                failure = error
                last = self._model(event="done", problem=problem_of(error))
            ended.set()

        async with self._clients.stream(self._client), plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not ended.is_set():
                with anyio.move_on_after(self.shared.limits.heartbeat_s):
                    await ended.wait()
                if not ended.is_set():
                    heartbeats += 1
                    await sender.write(_line(self._model(event="heartbeat")))
        if failure is not None and not heartbeats:
            raise failure
        if last is not None:  # else the client was removed
            await sender.write(await anyio.to_thread.run_sync(_line, last))


def _line(line: BaseModel) -> bytes:
    return json_bytes(line) + b"\n"
