"""Compiles for questions, beside those of the units' phases: time traces and source lines of ISA listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyio import CancelScope

from ckwatch.core.events import UnitKey


class SideWork:
    """The work for each unit, so that others than its requester can cancel it."""

    def __init__(self) -> None:
        self._running: list[tuple[UnitKey, CancelScope]] = []

    @contextmanager
    def of(self, unit: UnitKey) -> Iterator[None]:
        """The body ends early, without an exception, when `cancel` means the unit."""
        with CancelScope() as scope:
            one = (unit, scope)
            self._running.append(one)
            try:
                yield
            finally:
                self._running.remove(one)

    def cancel(self, is_meant: Callable[[UnitKey], bool]) -> list[str]:
        """End what is at work for these units, which are returned."""
        found = [(unit, scope) for unit, scope in self._running if is_meant(unit) and not scope.cancel_called]
        for _, scope in found:
            scope.cancel()
        return [unit.unit for unit, _ in found]
