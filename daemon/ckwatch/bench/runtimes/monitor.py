"""Readings of one device by its vendor's library, which may be absent, of another version, or refuse: each in its own
way. A reading that fails says nothing."""

from __future__ import annotations

import contextlib
from typing import Any


class VendorReadings:
    """`version` is the library's, or why it cannot be used. `SHUTDOWN` gives the library back, `PACKAGE` is it."""

    SHUTDOWN = ""
    PACKAGE = ""

    def __init__(self, pci: str) -> None:
        self.version = ""
        self._library: Any = None
        self._handle: Any = None
        try:
            self._start(pci)
        except Exception as error:  # noqa: BLE001
            self.version = f"none: {self._error_text(error)}"
            self.close()

    @property
    def are_there(self) -> bool:
        return self._handle is not None

    def close(self) -> None:
        library, self._library, self._handle = self._library, None, None
        if library is not None:
            with contextlib.suppress(Exception):
                getattr(library, self.SHUTDOWN)()

    def _start(self, pci: str) -> None:
        raise NotImplementedError

    def _error_text(self, error: Exception) -> str:
        if isinstance(error, ModuleNotFoundError):
            return f"{self.PACKAGE} is not installed"
        return " ".join(str(error).split()) or type(error).__name__
