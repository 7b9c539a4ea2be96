"""Texts of hovers, in Markdown and in plain text."""

from __future__ import annotations

from ckwatch.model.roofline import CacheState
from ckwatch.prediction.predict import Prediction
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import brief_of
from ckwatch_lsp.figures.pages import (
    PageLine,
    PageTable,
    PageTitle,
    UnitHistory,
    about_sweep,
    about_unit,
    markdown,
    plain,
)
from lsp.figures.made_up import compared, figures, timing, unit, verified

WHOLE = unit(
    timings=(
        timing(50.0, comparisons=(compared(0.9), compared(1.01, "SAME", "library"))),
        timing(80.0, cache="hot", standing="stale", observed_percent=60.0, clock_mhz=1000.0),
        timing(0.0, "odd", failure="wrong", message="Y[3] is 2, not 1"),
    ),
    figures=figures(next_step="12 VGPR fewer → 6 waves", changes=("VGPR 112 → 100",), sgpr_spills=4),
    unmeasured="no device",
)


def predicted(shape: str, time_us: float | None, measured_us: float | None) -> ShapePrediction:
    prediction = Prediction(part="MI300X", cache=CacheState.COLD, time_us=time_us)
    return ShapePrediction(shape=shape, prediction=prediction, measured_us=measured_us)


PAST = UnitHistory(
    {("4096", "cold"): [52.0, 51.0, 50.0], ("4096", "hot"): [80.0]},
    (predicted("4096", 40.0, 50.0), predicted("odd", None, None)),
)


def lines(given: Unit, past: UnitHistory) -> list[str]:
    return [line for line in plain(about_unit(given, past)).split("\n") if line]


def test_all_that_is_known() -> None:
    found = lines(WHOLE, PAST)
    assert [" ".join(line.split()) for line in found] == [
        "k/one@gfx942 (built in 2.0 s)",
        "shape time error clock rate bound of bound previous library",
        "4096, cold cache 50.00 µs ±1 % 100.0 TFLOP/s 25.00 µs 50 % −10.0 % FAST +1.0 % SAME",
        "4096, hot cache 80.00 µs ±1 % 1000 MHz 100.0 TFLOP/s 25.00 µs 50 % (60 % at the observed clock) stale",
        "odd: wrong: Y[3] is 2, not 1",
        "4096, cold cache: █▅▁ 3 timings, 50.00 µs to 52.00 µs",
        "VGPR SGPR spills LDS waves per SIMD limited by MFMA use, predicted",
        "100 50 0 VGPR, 4 SGPR 1,000 B 5 VGPR 50 %",
        "next step: 12 VGPR fewer → 6 waves",
        "main loop: 200.0 clocks an iteration, predicted for one wave",
        "since the previous build: VGPR 112 → 100",
        "shape predicted measured",
        "4096 40.00 µs on MI300X 50.00 µs",
        "not timed: no device",
        "last change: k.hip.j2 changed",
    ]
    assert len({line.index("µs ") for line in found[2:4]}) == 1, "columns are aligned"


def test_a_stand_in_gives_no_figures() -> None:
    found = lines(unit(timings=(timing(50.0, device_description="stand-in"),)), UnitHistory())
    assert "4096: a stand-in for a device: no figures" in found
    assert not any("µs" in line for line in found)


def test_what_is_going_on() -> None:
    assert "4096 is being timed" in lines(unit(measuring="4096", to_measure=("4096", "odd")), UnitHistory())
    assert "4096, odd: waiting to be timed" in lines(unit(to_measure=("4096", "odd")), UnitHistory())
    assert lines(unit(phase="idle", fresh=False, cause=()), UnitHistory()) == [
        "k/one@gfx942 (changed since it was built)"
    ]


def test_a_sweep_lists_its_best() -> None:
    units = [unit(f"s_{at}", timings=(timing(100.0 - at),)) for at in range(12)]
    found = plain(about_sweep("k/s", [brief_of(each) for each in (unit("s_x"), *units)], "4096")).split("\n")
    assert found[0] == "k/s (13 instances, 12 timed on 4096)"
    assert found[3].split() == ["s_11", "89.00", "µs", "±1.00", "%", "100", "TFLOP/s", "50", "%"]
    assert found[-1] == "and 3 more"


def test_markdown_is_escaped() -> None:
    table = PageTable(("a|b", "never", "n"), (("x_y", "", "1"), ("*", "", "22")))
    assert markdown([PageTitle("k_1", "(note)"), table, PageLine("<b>\nnext")]) == (
        "**k_1** (note)\n\n| a\\|b | n |\n|---|---:|\n| x_y | 1 |\n| `*` | 22 |\n\n`<b>`  \nnext"
    )


def test_tables_without_anything_are_left_out() -> None:
    for table in (PageTable(("a",), ()), PageTable(("a", "b"), (("", ""),))):
        assert markdown([table, PageLine("x")]) == plain([table, PageLine("x")]) == "x"


def test_what_an_emulator_says_comes_first() -> None:
    for given, text in (
        (unit(verification=verified()), "✓ verified (emulated gfx942): 12 shapes tried"),
        (unit(verification=verified(findings=2)), "✓ verified (emulated gfx942): 12 shapes tried, 2 findings"),
        (unit(verifying=True), "… verifying"),
        (unit(unverified="there is no compiler"), "not verified: there is no compiler"),
    ):
        assert lines(given, UnitHistory())[1] == text
