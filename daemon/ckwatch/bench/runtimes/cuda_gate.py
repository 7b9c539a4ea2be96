"""What holds a stream back until much has been put on it.

The stream waits for a number in host memory that the device sees (`cuStreamWaitValue32`), which the host writes to let
it go. Each gate waits for a number of its own, one more than the last, so that a stream that is late still finds its
gate open.

A watchdog opens a gate whose host waits for the stream while it is closed, which would never end: the first launch of a
kernel does that where its code is loaded on demand.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ckwatch.bench.runtimes.cuda_calls import binding, call, status
from ckwatch.bench.runtimes.protocol import RuntimeFailure

PATIENCE_S = 1.0
"""How long a gate holds a stream back at most."""

GIVEN_UP = 3
"""So many gates that had to be opened by the watchdog, and there are no more."""

_BYTES = 8


class Gate:
    """Holds back what is put on a stream; `state` says how, or why it cannot."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.state = "off"
        self._memory: Any = None
        self._device_address: Any = None
        self._value: ctypes.c_uint32 | None = None
        self._last = 0
        self._forced = 0
        if wanted:
            self._prepare()

    @property
    def holds(self) -> bool:
        """Whether `closed` holds a stream back."""
        return self._value is not None

    @contextmanager
    def closed(self, stream: int) -> Iterator[None]:
        """Nothing that is put on the stream inside begins before the end, or before `PATIENCE_S` are over."""
        value = self._value
        if value is None:
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
            forced = value.value >= number
            self._let_go(number)
            self._count(forced=forced)

    def close(self) -> None:
        """Give the memory back."""
        self._value = None
        if self._memory is not None:
            status("cuMemFreeHost", self._memory)
            self._memory = None

    def _prepare(self) -> None:
        cuda = binding()
        flags = cuda.CU_MEMHOSTALLOC_DEVICEMAP | cuda.CU_MEMHOSTALLOC_PORTABLE
        answer, memory = status("cuMemHostAlloc", _BYTES, flags)
        if answer != "CUDA_SUCCESS":
            self.state = f"none: no memory that host and device both see ({answer})"
            return
        self._memory = memory[0]
        answer, address = status("cuMemHostGetDevicePointer", self._memory, 0)
        if answer != "CUDA_SUCCESS":
            self.state = f"none: no memory that host and device both see ({answer})"
            return
        self._device_address = address[0]
        self._value = ctypes.c_uint32.from_address(int(self._memory))
        self._value.value = 0
        problem = self._try_it()
        self.state = "cuStreamWaitValue32 on host memory" if not problem else f"none: {problem}"
        if problem:
            self._value = None

    def _try_it(self) -> str:
        """Why a stream does not wait, tried on one of its own; empty when it does."""
        stream = call("cuStreamCreate", binding().CUstream_flags.CU_STREAM_NON_BLOCKING)
        try:
            number = self._wait(int(stream))
        except RuntimeFailure as refused:
            status("cuStreamDestroy", stream)
            return f"cuStreamWaitValue32 is refused: {refused.message}"
        held = status("cuStreamQuery", stream)[0] == "CUDA_ERROR_NOT_READY"
        self._let_go(number)
        until = time.monotonic() + PATIENCE_S
        while status("cuStreamQuery", stream)[0] == "CUDA_ERROR_NOT_READY":
            if time.monotonic() > until:
                return "a stream that waits does not see what the host writes"
            time.sleep(0.0005)
        status("cuStreamDestroy", stream)
        return "" if held else "a stream does not wait"

    def _wait(self, stream: int) -> int:
        """Put a gate on the stream; its number."""
        geq = binding().CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        call("cuStreamWaitValue32", stream, self._device_address, self._last + 1, geq)
        self._last += 1
        return self._last

    def _let_go(self, number: int) -> None:
        value = self._value
        if value is not None and value.value < number:
            value.value = number

    def _count(self, *, forced: bool) -> None:
        self._forced += forced
        if self._forced >= GIVEN_UP:
            self.state = (
                f"given up, since the host waited for the stream or needed more than {PATIENCE_S:g} s to fill it"
            )
            self._value = None
