"""The table of phase transitions: `move` follows it, nothing bypasses it, and docs print it."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path

import pytest

import ckwatch
from ckwatch.core.events import Cause, UnitKey
from ckwatch.core.phases import TRANSITIONS, InvalidTransitionError, Phase, move, transitions_table
from ckwatch.core.unit_state import UnitState
from core.workspace import A, built, unit
from helpers.each_row import each_row
from helpers.parsed_sources import parsed

ROOT = Path(ckwatch.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "unit-phases.md"


def a_unit(phase: Phase) -> UnitState:
    model = unit(built(), A).unit
    return UnitState(UnitKey("", A), model, Cause("t1 changed", 2.0, Cause("new in the workspace", 1.0)), phase)


def test_the_page_prints_the_table() -> None:
    table = transitions_table()
    assert PAGE.read_text().endswith(f"\n\n{table}\n"), f"its table should be:\n{table}"


def test_every_phase_has_a_row_and_leads_back_to_the_start() -> None:
    assert TRANSITIONS.keys() == set(Phase)
    assert all(Phase.WAITING in following for following in TRANSITIONS.values())
    for phase in (Phase.DONE, Phase.IDLE):
        assert not TRANSITIONS[phase].keys() & {Phase.RENDERING, Phase.COMPILING}, "a settled unit waits for its turn"


@each_row(("old", "new"), list(product(Phase, Phase)))
def test_only_pairs_of_the_table_are_allowed(old: Phase, new: Phase) -> None:
    one = a_unit(old)
    if new in TRANSITIONS[old]:
        move(one, new)
        assert one.phase is new
        return
    with pytest.raises(InvalidTransitionError, match=f"cannot go from {old} to {new}") as error:
        move(one, new)
    assert error.value.hint == "t1 changed\nnew in the workspace"
    assert one.phase is old


def test_nothing_else_changes_a_phase() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in parsed(ROOT, [".phase"])
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "phase" and isinstance(node.ctx, ast.Store)
    ]
    assert len(found) == 1, found
    assert found[0].startswith("core/phases.py")
