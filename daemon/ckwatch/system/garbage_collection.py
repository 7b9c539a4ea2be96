"""Garbage collection for long-running processes: full collections run only while the process is idle.

A full collection visits everything that a daemon or a language server holds (5,000 units with all they read) and blocks
every thread for a tenth of a second. Young garbage is collected as usual. Old objects are collected when nothing has
happened for a while, and what survives is frozen: the next full collection visits only what is new.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

NEVER = 1_000_000_000

_usual_thresholds = gc.get_threshold()
_bodies_running = 0
_freezes = True

CHECK_INTERVAL_S = 60.0
"""How often it is seen whether nothing happens."""

MIN_YOUNG_COLLECTIONS = 20
"""Young collections since the last whole one that make another worth while; each lets up to 7,000 objects grow old."""

MAX_YOUNG_COLLECTIONS = 500
"""So many young collections, and a whole one is made whatever goes on: memory shall stay bounded."""


@contextmanager
def young_only() -> Iterator[None]:
    """No whole collections by themselves while the body runs; a process may have several such bodies at a time.

    A program that has frozen objects itself keeps them frozen: there, nothing is frozen nor thawed.
    """
    global _bodies_running, _usual_thresholds, _freezes  # the interpreter has one collector
    if not _bodies_running:
        _freezes = not gc.get_freeze_count()
        _usual_thresholds = gc.get_threshold()
        gc.set_threshold(_usual_thresholds[0], _usual_thresholds[1], NEVER)
    _bodies_running += 1
    try:
        yield
    finally:
        _bodies_running -= 1
        if not _bodies_running:
            gc.set_threshold(*_usual_thresholds)
            if _freezes:
                gc.unfreeze()


async def collect_when_idle(busy: Callable[[], bool]) -> None:
    """Until cancelled. What there is now stays: it is not looked through."""
    _freeze()
    was_busy = True
    while True:
        await anyio.sleep(CHECK_INTERVAL_S)
        is_busy = busy()
        passed = gc.get_count()[2]
        if passed > MAX_YOUNG_COLLECTIONS or (passed > MIN_YOUNG_COLLECTIONS and not is_busy and not was_busy):
            gc.collect()
            _freeze()
        was_busy = is_busy


def _freeze() -> None:
    if _freezes:
        gc.freeze()
