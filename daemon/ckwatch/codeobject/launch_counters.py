"""Hardware counters of launches, summed by kernel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from math import isfinite

from ckwatch.model.device_profiles import MeasuredKernel


class LaunchCounters:
    """Values while they are read: one for each launch, counter and instance of it. Falsy without any launch."""

    def __init__(self) -> None:
        self._launches: dict[str, dict[Hashable, int | None]] = defaultdict(dict)
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._counted: dict[tuple[str, str], set[Hashable]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._launches)

    def launch(self, launch: Hashable, kernel: str, time_ns: int | None) -> None:
        """Take a launch, known by any value that no other has."""
        self._launches[kernel][launch] = time_ns

    def add(self, launch: Hashable, kernel: str, counter: str, value: float, time_ns: int | None = None) -> None:
        """Take a value of a launch. Raises ValueError for one that is no number."""
        if not isfinite(value):
            raise ValueError(f"{value} is not a count")
        self.launch(launch, kernel, time_ns)
        self._values[kernel][counter] += value  # type: ignore[assignment]  # a Counter adds floats as well
        self._counted[kernel, counter].add(launch)

    def kernels(self) -> tuple[MeasuredKernel, ...]:
        """The kernels, those with the most time first, then by name."""
        found = [
            MeasuredKernel(
                name=name,
                launches=len(launches),
                time_ns=sum(known) if (known := [time for time in launches.values() if time is not None]) else None,
                counters=dict(sorted(self._values[name].items())),
                counted={counter: len(self._counted[name, counter]) for counter in sorted(self._values[name])},
            )
            for name, launches in self._launches.items()
        ]
        return tuple(sorted(found, key=lambda one: (-(one.time_ns or 0), one.name)))
