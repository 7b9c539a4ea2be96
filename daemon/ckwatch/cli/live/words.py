"""Which units the words of `ckwatch watch` mean, also of those that come later."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.values import Unit


class Meant:
    """The units of kernel files in `folders` (or at these paths), and those that `patterns` name; no words mean all.

    `folders` are real paths; what the daemon calls by another name may lie in them.
    """

    def __init__(self, folders: Sequence[Path] = (), patterns: Sequence[str] = ()) -> None:
        self.folders = tuple(folders)
        self.patterns = tuple(patterns)
        self._expressions = [re.compile(fnmatch.translate(pattern)).match for pattern in patterns]
        self._known: dict[tuple[str, str], bool] = {}
        self._real: dict[str, Path] = {}

    @property
    def everything(self) -> bool:
        """Whether there is no limit."""
        return not self.folders and not self.patterns

    def __contains__(self, unit: Unit) -> bool:
        if self.everything:
            return True
        key = (unit.id, unit.place.path)
        found = self._known.get(key)
        if found is None:
            names = (unit.kernel, f"{unit.kernel}/{unit.instance}", unit.id)
            found = any(expression(name) for expression in self._expressions for name in names)
            found = found or any(self._lies_in(unit.place.path, folder) for folder in self.folders)
            self._known[key] = found
        return found

    def _lies_in(self, path: str, folder: Path) -> bool:
        real = self._real.get(path)
        if real is None:
            real = self._real[path] = Path(os.path.realpath(path))
        return real.is_relative_to(folder)
