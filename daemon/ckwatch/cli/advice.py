"""Why kernels that a command has built spill or have few waves, for its output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from ckwatch.cli.output import Output
from ckwatch.client import Client
from ckwatch.model.diagnostics import Diagnostic

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import Unit

ADVICE_LIMIT_S = 60.0
"""How long a command waits for it. The daemon goes on, and shows it the next time."""


async def advice_on(client: Client, output: Output, units: Iterable[Unit | None]) -> dict[str, tuple[Diagnostic, ...]]:
    """The advice on units by id, as far as it is found in time."""
    names = [unit.id for unit in units if unit is not None and _needs_it(unit)]
    found: dict[str, tuple[Diagnostic, ...]] = {}
    if names:
        with output.working("finding out why kernels spill"), anyio.move_on_after(ADVICE_LIMIT_S):
            for one in await client.advice(*names):
                for unit in one.units:
                    found[unit] = (*found.get(unit, ()), one)
    return found


def _needs_it(unit: Unit) -> bool:
    figures = unit.figures
    if figures is None or unit.outcome != "built" or figures.standing != "fresh":
        return False
    return bool(figures.vgpr_spills or figures.scratch_bytes) or figures.limited_by == "LDS" or figures.kernels > 1
