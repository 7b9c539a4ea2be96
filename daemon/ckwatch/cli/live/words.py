"""Which units the words of `ckwatch watch` mean, also of those that come later."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.values import Unit


class Meant:
    """The units that any of `patterns` names, as `ckwatch.model.selection` says; without patterns all."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._folders = tuple(f"{pattern.rstrip('/')}/" for pattern in patterns if pattern.startswith("/"))
        self._expressions = [
            re.compile(fnmatch.translate(pattern)).match for pattern in patterns if not pattern.startswith("/")
        ]
        self._known: dict[tuple[str, str], bool] = {}

    @property
    def everything(self) -> bool:
        """Whether there is no limit."""
        return not self.patterns

    def __contains__(self, unit: Unit) -> bool:
        if self.everything:
            return True
        key = (unit.id, unit.place.path)
        found = self._known.get(key)
        if found is None:
            names = (unit.kernel, f"{unit.kernel}/{unit.instance}", unit.id)
            found = any(expression(name) for expression in self._expressions for name in names)
            found = found or f"{unit.place.path}/".startswith(self._folders)
            self._known[key] = found
        return found
