"""When a process has taken too long: what it has used of the processor counts, not how long others made it wait.

Pure: samples go in, a verdict comes out. A process that only sleeps, waits for a disk that is gone, or is stopped, uses
no processor and would never end: it is stalled after a while. One that is ready to run and gets no turn is not.
"""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass

BUSY_SHARE = 0.01
"""A process that uses less than this part of a processor is not at work."""

SAMPLES = 100
"""How many samples are taken before a limit; none lasts longer than LONGEST_PAUSE_S."""

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0


class Overrun(StrEnum):
    """The limit that was exceeded."""

    PROCESSOR = "processor"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """Resources that the processes of a group have used so far, ended and reaped ones included."""

    processor_s: float
    ready: bool
    """One of them runs, or waits for its turn."""


class TimeLimits:
    """The limits of one group of processes, which was started at `now_s` of a clock that does not go back."""

    def __init__(self, processor_s: float, stalled_s: float, now_s: float) -> None:
        self._processor_s = processor_s
        self._stalled_s = stalled_s
        self._used_s = 0.0
        self._busy_at_s = now_s
        self._used_when_busy_s = 0.0

    @property
    def used_s(self) -> float:
        """Processor time of the group as of the last sample."""
        return self._used_s

    @property
    def pause_s(self) -> float:
        """The time between two samples."""
        return min(max(min(self._processor_s, self._stalled_s) / SAMPLES, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)

    def overrun(self, usage: GroupUsage, now_s: float) -> Overrun | None:
        """Take in a sample; the limit that is exceeded, if one is."""
        # What a process has used goes with it when its parent ends first.
        self._used_s = max(self._used_s, usage.processor_s)
        if self._used_s >= self._processor_s:
            return Overrun.PROCESSOR
        waited_s = now_s - self._busy_at_s
        if usage.ready or self._used_s - self._used_when_busy_s > BUSY_SHARE * waited_s:
            self._busy_at_s, self._used_when_busy_s = now_s, self._used_s
        elif waited_s >= self._stalled_s:
            return Overrun.STALLED
        return None
