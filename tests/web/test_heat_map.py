"""Instances × shapes: ratios, verdicts, what has no time, and very many of them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from benches.timed_units import DEVICE, HOSTILE, failed_row, feed_of, timing_row, unit_row
from ckwatch import CkwatchError
from ckwatch.model.timings import Comparison, VerdictName
from ckwatch_web.content import PLACE, UNIT, Choice, Content, Note, Plot, Table, csv_text
from ckwatch_web.plots import painted
from ckwatch_web.static_html import page
from ckwatch_web.views.heat_map import (
    BEST,
    LAST_BASELINE,
    MOST_COMPARED,
    MOST_DRAWN,
    MOST_RANKED,
    PREVIOUS,
    SHAPES_AT_A_TIME,
    across_devices,
    depends,
    kinds_of,
    lines_of,
    parts_of,
    picture,
    show,
    table_of,
)

UNITS = [
    unit_row("slow", [timing_row("s", 200.0), timing_row("t", 30.0)]),
    unit_row("fast", [timing_row("s", 100.0), timing_row("t", 15.0, standing="stale", verified=False)]),
    unit_row("wrong", [timing_row("s", 150.0), failed_row("t")]),
    unit_row("untimed", outcome="failed"),
]
BASELINES = [SimpleNamespace(name="before"), SimpleNamespace(name="older")]


def rows(*lines: Any, shapes: tuple[str, ...] = ("s", "t"), against: str = BEST) -> dict[Any, Any]:
    return {row["instance"]: row for row in table_of(lines, shapes, against).rows}


def block(content: Content, kind: type, key: str) -> Any:
    return next(one for one in content.blocks if isinstance(one, kind) and getattr(one, "key", "") == key)


def test_ratios_are_to_the_best_on_the_shape_and_the_best_come_first() -> None:
    lines = lines_of(UNITS, "cold", DEVICE)
    assert [line.unit.instance for line in lines] == ["fast", "slow", "wrong", "untimed"]
    found = rows(*lines)
    assert (found["slow"]["s0"], found["slow"]["s1"]) == (2.0, 2.0)
    assert (found["fast"]["mean"], found["fast"]["worst"], found["fast"]["best_on"]) == (1.0, 1.0, 2)
    assert (found["slow"]["fastest"], found["slow"]["best_on"]) == (30.0, 0)
    assert found["slow"][UNIT] == "k/slow@gfx942"
    assert found["slow"][PLACE] == "/w/k.kernel.toml:7:8"


def test_failures_and_stale_timings_are_shown_as_such() -> None:
    found = rows(*lines_of(UNITS, "cold", DEVICE))
    assert found["wrong"]["s1"] == "wrong result"
    assert found["wrong"]["notes"] == "1 wrong result"
    assert found["fast"]["s1_verdict"] == "stale"
    assert found["fast"]["notes"] == "1 stale, 1 not verified"
    assert found["untimed"]["notes"] == "failed"
    assert found["untimed"]["mean"] is None
    assert "s1" not in found["untimed"]


def test_other_caches_and_devices_and_stand_ins_are_left_out() -> None:
    unit = unit_row("a", [timing_row("s", 1.0, cache="hot"), timing_row("t", 1.0, device="a stand-in for one")])
    (line,) = lines_of([unit], "cold", DEVICE)
    assert line.timings == {}
    assert rows(line)["a"]["notes"] == "not timed"
    (line,) = lines_of([unit], "cold", "a stand-in for one")
    assert line.timings == {}
    assert kinds_of([unit, unit_row("b", [failed_row(device="other")])]) == ([DEVICE, "other"], ["hot"])


@pytest.mark.parametrize(("against", "ratio", "verdict"), [(LAST_BASELINE, 1.5, "SLOW"), (PREVIOUS, 0.9, "FAST")])
def test_ratios_and_verdicts_are_those_of_the_daemon(against: str, ratio: float, verdict: str) -> None:
    timing = timing_row("s", baseline_ratio=1.5, baseline_verdict="SLOW", previous_ratio=0.9, previous_verdict="FAST")
    stale = timing_row("t", baseline_ratio=1.5, baseline_verdict="SLOW", standing="running")
    (line,) = lines_of([unit_row("a", [timing, stale])], "cold", DEVICE, against)
    found = rows(line, against=against)["a"]
    assert (found["s0"], found["s0_verdict"]) == (ratio, verdict)
    if against == LAST_BASELINE:
        assert found["s1_verdict"] == "SLOW, running"
        assert "SLOW, running" in csv_text(table_of([line], ("s", "t"), against))


def test_the_picture_has_what_the_table_has_in_its_colours() -> None:
    plot = picture(lines_of(UNITS, "cold", DEVICE), ("s", "t"), BEST)
    heat, crosses = plot.option["series"]
    assert [cell["value"] for cell in heat["data"]] == [[0, 0, 1.0], [1, 0, 1.0], [0, 1, 2.0], [1, 1, 2.0], [0, 2, 1.5]]
    assert [cell["value"] for cell in crosses["data"]] == [[1, 2]]
    assert "wrong result" in crosses["data"][0]["name"]
    assert ["decal" in cell.get("itemStyle", {}) for cell in heat["data"]] == [False, True, False, False, False]
    pieces = plot.option["visualMap"]["pieces"]
    assert (pieces[0]["lte"], pieces[-1]["gt"]) == (1.005, 4.0)
    assert plot.summary == (
        "3 instances on 2 shapes. fast is the fastest on 2 of 2 shapes. 1 cross: no time, because the kernel or its "
        "device failed. Hatched: stale, of an earlier artifact. A colour reaches up to the ratio beside it."
    )
    json.dumps(painted(plot.option, dark=True))


def test_times_of_several_devices_are_called_so() -> None:
    rows = [timing_row("s", 100.0, place="hip:0"), timing_row("s", 90.0, place="hip:1 on gpu-box")]
    units = [unit_row(name, [row]) for name, row in zip("ab", rows, strict=True)]
    (note,) = across_devices(lines_of(units, "cold", DEVICE))
    assert note.text.startswith("The times were taken on hip:0, hip:1 on gpu-box,")
    assert across_devices(lines_of(units[:1], "cold", DEVICE)) == []


def test_thousands_of_instances() -> None:
    shapes = [f"s{at}" for at in range(20)]
    units = [
        unit_row(f"i{number}", [timing_row(shape, 100.0 + (number * 7 + at) % 50) for at, shape in enumerate(shapes)])
        for number in range(5000)
    ]
    lines = lines_of(units, "cold", DEVICE)
    assert len(table_of(lines, shapes, BEST).rows) == 5000
    plot = picture(lines, shapes, BEST)
    assert len(plot.option["series"][0]["data"]) == MOST_DRAWN * 20
    assert not plot.option["series"][0]["label"]["show"]
    assert plot.summary.startswith("The best 100 of 5,000 timed instances on 20 shapes; the table has all.")


def test_many_shapes_come_in_parts() -> None:
    assert parts_of(["s"] * (SHAPES_AT_A_TIME + 2)) == {"0": "1 to 40 of 42", "40": "41 to 42 of 42"}


async def test_names_are_text() -> None:
    units = [unit_row(HOSTILE, [timing_row(HOSTILE), failed_row("t", HOSTILE)], kernel=HOSTILE)]
    content = await show(feed_of(units, baselines=[], best=[]), {})
    text = page(content, "Heat", menu=[], others=[], csv_of={})
    assert "<img" not in text
    plot = block(content, Plot, "picture")
    assert plot.option["tooltip"]["renderMode"] == "richText"
    assert HOSTILE in plot.option["series"][0]["data"][0]["name"]


async def test_an_empty_kernel_says_what_to_do() -> None:
    content = await show(feed_of([unit_row("a")], baselines=[]), {})
    (note,) = content.blocks
    assert isinstance(note, Note)
    assert note.text == "Nothing was timed: `ckwatch bench k` takes timings."
    assert len((await show(feed_of([], baselines=[]), {})).blocks) == 1


def comparison(verdict: VerdictName, ratio: float) -> Comparison:
    return Comparison(verdict=verdict, ratio=ratio, against="x", other_median_us=1.0)


async def test_the_daemon_says_what_differs_from_the_best() -> None:
    def ranked(unit: str, number: int) -> SimpleNamespace:
        timing = SimpleNamespace(id=number, comparisons=(comparison("SLOW", 2.0),))
        return SimpleNamespace(unit=unit, shape="s", timing=timing)

    best = [ranked("k/slow@gfx942", 1), ranked("k/wrong@gfx942", 99), SimpleNamespace(timing=None)]
    content = await show(feed_of(UNITS, baselines=BASELINES, best=best), {})
    found = {row["instance"]: row for row in block(content, Table, "ratios").rows}
    assert found["slow"]["s0_verdict"] == "SLOW"
    assert "s0_verdict" not in found["wrong"], "that verdict is about another timing"
    against = block(content, Choice, "against")
    assert list(against.options) == [BEST, PREVIOUS, LAST_BASELINE, "baseline:before", "baseline:older"]
    best_rows = {row["shape"]: row["instance"] for row in block(content, Table, "best").rows}
    assert best_rows == {"s": "fast", "t": "fast"}


async def test_without_a_ranking_only_the_verdicts_are_missing() -> None:
    content = await show(feed_of(UNITS, baselines=[], best=CkwatchError("no")), {})
    assert len(block(content, Table, "ratios").rows) == 4


async def test_a_ranking_of_very_many_is_not_asked_for() -> None:
    units = [unit_row(f"i{number}", [timing_row()]) for number in range(MOST_RANKED + 1)]
    content = await show(feed_of(units, baselines=[], best=AssertionError()), {})
    assert "400" in block(content, Note, "unranked").text


async def test_a_named_baseline_is_asked_for() -> None:
    def compare(unit: str, against: str) -> list[SimpleNamespace]:
        assert against == "baseline:older"
        if unit == "k/slow@gfx942":
            raise CkwatchError("it has no timings in this baseline")
        found = None if unit == "k/wrong@gfx942" else comparison("UNSURE", 1.25)
        return [SimpleNamespace(shape="s", cache="cold", comparison=found, why_not="it was timed on another device")]

    content = await show(feed_of(UNITS, baselines=BASELINES, compare=compare), {"against": "baseline:older"})
    found = {row["instance"]: row for row in block(content, Table, "ratios").rows}
    assert (found["fast"]["s0"], found["fast"]["s0_verdict"]) == (1.25, "UNSURE")
    assert found["slow"]["s0"] is None
    assert "another device" in block(content, Note, "why-not").text
    many = [unit_row(f"i{number}", [timing_row()]) for number in range(MOST_COMPARED + 1)]
    content = await show(feed_of(many, baselines=BASELINES, compare=[]), {"against": "baseline:before"})
    assert block(content, Note, "uncompared").text.startswith("200 of 201 timed instances")
    assert block(content, Note, "uncomparable")
    assert not [one for one in content.blocks if isinstance(one, Plot)]


def test_what_the_view_depends_on_changes_with_it_alone() -> None:
    feed = feed_of([*UNITS, unit_row("b", kernel="other")])
    before = depends(feed, {"kernel": "k"})
    feed.units["other/b@gfx942"] = unit_row("b", [timing_row()], kernel="other")
    feed.units["k/slow@gfx942"] = unit_row("slow", [timing_row("s", 200.0), timing_row("t", 30.0)], seconds=9.0)
    assert depends(feed, {"kernel": "k"}) == before
    feed.units["k/slow@gfx942"] = unit_row("slow", [timing_row("s", 199.0)])
    assert depends(feed, {"kernel": "k"}) != before
