"""Units as rows of a table: that which is shown, as JSON has it, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckwatch.model.timings import Comparison
from ckwatch.wire.alerts import standing_of
from ckwatch.wire.encoding import to_json
from ckwatch.wire.rows import UnitRow, read_row, unit_row
from ckwatch.wire.state import Unit
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import figures_of, unit_of


def kept(unit: Unit, *, untimed: bool = False) -> UnitRow:
    return read_row(json.loads(to_json(unit_row(unit, untimed=untimed))))


def test_of_a_unit_that_is_kept_which_is_shown() -> None:
    timing = timing_of(
        comparisons=(
            Comparison(verdict="SLOW", ratio=1.5, against="previous", other_median_us=1.0),
            Comparison(verdict="FAST", ratio=0.5, against="baseline main", other_median_us=1.0),
        ),
        tflops=2.0,
    )
    row = kept(unit_of(timings=(timing,), figures=figures_of(), seconds=2.5, to_measure=("a", "b")))
    assert (row.kernel, row.instance, row.arch) == ("gemm", "m128", "gfx942")
    assert row.headline == figures_of().headline
    assert (row.seconds, row.to_measure, row.state) == (2.5, 2, "built")
    (own,) = row.timings
    assert (own.median_us, own.tflops) == (10.0, 2.0)
    assert (own.previous_verdict, own.previous_ratio) == ("SLOW", 1.5)
    assert (own.baseline_verdict, own.baseline_ratio) == ("FAST", 0.5)


def test_equal_units_are_equal_rows() -> None:
    unit = unit_of(timings=(timing_of(),))
    assert kept(unit) == kept(unit)
    assert kept(unit) != kept(unit_of(timings=(timing_of(median_us=11.0),)))


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"measuring": "s"}, "timing"),
        ({"verifying": True}, "verifying"),
        ({"phase": "queued"}, "queued"),
        ({"phase": "done", "outcome": "failed"}, "failed"),
        ({"phase": "idle", "outcome": None}, "idle"),
    ],
)
def test_a_unit_is_in_one_state(fields: dict[str, Any], state: str) -> None:
    assert kept(unit_of(**fields)).state == state


def test_a_row_says_that_it_has_no_timings() -> None:
    unit = unit_of(timings=(timing_of(),))
    row = kept(unit, untimed=True)
    assert (row.timings, row.timed_at, row.untimed) == ((), 0.0, True)
    assert row._replace(timings=kept(unit).timings, timed_at=timing_of().taken_at, untimed=False) == kept(unit)


def test_a_place_is_as_compilers_print_it() -> None:
    unit = unit_of()
    assert kept(unit).place == f"{unit.place.path}:{unit.place.start.line + 1}:{unit.place.start.column + 1}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"outcome": "faulted"},
        {"timings": (timing_of(failure="wrong result", message="NaN\nat 1"),)},
        {"timings": (timing_of(failure="wrong result", standing="stale"),)},
        {"timings": (timing_of(comparisons=(
            Comparison(verdict="SLOW", ratio=1.5, against="previous", other_median_us=1.0),
            Comparison(verdict="SLOW", ratio=1.2, against="baseline main", other_median_us=1.0),
            Comparison(verdict="SLOW", ratio=1.2, against="library", other_median_us=1.0),
        )),)},
    ],
)  # fmt: skip
def test_a_row_stands_as_its_unit(fields: dict[str, Any]) -> None:
    unit = unit_of(**fields)
    assert kept(unit).standing == standing_of(unit)
