"""Holds a stream back until a block of launches is on it, so that the time of no launch is the host's.

The stream waits for a number in memory that host and device both see, which the host writes to let it go. Each gate
waits for a number of its own, one more than the last: a number that was written is never taken back, so that a stream
that is late still finds its gate open. A watchdog opens a gate whose host waits for the stream while it is closed,
which would never end: the first launch of a kernel does that where its code is loaded on demand. Where it happens again
and again, a kernel's own host code waits at each launch, and gates stay open from then on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.vendor_api import VendorApi
from ckwatch.model.lazy_dataclass import dataclass

PATIENCE_S = 1.0
"""How long a gate holds a stream back at most."""

GIVEN_UP = 3
"""After so many gates that the watchdog had to open there are no more."""


@dataclass(frozen=True, slots=True)
class GateSignal:
    """A number in `memory` of some kind, which the host writes and streams wait for: an unsigned integer of `ctypes`,
    and its address as the device has it. `flags` of a wait for this number or a larger one. `shows_wait`: a query of a
    waiting stream is known to say that it waits."""

    api: VendorApi
    memory: str
    number: Any
    address: Any
    flags: tuple[Any, ...]
    shows_wait: bool

    @property
    def call(self) -> str:
        """The call by which a stream waits."""
        return f"{self.api.prefix}StreamWaitValue32"


class StreamGate:
    """Holds back what is put on a stream; `state` says how, or why it cannot."""

    def __init__(self, made: GateSignal | str) -> None:
        """`made` is the signal, or why there is none. Raises BenchmarkError (BROKEN) when a stream that waits is not
        let go by what the host writes."""
        self._patience_s = PATIENCE_S
        self._signal: GateSignal | None = None
        self._last = 0
        self._forced = 0
        if isinstance(made, str):
            self.state = f"none: {made}"
            return
        made.number.value = 0
        problem = self._try_it(made)
        self.state = f"none: {problem}" if problem else f"{made.call} on {made.memory}"
        if not problem:
            self._signal = made

    @contextmanager
    def closed(self, stream: Any) -> Iterator[None]:
        """Nothing that is put on the stream inside begins before the end, or before the patience is over."""
        signal = self._signal
        if signal is None:
            yield
            return
        number = self._wait(signal, stream)
        watchdog = threading.Timer(self._patience_s, _let_go, (signal, number))
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            if not _let_go(signal, number):
                self._forced += 1
                if self._forced == GIVEN_UP:
                    limit = f"{self._patience_s:g} s"
                    self.state = f"given up: the host waits for the stream, or needs {limit} to fill it"
                    self._signal = None

    def _try_it(self, signal: GateSignal) -> str:
        """Why a stream does not wait, tried on one of its own; empty when it does."""
        stream = signal.api.new_stream()
        try:
            number = self._wait(signal, stream)
        except BenchmarkError as refused:
            signal.api.status(f"{signal.api.prefix}StreamDestroy", stream)
            return f"{signal.call} is refused: {refused.message}"
        held = signal.api.is_busy(stream) or not signal.shows_wait
        _let_go(signal, number)
        until = time.monotonic() + self._patience_s
        while signal.api.is_busy(stream):
            if time.monotonic() > until:
                what = "a stream that waits for a value does not see what the host writes"
                raise BenchmarkError(FailureKind.BROKEN, what)
            time.sleep(0.0005)
        signal.api.status(f"{signal.api.prefix}StreamDestroy", stream)
        return "" if held else "a stream does not wait"

    def _wait(self, signal: GateSignal, stream: Any) -> int:
        """Put a gate on the stream; its number."""
        signal.api.call(signal.call, stream, signal.address, self._last + 1, *signal.flags)
        self._last += 1
        return self._last


def _let_go(signal: GateSignal, number: int) -> bool:
    """Open the gate of this number; whether it was still closed."""
    was_closed = bool(signal.number.value < number)
    if was_closed:
        signal.number.value = number
    return was_closed
