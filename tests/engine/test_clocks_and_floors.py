"""Clock, cycles and noise floor as clients see them, and in comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.timing_records import measured, record, report, samples
from ckwatch.bench.report import NoiseFloor
from ckwatch.engine.comparison import compare_results, compare_timings, floor_of
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model.errors import CkwatchError
from ckwatch.model.roofline import CacheState
from ckwatch.wire.figures_text import clock_of, device_words, timing_cells
from helpers.own_timings import OwnTimings

UNIT = "gemm/m128@gfx942"


def test_cycles_are_the_median_of_each_sample_s_own() -> None:
    taken = samples(CacheState.COLD, 100.0, 110.0, 120.0, clocks_mhz=(1500.0, 1400.0, 1200.0))
    (timing,) = record_to_wire(record(report=report(measured(UNIT, taken), slowed={"power": 0.7})), "a1")
    assert timing.cycles == pytest.approx(150_000.0)
    assert timing.limited_by == ("power",)
    assert clock_of(timing) == "1400 MHz, 150.0 kcycles, power limit"
    assert timing_cells(timing)[3] == clock_of(timing)


@pytest.mark.parametrize(
    ("clocks", "slowed", "words"),
    [
        ((), {}, ""),
        ((), {"other processes": 1.0}, "other processes"),
        ((1500.0,), {}, "1500 MHz"),  # not one for each sample
        ((1500.0,) * 20, {}, "1500 MHz, 150.0 kcycles"),
        ((15000.0,) * 20, {}, "15000 MHz, 1.500 Mcycles"),
    ],
)
def test_the_clock_in_words(clocks: tuple[float, ...], slowed: dict[str, float], words: str) -> None:
    given = record(report=report(measured(UNIT, samples(clocks_mhz=clocks)), slowed=slowed))
    (timing,) = record_to_wire(given, "a1")
    assert clock_of(timing) == words


def test_the_floor_is_the_worse_of_the_two_reports() -> None:
    assert floor_of(None, report()) == 0.0
    fine, coarse = (report(noise_floor=NoiseFloor(resolution_us=one, jitter_us=0.1)) for one in (0.05, 1.0))
    assert floor_of(fine) == 0.1
    assert floor_of(fine, coarse) == 1.0
    (timing,) = record_to_wire(record(report=coarse), "a1")
    assert timing.noise_floor_us == 1.0


@pytest.mark.parametrize(("floor_us", "verdict"), [(0.0, "SLOW"), (5.0, "SAME")])
def test_below_the_floor_nothing_is_slow(floor_us: float, verdict: str) -> None:
    ours, theirs = (measured(UNIT, samples(CacheState.COLD, *[time_us] * 20)) for time_us in (104.0, 100.0))
    found = compare_results(ours, theirs, CacheState.COLD, "x", floor_us=floor_us)
    assert found is not None
    assert found.verdict == verdict


def test_what_the_clocks_explain_is_not_slow() -> None:
    ours, theirs = (
        measured(UNIT, samples(CacheState.COLD, *[time_us] * 20, clocks_mhz=(clock,) * 20))
        for time_us, clock in ((108.0, 1000.0), (100.0, 1080.0))
    )
    found = compare_results(ours, theirs, CacheState.COLD, "x")
    assert found is not None
    assert found.verdict == "UNSURE"


def test_flushed_instruction_caches_are_said_and_not_compared_with_others(tmp_path: Path) -> None:
    flushed = report(measured(UNIT, samples()), flushed_instructions=True)
    (timing,) = record_to_wire(record(report=flushed), "a1")
    assert device_words(timing).endswith("instruction caches flushed")
    timings = OwnTimings(tmp_path / "history.sqlite")
    timings.open()
    timings.add([record(artifact_key="a0"), record(report=flushed)])
    with pytest.raises(CkwatchError, match="timings of one artifact only"):
        compare_timings(timings, UNIT, "previous", present={UNIT: "a1"})
    timings.close()
