"""The units of a workspace, in brief and whole."""

from __future__ import annotations

from ckwatch.client.events import UnitInBrief
from ckwatch.wire.encoding import to_json
from ckwatch.wire.state import Unit
from ckwatch_lsp.session.folders import UnitTable, place_of
from fakes.fake_engine import unit_of


def brief(unit: Unit) -> UnitInBrief:
    encoded = to_json(unit)
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


def test_who_looks_at_all_units_makes_none_of_them_whole() -> None:
    units, one = UnitTable(), unit_of("k/a@host")
    units["k/a@host"] = brief(one)
    assert units.once("k/a@host") == one
    assert units.once("k/a@host") is not units.once("k/a@host")
    assert units["k/a@host"] is units.once("k/a@host")
    kept = units["k/a@host"]
    units.forget()
    assert units["k/a@host"] == kept
    assert units["k/a@host"] is not kept


def test_units_that_are_set_whole_stay_so() -> None:
    units, one = UnitTable(), unit_of("k/a@host")
    units["k/a@host"] = brief(one)
    assert units["k/a@host"] is not one
    units["k/a@host"] = one
    assert units["k/a@host"] is units.once("k/a@host") is units.brief("k/a@host") is one
