"""Events of one name in one watched folder, from the kernel or from a scan.

Plain tuples and bits: ten thousand of them may come in a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

APPEARED: Final = 1
CHANGED: Final = 2
VANISHED: Final = 4
WRITING: Final = 8
"""Written to, and still open."""
CLOSED: Final = 16
"""Closed by a writer; comes with `CHANGED`."""
FOLDER: Final = 32
"""The name is, or was, a folder. Comes with one of the above."""
GONE: Final = 64
"""The watched folder itself was deleted, moved or unmounted; the name is empty."""

WatchEvent: TypeAlias = tuple[str, str, int]
"""The watched folder (a real path), the name in it, and what happened to it."""


@dataclass(frozen=True, slots=True)
class WatchEvents:
    """What happened since the last reading, in order; `lost` when the kernel had to drop some of it."""

    happenings: list[WatchEvent]
    lost: bool = False
