"""How compilers stand back for other programs: for editors, the language server and the daemon itself.

Niceness alone does nothing between sessions where the kernel schedules each session as one group (autogroup, sched(7)),
as those of most desktops do: there the group has a niceness of its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import anyio

AGAIN_S = 0.1
"""A user may set the niceness of one session in so many seconds (`proc_sched_autogroup_set_nice` of Linux)."""

TRIES = 50


async def stand_back(session: int, nice: int) -> None:
    """Add `nice` to the niceness of a session that has just been started by its leader; it may have ended already."""
    if nice <= 0:
        return
    with suppress(OSError):
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        os.setpriority(os.PRIO_PGRP, session, niceness)
        autogroup = Path("/proc", str(session), "autogroup")
        for _ in range(TRIES):
            try:
                autogroup.write_text(str(niceness))  # noqa: ASYNC240  # a word for the kernel; no disk
            except BlockingIOError:
                await anyio.sleep(AGAIN_S)
            else:
                return
