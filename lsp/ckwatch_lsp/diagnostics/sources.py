"""Diagnostics that other parts of the language server have to tell, beside the daemon's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from lsprotocol import types

_log = logging.getLogger(__name__)

Source = Callable[[str], Sequence[types.Diagnostic]]
"""Diagnostics of the file at an absolute path, for the text as it is now. Called often; must return at once."""


class Sources:
    """Who else tells diagnostics."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._listeners: list[Callable[[Iterable[str]], None]] = []

    def __bool__(self) -> bool:
        return bool(self._sources)

    def add_source(self, source: Source) -> None:
        """Have these diagnostics shown too."""
        self._sources.append(source)

    def changed(self, paths: Iterable[str]) -> None:
        """A source has something else to tell of these files."""
        for listener in self._listeners:
            listener(paths)

    def listen(self, listener: Callable[[Iterable[str]], None]) -> None:
        """Have `listener` called with the files of which sources tell something else."""
        self._listeners.append(listener)

    def at(self, path: str) -> list[types.Diagnostic]:
        """What all sources tell of a file."""
        found: list[types.Diagnostic] = []
        for source in self._sources:
            try:
                found += source(path)
            except Exception:  # noqa: BLE001  # what one source cannot tell must not hide the others
                _log.exception("unexpected, for %s", path)
        return found
