"""A unit's timings and figures in the terminal view. No time here was measured."""

from __future__ import annotations

import pytest

from ckwatch.cli.live.told import figures_in_words, timing_in_words
from ckwatch.wire.timings import Comparison, Timing
from ckwatch.wire.values import Figures, Unit
from fake_benchmarks import timing_of
from fake_engine import figures_of, unit_of

SLOWER = Comparison(verdict="SLOW", ratio=1.052, against="previous", other_median_us=9.5)
SAME = Comparison(verdict="SAME", ratio=1.001, against="previous", other_median_us=10.0)
FIRST = timing_of(shape="big", relative_error=0.004, tflops=512.3, bound_percent=61.6)


def unit(*timings: Timing, measuring: str | None = None) -> Unit:
    return unit_of(timings=timings, measuring=measuring)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (unit(), ""),
        (unit(measuring="big"), "timing big"),
        (unit(FIRST), "10.00 µs ±0.4 % 512 TFLOP/s 62 % of the bound (big)"),
        (
            unit(timing_of(cache="hot", median_us=8.0), FIRST),
            "10.00 µs ±0.4 % 512 TFLOP/s 62 % of the bound (big, 1 more)",
        ),
        (unit(timing_of(standing="stale")), "10.00 µs ±0.0 % (test, stale)"),
        (unit(timing_of(comparisons=(SLOWER,))), "10.00 µs ±0.0 % SLOW +5.2 % (test)"),
        (unit(timing_of(comparisons=(SAME,))), "10.00 µs ±0.0 % (test)"),
        (unit(timing_of(failure="wrong result", message="it is wrong")), ""),
    ],
)
def test_a_unit_in_a_few_words(shown: Unit, words: str) -> None:
    assert timing_in_words(shown) == words


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (None, ""),
        (figures_of(), "occupancy 2 (VGPR), 194 VGPR, no spills, MFMA 92 % predicted"),
        (
            figures_of(agprs=16, vgpr_spills=3, sgpr_spills=1),
            "occupancy 2 (VGPR), 194 VGPR, 16 AGPR, 4 spilled, MFMA 92 % predicted",
        ),
        (figures_of(occupancy=None, matrix_use=None, standing="stale"), "194 VGPR, no spills, stale"),
    ],
)
def test_figures_in_a_few_words(figures: Figures | None, words: str) -> None:
    assert figures_in_words(figures) == words
