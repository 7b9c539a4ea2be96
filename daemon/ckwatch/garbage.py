"""When garbage is collected: never all of it while something is going on.

A whole collection looks at everything that a daemon or a language server knows, 5,000 units with all they read, and
holds up every thread for a tenth of a second. Young garbage is collected as always. What has grown old is looked
through when nothing has happened for a while, and then counts as permanent: the next time, only what is new is looked
through.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

NEVER = 1_000_000_000

_usual = gc.get_threshold()
_inside = 0

EVERY_S = 60.0
"""How often it is seen whether nothing happens."""

WORTH = 20
"""Young collections since the last whole one that make another worth while; each lets up to 7,000 objects grow old."""

AT_LATEST = 500
"""So many young collections, and a whole one is made whatever goes on: memory shall stay bounded."""


@contextmanager
def young_only() -> Iterator[None]:
    """No whole collections by themselves while the body runs; a process may have several such bodies at a time."""
    global _inside, _usual  # the interpreter has one collector
    if not _inside:
        _usual = gc.get_threshold()
        gc.set_threshold(_usual[0], _usual[1], NEVER)
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if not _inside:
            gc.set_threshold(*_usual)
            gc.unfreeze()


async def collect_when_idle(busy: Callable[[], bool]) -> None:
    """Until cancelled. What there is now stays: it is not looked through."""
    gc.freeze()
    was_busy = True
    while True:
        await anyio.sleep(EVERY_S)
        is_busy = busy()
        passed = gc.get_count()[2]
        if passed > AT_LATEST or (passed > WORTH and not is_busy and not was_busy):
            gc.collect()
            gc.freeze()
        was_busy = is_busy
