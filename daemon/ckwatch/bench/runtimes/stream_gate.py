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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError

PATIENCE_S = 1.0
"""How long a gate holds a stream back at most."""

GIVEN_UP = 3
"""After so many gates that the watchdog had to open there are no more."""


class GateSignal(Protocol):
    """A number that the host writes and streams wait for, and what a device's API does with it."""

    name: str
    """The call by which a stream waits, and the memory."""
    call: str
    shows_wait: bool
    """True if a query of a waiting stream is known to say that it waits."""
    number: Any
    """An unsigned integer of `ctypes`, in the memory."""

    def put_wait(self, stream: int, number: int) -> None:
        """Have the stream wait for this number or a larger one. Raises BenchmarkError."""
        ...

    def new_stream(self) -> int: ...
    def is_busy(self, stream: int) -> bool: ...
    def destroy_stream(self, stream: int) -> None: ...
    def free(self) -> None:
        """Give the memory back."""
        ...


class StreamGate:
    """Holds back what is put on a stream; `state` says how, or why it cannot."""

    def __init__(self, make_signal: Callable[[], GateSignal | str] | None, *, patience_s: float = PATIENCE_S) -> None:
        """`make_signal` gives the signal, or says why there is none; None for a gate that is not wanted.

        Raises BenchmarkError (BROKEN) when a stream that waits is not let go by what the host writes.
        """
        self.state = "off"
        self._patience_s = patience_s
        self._signal: GateSignal | None = None
        self._holds = False
        self._last = 0
        self._forced = 0
        if make_signal is None:
            return
        made = make_signal()
        if isinstance(made, str):
            self.state = f"none: {made}"
            return
        self._signal = made
        made.number.value = 0
        problem = self._try_it(made)
        self._holds = not problem
        self.state = f"none: {problem}" if problem else made.name

    @property
    def holds(self) -> bool:
        """Return True if `closed` holds a stream back."""
        return self._holds

    @contextmanager
    def closed(self, stream: int) -> Iterator[None]:
        """Nothing that is put on the stream inside begins before the end, or before the patience is over."""
        signal = self._signal
        if signal is None or not self._holds:
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
                    self._holds = False

    def close(self) -> None:
        signal, self._signal = self._signal, None
        self._holds = False
        if signal is not None:
            signal.free()

    def _try_it(self, signal: GateSignal) -> str:
        """Why a stream does not wait, tried on one of its own; empty when it does."""
        stream = signal.new_stream()
        try:
            number = self._wait(signal, stream)
        except BenchmarkError as refused:
            signal.destroy_stream(stream)
            return f"{signal.call} is refused: {refused.message}"
        held = signal.is_busy(stream) or not signal.shows_wait
        _let_go(signal, number)
        until = time.monotonic() + self._patience_s
        while signal.is_busy(stream):
            if time.monotonic() > until:
                raise BenchmarkError(
                    FailureKind.BROKEN,
                    "a stream that waits for a value does not see what the host writes",
                    "open the device without a gate",
                )
            time.sleep(0.0005)
        signal.destroy_stream(stream)
        return "" if held else "a stream does not wait"

    def _wait(self, signal: GateSignal, stream: int) -> int:
        """Put a gate on the stream; its number."""
        signal.put_wait(stream, self._last + 1)
        self._last += 1
        return self._last


def _let_go(signal: GateSignal, number: int) -> bool:
    """Open the gate of this number; whether it was still closed."""
    was_closed = bool(signal.number.value < number)
    if was_closed:
        signal.number.value = number
    return was_closed
