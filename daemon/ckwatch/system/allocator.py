"""How this process's C library keeps memory that was freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""

RETURNED_BYTES = 128 * 1024
"""So much goes back to the system as soon as it is free: glibc's own thresholds, without their growth up to 64 MiB."""


def return_freed_memory() -> None:
    """Give memory back to the system when it is freed, also what threads freed; glibc alone knows of it.

    By default each thread has an arena of its own, and what a start has needed for a moment stays: of a daemon with
    5,000 units a tenth. It is set for this process and not in its environment, or compilers would inherit it. To be
    called before there are threads.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, RETURNED_BYTES)
        library.mallopt(_TRIM_THRESHOLD, RETURNED_BYTES)


def return_free_pages() -> None:
    """Give back all pages that are free now, also those between others that are in use. Blocks; call from a worker
    thread: of a daemon that has opened 5,000 units these are 35 MB, which takes 20 ms, and where little is free less
    than a millisecond."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
