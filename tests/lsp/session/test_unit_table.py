"""The units of a workspace, in brief and whole."""

from __future__ import annotations

import pytest

from ckwatch.client.events import UnitInBrief
from ckwatch.wire.state import Unit
from ckwatch_lsp.session import unit_table
from ckwatch_lsp.session.unit_table import UnitTable, place_of
from fake_engine import unit_of


def brief(unit: Unit) -> UnitInBrief:
    encoded = unit.model_dump_json().encode()
    return UnitInBrief(place_of(unit), unit.phase, unit.fresh, unit.generation, unit.measuring, encoded)


def test_a_unit_is_decoded_when_it_is_looked_at_and_the_same_until_it_changes() -> None:
    units, first = UnitTable(), unit_of("k/a@host", generation=1)
    units["k/a@host"] = brief(first)
    assert units.brief("k/a@host") == brief(first)
    assert units.path("k/a@host") == first.place.path
    assert units["k/a@host"] == first
    assert units["k/a@host"] is units["k/a@host"]
    units["k/a@host"] = brief(unit_of("k/a@host", generation=2))
    assert units["k/a@host"].generation == 2
    del units["k/a@host"]
    assert "k/a@host" not in units
    assert units.brief("k/a@host") is None
    assert units.path("k/a@host") is None


def test_whole_states_are_kept_of_those_that_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_table, "DECODED", 2)
    units = UnitTable()
    for name in ("a", "b", "c"):
        units[name] = brief(unit_of(f"k/{name}@host"))
    first = units["a"]
    assert len(units) == len([*units.values()]) == 3
    assert units["a"] == first
    assert units["a"] is not first
