"""How long the event loop did not get to run: a task that sleeps a millisecond again and again tells how late it was.

What other processes on the machine took is no fault of ours. So a pause counts only as far as this process, with all
its threads, used a processor in it: code on the event loop, threads that had the interpreter, collections of garbage.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

_SLEEP_S = 0.001
_NOTED_MS = 2.0


class Pause(NamedTuple):
    """`own_ms` of `late_ms` are ours; `at_s` is when it ended, by the monotonic clock."""

    own_ms: float
    late_ms: float
    at_s: float


class Lateness:
    """Pauses of at least two milliseconds."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []

    def longest_ms(self, since_s: float = 0.0) -> float:
        """Our part of the longest pause that ended after a moment."""
        return max((pause.own_ms for pause in self.pauses if pause.at_s >= since_s), default=0.0)

    def described(self, since_s: float = 0.0) -> str:
        """The longest five, in words."""
        longest = sorted((pause for pause in self.pauses if pause.at_s >= since_s), reverse=True)[:5]
        return ", ".join(f"{pause.own_ms:.0f} ({pause.late_ms:.0f} late)" for pause in longest) + " ms"

    async def run(self) -> None:
        """Until cancelled."""
        last_s, last_cpu_s = time.monotonic(), time.process_time()
        while True:
            await anyio.sleep(_SLEEP_S)
            now_s, cpu_s = time.monotonic(), time.process_time()
            late_ms = (now_s - last_s - _SLEEP_S) * 1e3
            if late_ms >= _NOTED_MS:
                self.pauses.append(Pause(min(late_ms, (cpu_s - last_cpu_s) * 1e3), late_ms, now_s))
            last_s, last_cpu_s = now_s, cpu_s


@asynccontextmanager
async def lateness() -> AsyncIterator[Lateness]:
    """Measure while the body runs."""
    found = Lateness()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(found.run)
        yield found
        tasks.cancel_scope.cancel()
