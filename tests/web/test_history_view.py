"""The history of a unit: medians with intervals, changes of the artifact, verdicts, failures, compiles."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from benches.timed_units import HOSTILE, feed_of, timing_row, unit_row, wire_timing
from ckwatch import CkwatchError
from ckwatch.model.timings import Comparison, Timing
from ckwatch.wire.messages import Run
from ckwatch_web.content import NO_UNITS, PLACE, Choice, Content, Facts, Note, Plot, Table
from ckwatch_web.places import place_in
from ckwatch_web.plots import painted
from ckwatch_web.static_html import page
from ckwatch_web.views.history import (
    MOST_PLOTS,
    by_shape,
    changes_of,
    commits_of,
    depends,
    plot_of,
    runs_table,
    show,
    timings_table,
    verdicts_of,
)

SLOWER = Comparison(verdict="SLOW", ratio=1.25, against="previous", other_median_us=80.0)
TIMINGS = [
    wire_timing(
        1, 80.0, artifact_key="a0", standing="stale", clock_mhz=1500.0, cycles=120_000.0, limited_by=("power",)
    ),
    wire_timing(2, 100.0, clock_mhz=1600.0),
    wire_timing(2, 50.0, cache="hot"),
    wire_timing(3, 0.0, failure="wrong result", message="wrong\nat 1", cache=""),
]
VERDICTS = {(2, "cold"): (SLOWER,)}
UNIT = unit_row("a", [timing_row()])
RUN = Run(outcome="built", key="k" * 64, finished_at=1e9, seconds=2.5, from_store=True, cause=())


def series(plot: Plot, kind: str) -> list[Any]:
    return [one for one in plot.option["series"] if one["type"] == kind]


def blocks(content: Content, kind: type) -> list[Any]:
    return [one for one in content.blocks if isinstance(one, kind)]


def test_commits_stand_at_their_first_timing_and_lead_to_their_pages() -> None:
    first, second = "a" * 40, "b" * 40 + "-dirty"
    timings = [wire_timing(number, 80.0, commit=one) for number, one in ((1, first), (2, first), (3, second))]
    assert [at for _, at in commits_of(timings)] == [timings[0].taken_at, timings[2].taken_at]
    plot = plot_of("s", timings, {}, web="https://example.org/k")
    marks = series(plot, "line")[0]["markLine"]["data"]
    assert [mark["label"]["formatter"] for mark in marks if mark["label"]["show"]] == ["aaaaaaa", "bbbbbbb"]
    assert [address for _, address in plot.links] == [
        f"https://example.org/k/commit/{one}" for one in (first, "b" * 40)
    ]
    assert plot_of("s", timings, {}).links == ()
    text = page(Content(title="", blocks=(plot,)), "History", menu=())
    assert f'href="https://example.org/k/commit/{first}"' in text


def test_medians_have_intervals_and_the_artifact_changes_are_marked() -> None:
    plot = plot_of("s", TIMINGS, VERDICTS)
    cold, hot, clock = series(plot, "line")
    assert [point["value"] for point in cold["data"]] == [[1000 * (1e9 + 3600), 80.0], [1000 * (1e9 + 7200), 100.0]]
    assert [point["value"][1] for point in hot["data"]] == [50.0]
    assert [bar["coords"][0][1] for bar in series(plot, "lines")[0]["data"]] == [72.0, 90.0]
    assert [bar["coords"][1][1] for bar in series(plot, "lines")[0]["data"]] == [88.0, 110.00000000000001]
    marks = {line["xAxis"]: line["name"].partition("\n")[0] for line in cold["markLine"]["data"]}
    assert marks == {1000 * (1e9 + 3600): "c0ffee1234", 1000 * (1e9 + 7200): f"artifact {TIMINGS[1].artifact_key[:12]}"}
    assert [point["value"][1] for point in clock["data"]] == [1500.0, 1600.0]
    (time_axis, clock_axis) = plot.option["yAxis"]
    assert time_axis["min"] < 45.0
    assert time_axis["max"] > 110.0
    assert clock_axis["name"] == "clock, MHz"
    (failed,) = series(plot, "scatter")
    assert "wrong result" in failed["data"][0]["name"]
    json.dumps(painted(plot.option, dark=True))


def test_a_point_says_everything_in_the_words_of_the_command_line() -> None:
    first, last = series(plot_of("s", TIMINGS, VERDICTS), "line")[0]["data"]
    for words in ("80.00 µs", "[72.00, 88.00] µs", "1500 MHz, 120.0 kcycles, power limit", "artifact a0", "stale"):
        assert words in first["name"]
    assert first["itemStyle"]["opacity"] < 1
    assert "SLOW 1.250 × previous" in last["name"]
    assert "commit c0ffee1234" in last["name"]


def test_the_summary_has_the_last_and_its_verdict() -> None:
    assert plot_of("s", TIMINGS, VERDICTS).summary == (
        "3 timings of 2 artifacts. The last, cold cache: 100.0 µs, SLOW 1.250 × previous. The last, hot cache: 50.00 µs. "
        "1 failure, the last: wrong result."
    )
    only_failed = plot_of("s", TIMINGS[3:], {})
    assert only_failed.summary == "No timings. 1 failure, the last: wrong result."


def test_times_far_apart_are_on_a_logarithmic_axis_and_devices_apart() -> None:
    plot = plot_of("s", [wire_timing(1, 1.0), wire_timing(2, 100.0, device_description="another")], {})
    assert plot.option["yAxis"][0]["type"] == "log"
    assert plot.option["legend"]["data"] == ["cold cache, hip:0, another", "cold cache, hip:0, test device"]


def test_a_single_point_has_an_axis_of_hours() -> None:
    at = 1000 * TIMINGS[1].taken_at
    alone = plot_of("s", [TIMINGS[1]], {}).option["xAxis"]
    assert (alone["min"], alone["max"]) == (at - 3_600_000, at + 3_600_000)
    assert "min" not in plot_of("s", TIMINGS, {}).option["xAxis"]


async def test_a_shape_without_a_time_is_a_sentence() -> None:
    content = await show(feed_of([UNIT], **answers([TIMINGS[3]])), {"unit": UNIT.id})
    assert blocks(content, Plot) == []
    assert "s: No timings. 1 failure, the last: wrong result." in [note.text for note in blocks(content, Note)]


def test_shapes_the_last_first_and_no_stand_ins() -> None:
    stand_in = wire_timing(9, shape="u", device_description="a stand-in for one")
    found = by_shape([wire_timing(3, shape="t"), wire_timing(1), wire_timing(2, shape="t"), wire_timing(5), stand_in])
    assert {shape: [timing.id for timing in own] for shape, own in found.items()} == {"s": [1, 5], "t": [2, 3]}
    assert [timing.id for timing in changes_of(TIMINGS)] == [2]


def test_the_table_has_everything() -> None:
    table = timings_table(UNIT, TIMINGS, VERDICTS)
    failed, *_, oldest = table.rows
    assert (failed["compared"], failed["doubts"], failed.get("median")) == ("wrong result", "wrong", None)
    assert [row["compared"] for row in table.rows][1] == "SLOW 1.250 × previous"
    assert (oldest["clock"], oldest["cycles"], oldest["limited"]) == (1500.0, 120_000.0, "power")
    assert (oldest["commit"], oldest["artifact"], oldest["standing"]) == ("c0ffee1234", "a0", "stale")
    assert oldest[PLACE] == "/w/k.kernel.toml:7:8"
    assert len({row["id"] for row in table.rows}) == len(TIMINGS)
    keys = {column.key for column in table.columns}
    assert {key for key in oldest if not key.startswith("_") and key != "id"} <= keys


def test_compiles() -> None:
    checked = replace(RUN, outcome="checked", finished_at=0.0, seconds=0.0, key="")
    row, other = runs_table(UNIT, [RUN, checked]).rows
    assert (other["finished"], other["seconds"], other["store"]) == ("", None, "")
    assert (row["outcome"], row["seconds"], row["store"], row["key"]) == ("built", 2.5, "from the store", "k" * 12)


def answers(timings: list[Timing], last: tuple[Timing, ...] = ()) -> dict[str, Any]:
    detail = SimpleNamespace(unit=SimpleNamespace(timings=last))
    return {"timings": timings, "runs": [RUN], "unit": detail}


async def test_the_view() -> None:
    last = replace(TIMINGS[1], comparisons=(SLOWER,))
    assert verdicts_of([last]) == VERDICTS
    content = await show(feed_of([UNIT], **answers(TIMINGS, (last,))), {"unit": UNIT.id})
    assert content.title == UNIT.id
    assert [plot.title for plot in blocks(content, Plot)] == ["s"]
    assert "SLOW" in blocks(content, Plot)[0].summary
    assert [table.key for table in blocks(content, Table)] == ["timings", "runs"]
    assert blocks(content, Facts)[0].place == place_in(UNIT.place)


async def test_many_shapes_can_be_chosen_from() -> None:
    timings = [wire_timing(number, shape=f"s{number}") for number in range(MOST_PLOTS + 2)]
    content = await show(feed_of([UNIT], **answers(timings)), {"unit": UNIT.id})
    assert len(blocks(content, Plot)) == MOST_PLOTS
    (shape,) = [choice for choice in blocks(content, Choice) if choice.key == "shape"]
    assert shape.options["all"] == "the last 6 timed"
    content = await show(feed_of([UNIT], **answers(timings)), {"unit": UNIT.id, "shape": "s0"})
    assert [plot.title for plot in blocks(content, Plot)] == ["s0"]
    assert len(blocks(content, Table)[0].rows) == 1


async def test_without_timings_it_says_why() -> None:
    content = await show(feed_of([unit_row("a")], **answers([])), {})
    assert blocks(content, Note)[0].text == "No timings: `ckwatch bench 'k/a@gfx942'` takes timings."
    refused = unit_row("a", unmeasured="no device for gfx942")
    content = await show(feed_of([refused], **answers([])), {})
    assert blocks(content, Note)[0].text == "No timings: no device for gfx942."
    assert await show(feed_of([]), {}) is NO_UNITS


async def test_a_unit_that_is_removed_meanwhile_has_its_history() -> None:
    content = await show(feed_of([UNIT], **answers(TIMINGS) | {"unit": CkwatchError("gone")}), {})
    assert len(blocks(content, Plot)) == 1


async def test_names_are_text() -> None:
    unit = unit_row(HOSTILE, kernel=HOSTILE)
    timings = [wire_timing(1, shape=HOSTILE, toolchain=HOSTILE, commit=HOSTILE)]
    content = await show(feed_of([unit], **answers(timings)), {})
    assert "<img" not in page(content, "History", menu=[], others=[], csv_of={})


def test_it_depends_on_the_unit_alone() -> None:
    feed = feed_of([UNIT, unit_row("b")])
    before = depends(feed, {"unit": UNIT.id})
    feed.units["k/b@gfx942"] = unit_row("b", [timing_row()])
    assert depends(feed, {"unit": UNIT.id}) == before
    feed.units[UNIT.id] = unit_row("a", [timing_row()], seconds=3.0)
    assert depends(feed, {"unit": UNIT.id}) != before
