"""Readings of one device by its vendor's library, which may be absent, of another version, or refuse: each in its own
way. A reading that fails says nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from ckwatch.bench.report import DeviceReading

PROCESSES = Path("/proc")


class VendorReadings(ABC):
    """`version` is the library's, or why it cannot be used. `PACKAGE` is the library."""

    PACKAGE = ""

    def __init__(self, pci: str) -> None:
        self.version = ""
        self._library: Any = None
        self._handle: Any = None
        try:
            self._start(pci)
        except Exception as error:  # noqa: BLE001
            self.version = f"none: {self._error_text(error)}"
            self._handle = None

    @property
    def are_there(self) -> bool:
        return self._handle is not None

    @abstractmethod
    def read(self) -> DeviceReading:
        """The present state; nothing in it where the library cannot be used or fails."""

    @abstractmethod
    def others(self) -> tuple[str, ...]:
        """`PID NAME` of each other process that computes on the device; empty where that cannot be seen."""

    @abstractmethod
    def _start(self, pci: str) -> None:
        """Load the library and find the device; whatever this raises is the reason why there are no readings."""

    def _error_text(self, error: Exception) -> str:
        if isinstance(error, ModuleNotFoundError):
            return f"{self.PACKAGE} is not installed"
        return " ".join(str(error).split()) or type(error).__name__


def process_name(pid: int, processes: Path = PROCESSES) -> str:
    try:
        return (processes / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"
