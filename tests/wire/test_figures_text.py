"""Timings and the figures of code objects as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ckwatch.model.figures import Figures
from ckwatch.model.timings import Comparison, Timing
from ckwatch.wire.figures_text import (
    comparison_with,
    comparison_words,
    device_words,
    figures_words,
    interval_of,
    is_figure,
    provenance,
    samples_words,
    state_of,
    timing_cells,
    timing_words,
)
from ckwatch.wire.state import Unit
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import figures_of, unit_of
from helpers.each_row import each_row


def timing(**changes: Any) -> Timing:
    """A timing of the test's invention."""
    fields: dict[str, Any] = {
        "id": 1, "unit": "k/a@gfx942", "kernel": "k", "instance": "a", "arch": "gfx942", "shape": "s", "cache": "cold",
        "device": "hip:7", "device_description": "test device", "median_us": 100.0, "minimum_us": 99.0, "q3_us": 101.25,
        "relative_error": 0.00123, "samples": 20,
    }  # fmt: skip
    return Timing(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "[99.00, 101.2] µs"),
        ({"median_us": 2000.0, "minimum_us": 999.0, "q3_us": 2001.0}, "[0.999, 2.001] ms"),
    ],
)
def test_intervals_are_in_the_medians_unit(changes: dict[str, float], expected: str) -> None:
    assert interval_of(timing(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "", "", ""]),
        ({"gbps": 1234.5}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "", "1234 GB/s", ""]),
        (
            {"gbps": 1234.5, "tflops": 12.3, "bound_percent": 61.4},
            ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "", "12.30 TFLOP/s", "61 % of bound"],
        ),
        ({"tflops": 0.0123}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "", "12.30 GFLOP/s", ""]),
        (
            {"bound_percent": 61.4, "observed_percent": 70.0, "clock_mhz": 1500.0, "relative_error": 1.0},
            ["100.0 µs", "±100 %", "[99.00, 101.2] µs", "1500 MHz", "", "61 % of bound (70 % at 1500 MHz)"],
        ),
    ],
)
def test_cells(changes: dict[str, float], expected: list[str]) -> None:
    assert timing_cells(timing(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"failure": "wrong result"}, False),
        ({"device_description": "a stand-in for a device of the tests"}, False),
    ],
)
def test_what_has_figures(changes: dict[str, str], expected: bool) -> None:
    assert is_figure(timing(**changes)) is expected


@pytest.mark.parametrize(
    ("interleaved", "expected"), [(False, "SLOW 1.021 × previous"), (True, "SLOW 1.021 × previous, in turns")]
)
def test_comparisons(interleaved: bool, expected: str) -> None:
    found = Comparison(verdict="SLOW", ratio=1.0214, against="previous", other_median_us=98.0, interleaved=interleaved)
    assert comparison_words(found) == expected
    elsewhere = replace(found, other_device="hip:1 on gpu-box")
    assert comparison_words(elsewhere) == f"{expected}, the other on hip:1 on gpu-box"


def test_where_and_of_what() -> None:
    assert device_words(timing()) == "hip:7, test device"
    assert device_words(timing(machine="gpu-box")) == "hip:7 on gpu-box, test device"
    assert device_words(timing(pci="0000:07:00.0")) == "hip:7, test device, 0000:07:00.0"
    assert device_words(timing(device="", device_description="")) == ""
    assert provenance(timing(artifact_key="a" * 64, standing="stale")) == ["a" * 12, "", "stale"]
    assert provenance(timing(standing="fresh")) == ["", "", ""]
    assert (samples_words(timing(samples=1)), samples_words(timing(discarded=3))) == (
        "1 sample",
        "20 samples, 3 discarded",
    )


SLOWER = Comparison(verdict="SLOW", ratio=1.052, against="previous", other_median_us=9.5)
BASELINE = Comparison(verdict="FAST", ratio=0.9, against="baseline main", other_median_us=11.0)
SAME = Comparison(verdict="SAME", ratio=1.001, against="previous", other_median_us=10.0)
FIRST = timing_of(shape="big", relative_error=0.004, tflops=512.3, bound_percent=61.6)


def unit(*timings: Timing, measuring: str | None = None) -> Unit:
    return unit_of(timings=timings, measuring=measuring)


@each_row(
    ("shown", "words"),
    [
        (unit(), ""),
        (unit(measuring="big"), "timing big"),
        (unit(FIRST), "10.00 µs ±0.4 % 512 TFLOP/s 62 % of bound (big)"),
        (
            unit(timing_of(cache="hot", median_us=8.0), FIRST),
            "10.00 µs ±0.4 % 512 TFLOP/s 62 % of bound (big, 1 more)",
        ),
        (unit(timing_of(standing="stale")), "10.00 µs ±0 % (test, stale)"),
        (unit(timing_of(comparisons=(SLOWER,))), "10.00 µs ±0 % SLOW +5.2 % (test)"),
        (unit(timing_of(comparisons=(SAME,))), "10.00 µs ±0 % (test)"),
        (unit(timing_of(comparisons=(BASELINE, SLOWER))), "10.00 µs ±0 % SLOW +5.2 % (test)"),
        (unit(timing_of(tflops=0.0123)), "10.00 µs ±0 % 12.3 GFLOP/s (test)"),
        (unit(timing_of(gbps=512.3)), "10.00 µs ±0 % 512 GB/s (test)"),
        (unit(timing_of(failure="wrong result", message="it is wrong")), ""),
        (unit(timing_of(device_description="a stand-in for a device")), ""),
        (
            unit(timing_of(shape="no", device_description="a stand-in for a device"), FIRST),
            "10.00 µs ±0.4 % 512 TFLOP/s 62 % of bound (big)",
        ),
    ],
)
def test_a_unit_in_a_few_words(shown: Unit, words: str) -> None:
    assert timing_words(shown) == words


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
    assert figures_words(figures) == words


def test_a_comparison_by_its_kind() -> None:
    assert comparison_with((SLOWER, BASELINE), "baseline") is BASELINE
    assert comparison_with((SLOWER,), "library") is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"phase": "compiling"}, "compiling"),
        ({"phase": "done", "outcome": "built", "fresh": True}, "built"),
        ({"phase": "idle", "outcome": "built", "fresh": False}, "not built"),
        ({"phase": "idle", "outcome": None}, "not built"),
    ],
)
def test_the_state_of_a_unit_in_a_word(changes: dict[str, Any], word: str) -> None:
    assert state_of(unit_of(**changes)) == word
