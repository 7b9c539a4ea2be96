"""Unit patterns: a kernel (`gemm_f16`), an instance (`gemm_f16/v3_*`) or a unit (`gemm_f16/v3@gfx942`).

A pattern that begins with `/` is the path of a kernel file, or of a folder with kernel files.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ckwatch.model.errors import UnknownUnitError

if TYPE_CHECKING:  # the command line and the language server have units of their own
    from ckwatch.model.kernels import Unit

NAME_CUTOFF = 0.6
"""How near a name must be to be suggested, as difflib's `ratio`."""


class UnitPattern:
    """One pattern, compiled."""

    __slots__ = ("_below", "_kernel", "_match", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._below = f"{text.rstrip('/')}/" if text.startswith("/") else None
        kernel = text.partition("/")[0]
        self._kernel = None if any(character in kernel for character in "*?[") else kernel
        self._match = re.compile(fnmatch.translate(text)).match

    def matches(self, kernel: str, instance: str, unit_id: str, path: str) -> bool:
        """Return True if it names the unit, its instance or its kernel, whose file is `path`."""
        if self._below is not None:
            return f"{path}/".startswith(self._below)
        if self._kernel is not None and kernel != self._kernel:
            return False
        return unit_id == self._text or any(map(self._match, unit_names(kernel, instance, unit_id)))


def may_name(pattern: str, kernel: str, path: str) -> bool:
    """Return True if a pattern may name a unit of the kernel file at `path` of which only the kernel's name is
    known."""
    if pattern.startswith("/"):
        return UnitPattern(pattern).matches(kernel, "", "", path)
    wildcard = re.search(r"[*?[]", pattern)
    if wildcard is None or "/" in pattern[: wildcard.start()]:
        return pattern.partition("/")[0] == kernel
    # a wildcard may also stand for a slash
    return fnmatch.fnmatchcase(kernel, pattern) or kernel.startswith(pattern[: wildcard.start()])


def unit_names(kernel: str, instance: str, unit_id: str) -> tuple[str, str, str]:
    """The names that a pattern is compared with, the widest first."""
    return (kernel, f"{kernel}/{instance}", unit_id)


def select_units(units: Mapping[str, Unit], patterns: Sequence[str] | None) -> tuple[list[str], str | None]:
    """The ids that `patterns` name (None: all), in the order of `units`, and the first pattern that names none."""
    if patterns is None:
        return list(units), None
    found: set[str] = set()
    for text in patterns:
        if text in units:
            found.add(text)
            continue
        pattern = UnitPattern(text)
        here = {
            name
            for name, unit in units.items()
            if pattern.matches(unit.kernel.name, unit.instance.name, unit.id, unit.kernel.path)
        }
        if not here:
            return [], text
        found |= here
    return [name for name in units if name in found], None


def nearest_name(names: Iterable[str], pattern: str) -> str | None:
    """The name that `pattern` was probably meant to be."""
    near = difflib.get_close_matches(pattern, list(dict.fromkeys(names)), n=1, cutoff=NAME_CUTOFF)
    return near[0] if near else None


def suggest_pattern(units: Iterable[Unit], pattern: str) -> str:
    """The nearest name as a question, or the kernels that there are."""
    every = list(units)
    names = (name for unit in every for name in unit_names(unit.kernel.name, unit.instance.name, unit.id))
    near = nearest_name(names, pattern)
    if near is not None:
        return f"did you mean '{near}'?"
    kernels = ", ".join(dict.fromkeys(unit.kernel.name for unit in every)) or "none"
    return f"kernels of this workspace: {kernels}"


def unknown_kernel(kernels: Iterable[str], name: str) -> UnknownUnitError:
    """Return the error for a name that is not a kernel's; an instance leads to its kernel."""
    known = list(kernels)
    own = name.partition("/")[0]
    meant = own if own in known else nearest_name(known, name)
    return UnknownUnitError(
        f"there is no kernel '{name}'",
        f"did you mean '{meant}'?" if meant else f"there are {', '.join(known)}" if known else None,
    )
