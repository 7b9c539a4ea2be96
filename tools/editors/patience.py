"""Waiting for an editor: how long, and when something is asked for again.

A question has one answer, and a server that still reads headers has none yet. A test asks again until it sees what it
asserts, each time after a longer wait: who asks before the answer can come never sees it on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Seen = TypeVar("Seen")

PATIENCE_S = 900.0
"""How long anything may take to show. It is there against hanging only."""


def pauses(first_s: float = 10.0) -> Iterator[float]:
    """Seconds to wait for an answer before it is asked for again: as many as have passed, until `PATIENCE_S` have."""
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < PATIENCE_S:
        yield min(max(first_s, passed_s), PATIENCE_S - passed_s)


def ask_until(ask: Callable[[], object], look: Callable[[float], Seen]) -> Seen:
    """Return what `look` sees in the seconds it is given; where it raises AssertionError, `ask` is called again."""
    for pause_s in pauses():
        ask()
        try:
            return look(pause_s)
        except AssertionError as error:
            last = error
    raise last
