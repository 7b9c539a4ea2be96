"""What to say when inotify has no more to give, and how to raise its limits."""

from __future__ import annotations

import errno
from pathlib import Path

_LIMITS = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES = 524_288
ENOUGH_INSTANCES = 1_024


def describe(error: OSError) -> tuple[str, str]:
    """The message and the hint for an error of inotify. Reads one small file of `/proc`."""
    if error.errno == errno.ENOSPC:
        return _limit("max_user_watches", "file watches", ENOUGH_WATCHES)
    if error.errno == errno.EMFILE:
        message, hint = _limit("max_user_instances", "inotify instances (or of open files)", ENOUGH_INSTANCES)
        return message, f"{hint}\nIf that changes nothing, raise the number of open files: ulimit -n 4096"
    if error.errno == errno.ENOSYS:
        return "This system has no inotify; folders are polled instead.", "ckwatch watches files best on Linux."
    return (
        f"Folders cannot be watched ({error.strerror or error}); they are polled instead.",
        "Changes are noticed a little later. It is tried again every few seconds.",
    )


def _limit(name: str, what: str, enough: int) -> tuple[str, str]:
    try:
        now = int((_LIMITS / name).read_text())
    except (OSError, ValueError):
        now = 0
    number = max(enough, 2 * now)
    known = f" ({now})" if now else ""
    return (
        f"The limit of {what}{known} is reached; some folders are polled instead.",
        (
            f"sudo sysctl fs.inotify.{name}={number}\n"
            f"To keep it: echo fs.inotify.{name}={number} | sudo tee /etc/sysctl.d/60-ckwatch.conf"
        ),
    )
