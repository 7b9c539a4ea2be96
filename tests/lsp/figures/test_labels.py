"""Hints: what they say of each state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import brief_of
from ckwatch_lsp.figures.labels import (
    error_cell,
    sweep_label,
    sweep_lenses,
    unit_label,
    unit_lenses,
)
from helpers.each_row import each_row
from lsp.figures.made_up import compared, figures, timing, unit, verified

SLOWER = timing(123456.0, comparisons=(compared(1.5, "SLOW"),))

LABELS: list[tuple[Unit, str]] = [
    (unit(timings=(timing(41.57),)), "41.57 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(41.57, comparisons=(compared(0.979),)),)), "41.57 µs ±1.00 %  100 TFLOP/s  50 %  −2.1 %"),
    (unit(timings=(timing(standing="stale"),)), "·50.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(standing="running"),)), "…50.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(),), phase="compiling", fresh=False), "…50.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(),), to_measure=("4096",)), "…50.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(),), to_measure=("other",)), "50.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(SLOWER,)), "123.5 ms ±1.00 %  100 TFLOP/s  50 %  +50.0 %"),
    (unit(timings=(timing(tflops=0.0123),)), "50.00 µs ±1.00 %  12.3 GFLOP/s  50 %"),
    (unit(timings=(timing(tflops=None, gbps=1234.0, bound_percent=None),)), "50.00 µs ±1.00 %  1234 GB/s"),
    (unit(timings=(timing(shape="a", failure="fault"), timing(60.0, "b"))), "60.00 µs ±1.00 %  100 TFLOP/s  50 %"),
    (unit(timings=(timing(shape="a", failure="fault"),)), "not timed on a: fault"),
    (unit(timings=(timing(device_description="stand-in"),)), "built"),
    (
        unit(timings=(timing(device_description="stand-in"),), figures=figures()),
        "occ 5  100 VGPR  1K LDS  0 spills  MFMA 50 %",
    ),
    (unit(figures=figures(standing="stale", vgpr_spills=3)), "·occ 5  100 VGPR  1K LDS  3 spills  MFMA 50 %"),
    (unit(figures=figures(matrix_use=None, occupancy=None), phase="queued"), "…occ ?  100 VGPR  1K LDS  0 spills"),
    (unit(phase="compiling", outcome=None), "…compiling"),
    (unit(phase="idle", outcome=None, fresh=False), "not built"),
    (unit(outcome="failed", errors=2), "2 errors"),
    (unit(outcome="faulted"), "faulted"),
    (unit(measuring="4096", to_measure=("4096",)), "…timing"),
]


@each_row(("given", "text"), LABELS)
def test_what_a_unit_shows(given: Unit, text: str) -> None:
    assert unit_label(given) == text


def test_the_shape_that_was_chosen_is_shown() -> None:
    given = unit(timings=(timing(50.0, "a"), timing(70.0, "b")))
    assert unit_label(given).startswith("50.00 µs")
    assert unit_label(given, "b").startswith("70.00 µs")
    assert unit_label(given, "c") == "built"


@pytest.mark.parametrize(
    ("relative", "text"),
    [(0, "±0.00 %"), (0.0002, "±0.02 %"), (0.0999, "±9.99 %"), (0.09999, "±10.0 %"), (0.5, "±50.0 %"), (3, "±300 %"),
     (100, "±999 %")],
)  # fmt: skip
def test_errors_have_three_digits(relative: float, text: str) -> None:
    assert error_cell(relative) == text


SWEEP = [unit(f"s_{tile}", timings=(timing(float(tile)),)) for tile in (64, 128, 256)]


def label_of(units: list[Unit]) -> str:
    return sweep_label([brief_of(each) for each in units])


def test_a_sweep_shows_the_best_and_the_worst() -> None:
    known = [*SWEEP, unit("s_512")]
    assert label_of(known) == "64.00 µs – 256.0 µs  3 of 4  s_64"
    again = replace(SWEEP[0], phase="compiling")
    assert label_of([again, *known[1:]]) == "…64.00 µs – 256.0 µs  3 of 4  s_64"
    old = unit("s_64", timings=(timing(64.0, standing="stale"),))
    assert label_of([old, *known[1:]]) == "·64.00 µs – 256.0 µs  3 of 4  s_64"


def test_a_sweep_without_times() -> None:
    known = [unit("s_1", figures=figures()), unit("s_2", figures=figures(vgprs=200, occupancy=2, vgpr_spills=7))]
    assert label_of(known) == "occ 2–5  100–200 VGPR  1K LDS  0–7 spills  MFMA 50 %"
    assert label_of([unit("s_1"), unit("s_2", outcome=None)]) == "1 of 2 built"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (unit(verification=verified()), "✓ verified (emulated gfx942)"),
        (unit(verification=verified(standing="stale")), "· ✓ verified (emulated gfx942), stale"),
        (unit(verification=verified(), verifying=True), "… verifying"),
        (unit(verification=verified(summary="✗ " + 80 * "x", outcome="failed")), "✗ " + 57 * "x" + "…"),
        (unit(figures=figures(), verification=verified()), "✓ verified (emulated gfx942)"),
        (unit(unverified="there is no compiler"), ""),
    ],
)
def test_whether_it_is_verified_stands_behind_the_figures(given: Unit, text: str) -> None:
    assert (
        unit_label(given)
        == f"{unit_label(replace(given, verification=None, verifying=False, unverified=''))}  {text}".rstrip()
    )
    title = next(lens.title for lens in unit_lenses(brief_of(given), "file:///k") if lens.command == "ckwatch.verify")
    assert title == (text or "verify")


def test_what_is_not_emulated_has_no_lens_for_it() -> None:
    brief = brief_of(unit(arch="gfx1310"))
    lenses = [*unit_lenses(brief, "file:///k"), *sweep_lenses("s", [brief], "file:///k")]
    assert "ckwatch.verify" not in {lens.command for lens in lenses}


WRONG = verified(summary="✗ 3 elements are wrong", outcome="failed")


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ([unit("s_1", verification=verified()), unit("s_2", verification=verified())], "✓ 2 verified"),
        ([unit("s_1", verification=verified()), unit("s_2", verification=WRONG)], "✗ 1 wrong, 1 verified"),
        ([unit("s_1", verification=verified()), unit("s_2", verifying=True)], "✓ 1 verified, 1 verifying"),
        ([unit("s_1", verification=verified(standing="stale")), unit("s_2")], ""),
    ],
)
def test_a_sweep_says_how_many_are_verified(units: list[Unit], text: str) -> None:
    assert label_of(units).partition("  ")[2] == text
    lenses = sweep_lenses("s", [brief_of(each) for each in units], "file:///k")
    assert [lens.title for lens in lenses if lens.command == "ckwatch.verify"] == [text or "verify"]
