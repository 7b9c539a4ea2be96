"""What holds a stream back until much has been put on it.

The stream waits for a value in signal memory (`hipStreamWaitValue32`), which the host writes to let it go. Each gate
waits for a number of its own, one more than the last: a value that was written is never taken back, so that a stream
that is late still finds its gate open.

A watchdog opens a gate whose host waits for the stream while it is closed, which would never end. Where that happens
again and again a kernel's own host code waits at each launch, and gates stay open from then on.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ckwatch.bench.runtimes.hip_calls import binding, call, status
from ckwatch.bench.runtimes.protocol import RuntimeFailure
from ckwatch.timing.report import FailureKind

PATIENCE_S = 1.0
"""How long a gate holds a stream back at most."""

GIVEN_UP = 3
"""After so many gates that the watchdog had to open there are no more."""

_SIGNAL_BYTES = 8
"""The only size that hipExtMallocWithFlags takes for signal memory."""

_WHOLE = 0xFFFFFFFF


class Gate:
    """Holds back what is put on a stream; `state` says how, or why it cannot."""

    def __init__(self, ordinal: int, *, wanted: bool = True) -> None:
        """RuntimeFailure (BROKEN) when a stream that waits is not let go by what the host writes."""
        self.state = "off"
        self._address = 0
        self._free = ""
        self._last = 0
        self._forced = 0
        self._value: ctypes.c_uint64 | None = None
        if wanted:
            self._prepare(ordinal)

    @property
    def holds(self) -> bool:
        """Whether `closed` holds a stream back."""
        return self._value is not None

    @contextmanager
    def closed(self, stream: int) -> Iterator[None]:
        """Nothing that is put on the stream inside begins before the end, or before `PATIENCE_S` are over."""
        if self._value is None:
            yield
            return
        number = self._wait(stream)
        watchdog = threading.Timer(PATIENCE_S, self._let_go, (number,))
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            if not self._open(number):
                self._forced += 1
                if self._forced == GIVEN_UP:
                    self.state = f"given up: the host waits for the stream, or needs {PATIENCE_S:g} s to fill it"
                    self._value = None

    def close(self) -> None:
        """Give the signal back."""
        self._value = None
        if self._address:
            status(self._free, self._address)
            self._address = 0

    def _prepare(self, ordinal: int) -> None:
        attribute = binding().hipDeviceAttribute_t.hipDeviceAttributeCanUseStreamWaitValue
        answer, can = status("hipDeviceGetAttribute", attribute, ordinal)
        if answer != "hipSuccess" or not can[0]:
            self.state = "none: the device cannot wait for a value"
            return
        memory = self._signal_memory()
        if not memory:
            self.state = "none: no memory that host and device both see"
            return
        self._value = ctypes.c_uint64.from_address(self._address)
        self._value.value = 0
        if self._try_it():
            self.state = f"hipStreamWaitValue32 on {memory}"
        else:
            self.state = "none: hipStreamWaitValue32 is refused"
            self._value = None

    def _signal_memory(self) -> str:
        hip = binding()
        for function, flags, free, name in (
            ("hipExtMallocWithFlags", hip.hipMallocSignalMemory, "hipFree", "signal memory"),
            ("hipHostMalloc", hip.hipHostMallocMapped | hip.hipHostMallocCoherent, "hipHostFree", "host memory"),
        ):
            answer, memory = status(function, _SIGNAL_BYTES, flags)
            if answer == "hipSuccess" and memory[0] is not None:
                self._address, self._free = int(memory[0]), free
                return name
        return ""

    def _try_it(self) -> bool:
        """Whether a stream waits, on one of its own."""
        stream = int(call("hipStreamCreateWithFlags", binding().hipStreamNonBlocking))
        try:
            number = self._wait(stream)
        except RuntimeFailure:
            status("hipStreamDestroy", stream)
            return False
        self._open(number)
        until = time.monotonic() + PATIENCE_S
        while status("hipStreamQuery", stream)[0] == "hipErrorNotReady":
            if time.monotonic() > until:
                raise RuntimeFailure(
                    FailureKind.BROKEN,
                    "a stream that waits for a value does not see what the host writes",
                    "open the device without a gate",
                )
            time.sleep(0.0005)
        status("hipStreamDestroy", stream)
        return True

    def _wait(self, stream: int) -> int:
        """Put a gate on the stream; its number."""
        call("hipStreamWaitValue32", stream, self._address, self._last + 1, binding().hipStreamWaitValueGte, _WHOLE)
        self._last += 1
        return self._last

    def _open(self, number: int) -> bool:
        """Open the gate of this number; whether it was still closed."""
        value: Any = self._value
        was_closed = bool(value.value < number)
        value.value = number
        return was_closed

    def _let_go(self, number: int) -> None:
        value = self._value
        if value is not None:
            value.value = max(value.value, number)
