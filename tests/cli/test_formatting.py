"""Amounts in words."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.cli.formatting import (
    aligned,
    comparison_words,
    count,
    device_words,
    duration,
    elapsed,
    figures,
    figures_in_words,
    interval_of,
    is_figure,
    memory,
    provenance,
    samples_words,
    short_commit,
    time_of,
    timing_in_words,
)
from ckwatch.wire.benchmarks import Comparison, Timing
from ckwatch.wire.state import Figures, Unit
from fake_benchmarks import timing_of
from fake_engine import figures_of, unit_of


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.00 s"), (0.044, "0.04 s"), (0.12, "0.1 s"), (23.44, "23.4 s"), (59.94, "59.9 s"), (59.96, "1 min"),
        (60, "1 min"), (125, "2 min 5 s"), (3599.7, "1 h"), (3600, "1 h"), (12_000, "3 h 20 min"), (86_400, "1 d"),
        (352_800, "4 d 2 h"),
    ],
)  # fmt: skip
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (7.4, "7 s"), (59.4, "59 s"), (59.6, "1 min"), (125, "2 min 5 s")]
)
def test_elapsed(seconds: float, words: str) -> None:
    assert elapsed(seconds) == words


@pytest.mark.parametrize(("size", "words"), [(54_400_000, "54 MB"), (1_240_000_000, "1.2 GB")])
def test_memory(size: int, words: str) -> None:
    assert memory(size) == words


def test_count() -> None:
    assert [count(number, "unit") for number in (0, 1, 2)] == ["0 units", "1 unit", "2 units"]


def timing(**changes: Any) -> Timing:
    """A timing of the test's invention."""
    fields: dict[str, Any] = {
        "id": 1, "unit": "k/a@gfx942", "kernel": "k", "instance": "a", "arch": "gfx942", "shape": "s", "cache": "cold",
        "device": "hip:7", "device_description": "test device", "median_us": 100.0, "minimum_us": 99.0, "q3_us": 101.25,
        "relative_error": 0.00123, "samples": 20,
    }  # fmt: skip
    return Timing(**(fields | changes))


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [
        (0.0, "0.000 µs"),
        (0.01234, "0.012 µs"),
        (1.23456, "1.235 µs"),
        (9.9996, "10.00 µs"),
        (12.345, "12.35 µs"),
        (99.996, "100.0 µs"),
        (123.456, "123.5 µs"),
        (999.94, "999.9 µs"),
        (999.96, "1.000 ms"),
        (1000.0, "1.000 ms"),
        (123_456.0, "123.5 ms"),
        (999_960.0, "1.000 s"),
        (2_500_000.0, "2.500 s"),
        (3.6e9, "3600 s"),
    ],
)
def test_times(microseconds: float, expected: str) -> None:
    assert time_of(microseconds) == expected


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
        ({}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "", ""]),
        ({"gbps": 1234.5}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "1234 GB/s", ""]),
        (
            {"gbps": 1234.5, "tflops": 12.3, "bound_percent": 61.4},
            ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "12.30 TFLOP/s", "61 % of bound"],
        ),
        ({"tflops": 0.0123}, ["100.0 µs", "±0.12 %", "[99.00, 101.2] µs", "12.30 GFLOP/s", ""]),
        (
            {"bound_percent": 61.4, "observed_percent": 70.0, "clock_mhz": 1500.0, "relative_error": 1.0},
            ["100.0 µs", "±100 %", "[99.00, 101.2] µs", "", "61 % of bound (70 % at 1500 MHz)"],
        ),
    ],
)
def test_figures(changes: dict[str, float], expected: list[str]) -> None:
    assert figures(timing(**changes)) == expected


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


@pytest.mark.parametrize(
    ("commit", "expected"),
    [(None, ""), ("", ""), ("0123456789abcdef", "0123456789"), ("0123456789abcdef-dirty", "0123456789-dirty")],
)
def test_commits(commit: str | None, expected: str) -> None:
    assert short_commit(commit) == expected


def test_where_and_of_what() -> None:
    assert device_words(timing()) == "hip:7, test device"
    assert device_words(timing(pci="0000:07:00.0")) == "hip:7, test device, 0000:07:00.0"
    assert device_words(timing(device="", device_description="")) == ""
    assert provenance(timing(artifact_key="a" * 64, standing="stale")) == ["a" * 12, "", "stale"]
    assert provenance(timing(standing="fresh")) == ["", "", ""]
    assert (samples_words(timing(samples=1)), samples_words(timing(discarded=3))) == (
        "1 sample",
        "20 samples, 3 discarded",
    )


@pytest.mark.parametrize(
    ("rows", "right", "expected"),
    [
        ([], frozenset(), []),
        ([["a", "1"], ["bcd", "23"]], frozenset({1}), ["a     1", "bcd  23"]),
        ([["a", ""], ["bcd", "x", "more"], []], frozenset(), ["a", "bcd  x  more", ""]),
        ([["a", "", "b"], ["c"], ["d", "", ""]], frozenset(), ["a  b", "c", "d"]),
        ([["größe", "x"], ["寸", "y"]], frozenset(), ["größe  x", "寸     y"]),
    ],
)
def test_columns(rows: list[list[str]], right: frozenset[int], expected: list[str]) -> None:
    assert aligned(rows, right) == expected


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
