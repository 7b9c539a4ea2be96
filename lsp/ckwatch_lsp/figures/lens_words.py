"""Which lenses stand above which line, as titles and the commands that they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ckwatch_lsp.figures.standing import Brief

ROOM = 64
"""Instances of a file up to which each has its lenses; of more only the active one has: an editor asks for all of them
whenever one is another."""


class Lens(NamedTuple):
    """`title` runs `command` with `argument`."""

    title: str
    command: str
    argument: dict[str, Any]


def unit_lenses(brief: Brief, uri: str, *, choosable: bool = False) -> list[Lens]:
    """Those of one unit: only what can be done. `choosable`: there are others to choose from."""
    about = {"uri": uri, "unit": brief.unit.id}
    lenses = [Lens("run", "ckwatch.run", about)]
    if brief.running:
        lenses.append(Lens("cancel", "ckwatch.cancel", about))
    if brief.timing is not None:
        lenses.append(Lens("set baseline", "ckwatch.setBaseline", about))
        lenses.append(Lens("compare", "ckwatch.compare", about))
    lenses.append(Lens("source", "ckwatch.openSource", about))
    if brief.unit.arch.startswith("gfx"):
        lenses.append(Lens("ISA", "ckwatch.openIsa", about))
    if choosable:
        lenses.append(Lens("choose instance", "ckwatch.chooseInstance", {"uri": uri}))
    return lenses


def sweep_lenses(sweep: str, briefs: Sequence[Brief], uri: str) -> list[Lens]:
    """Those of a sweep: they mean all of its units."""
    first = briefs[0].unit
    about = {"uri": uri, "unit": f"{first.kernel}/{_literal(sweep)}_*@{first.arch}" if len(briefs) > 1 else first.id}
    lenses = [Lens("run", "ckwatch.run", about)]
    if any(brief.running for brief in briefs):
        lenses.append(Lens("cancel", "ckwatch.cancel", about))
    return lenses


def affected_lens(count: int, uri: str) -> Lens:
    """How many units read a file, or call a macro; it asks which of them is to be the active one."""
    return Lens(f"affects {count} unit{'' if count == 1 else 's'}", "ckwatch.chooseInstance", {"uri": uri})


def _literal(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
