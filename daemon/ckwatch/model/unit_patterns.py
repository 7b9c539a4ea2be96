"""Unit patterns: a kernel (`gemm_f16`), an instance (`gemm_f16/v3_*`) or a unit (`gemm_f16/v3@gfx942`).

A pattern that begins with `/` is the path of a kernel file, or of a folder with kernel files.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from ckwatch.model.kernels import Kernel, Unit


def matches(unit: Unit, pattern: str) -> bool:
    """Whether `pattern` names the unit's kernel, its instance or the unit itself."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in unit_names(unit))


def units_of(kernel: Kernel, archs: Sequence[str]) -> tuple[Unit, ...]:
    """The units of `kernel` for `archs`, instance by instance."""
    return tuple(Unit(kernel, instance, arch) for instance in kernel.instances for arch in archs)


def unit_names(unit: Unit) -> tuple[str, str, str]:
    """The names by which a unit can be meant, the widest first."""
    return (unit.kernel.name, f"{unit.kernel.name}/{unit.instance.name}", unit.id)


def select_units(units: Mapping[str, Unit], patterns: Sequence[str] | None) -> tuple[list[str], str | None]:
    """The ids that `patterns` mean (None: all), in the order of `units`, and the first pattern that means none."""
    if patterns is None:
        return list(units), None
    found: set[str] = set()
    for pattern in patterns:
        if pattern in units:
            found.add(pattern)
            continue
        if pattern.startswith("/"):
            below = pattern.rstrip("/") + "/"
            here = {name for name, unit in units.items() if f"{unit.kernel.path}/".startswith(below)}
            if not here:
                return [], pattern
            found |= here
            continue
        expression = re.compile(fnmatch.translate(pattern)).match
        kernel = pattern.partition("/")[0]
        plain = not any(character in kernel for character in "*?[")
        here = {
            name
            for name, unit in units.items()
            if (not plain or unit.kernel.name == kernel) and any(expression(one) for one in unit_names(unit))
        }
        if not here:
            return [], pattern
        found |= here
    return [name for name in units if name in found], None


def suggest_pattern(units: Iterable[Unit], pattern: str) -> str:
    """What may have been meant, or what there is."""
    every = list(units)
    names = dict.fromkeys(name for unit in every for name in unit_names(unit))
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    kernels = ", ".join(dict.fromkeys(unit.kernel.name for unit in every)) or "none"
    return f"kernels of this workspace: {kernels}"
