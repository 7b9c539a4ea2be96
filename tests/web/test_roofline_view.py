"""The roofline: points, bounds, roof, limits, and predictions that are called so."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from benches.timed_units import DEVICE, HOSTILE, failed_row, feed_of, timing_row, unit_row
from ckwatch import CkwatchError
from ckwatch.model.roofline import CacheState, ProcessorRoof
from ckwatch.prediction.predict import Prediction
from ckwatch.prediction.times import Bottleneck
from ckwatch.wire.analysis import PredictedRanking
from ckwatch_web.content import NO_UNITS, Choice, Content, Note, Plot, Table
from ckwatch_web.plots import painted
from ckwatch_web.static_html import page
from ckwatch_web.views.roofline import (
    MOST_POINTS,
    TERMS,
    fastest_of,
    limits_of,
    plot_of,
    predicted_plot,
    show,
    timed_of,
    timings_table,
)

PEAK, BANDWIDTH = 100.0, 2.0


def below_the_roof(shape: str, intensity: float, part: float = 0.5, **changes: Any) -> Any:
    """A timing of 1 GFLOP that reaches this part of its bound."""
    bound = min(PEAK, BANDWIDTH * intensity)
    tflops = part * bound
    time_us = 1e9 / tflops / 1e6
    return timing_row(
        shape, time_us, tflops=tflops, gbps=1000 * tflops / intensity, **{"bound_us": part * time_us, "bound_percent": 100 * part} | changes,
    )  # fmt: skip


UNITS = [
    unit_row("a", [below_the_roof("small", 10.0, 0.6), below_the_roof("large", 90.0, 0.4)]),
    unit_row("b", [below_the_roof("small", 10.0, 0.5), failed_row("large")]),
]


def only(content: Content, kind: type, key: str) -> Any:
    return next(one for one in content.blocks if isinstance(one, kind) and getattr(one, "key", "") == key)


def series(plot: Plot) -> dict[Any, Any]:
    return {one.get("name"): one for one in plot.option["series"]}


async def test_a_processor_has_the_roof_that_was_measured() -> None:
    units = [unit_row("a", [below_the_roof("small", 10.0, bound_us=None, bound_percent=None, place="cpu")])]
    roof = ProcessorRoof(processor="P", threads=2, tflops=80.0, bandwidth_tbs=4.0, measured_at=1e9)
    feed = feed_of(units, processor_roof=roof, analysis=CkwatchError("none"))
    content = await show(feed, {})
    (plot,) = [one for one in content.blocks if isinstance(one, Plot)]
    (row,) = only(content, Table, "timings").rows
    assert (row["bound"], row["specified"]) == (pytest.approx(25.0), pytest.approx(25.0)), "10 of the 40 TFLOP/s"
    assert series(plot)["80.00 TFLOP/s"]["data"][0] == pytest.approx([20.0, 80.0])
    assert (
        "was measured on this machine on 2001-09-09: f32 multiply-adds and reads of memory by 2 threads" in plot.summary
    )
    busy = feed_of(
        units, processor_roof=CkwatchError("something is timed", "look again later"), analysis=CkwatchError("")
    )
    said = only(await show(busy, {}), Note, "roof").text
    assert said == "Something is timed: look again later."


def test_points_bounds_and_the_roof() -> None:
    (timed,) = timed_of(UNITS).values()
    plot = plot_of(DEVICE, timed)
    found = series(plot)
    points = found["cold cache"]["data"]
    assert [point["value"] for point in points] == [[90.0, 40.0], [10.0, 12.0], [10.0, 10.0]]
    assert [point.get("label", {}).get("formatter") for point in points] == ["large\na", "small\na", None]
    assert found["cold cache"]["labelLayout"]["hideOverlap"]
    assert [mark["value"] for mark in found["bound"]["data"]] == [[90.0, 100.0], [10.0, pytest.approx(20.0)]]
    assert found["2 TB/s"]["data"][-1] == pytest.approx([50.0, 100.0])
    assert found["100.0 TFLOP/s"]["data"][0] == pytest.approx([50.0, 100.0])
    assert plot.option["xAxis"]["type"] == plot.option["yAxis"]["type"] == "log"
    assert plot.summary == (
        "3 timings. Nearest to its bound is a on small, cold cache, with 60 %. Below 50 FLOP per byte the memory is the "
        "limit, above it the matrix units."
    )
    json.dumps(painted(plot.option, dark=False))


def test_devices_stand_apart_and_one_shape_or_cache_can_be_chosen() -> None:
    units = [
        unit_row("a", [below_the_roof("small", 10.0), below_the_roof("small", 10.0, device="new", cache="hot", id=7)])
    ]
    assert list(timed_of(units)) == ["new", DEVICE]
    assert list(timed_of(units, cache="cold")) == [DEVICE]
    assert timed_of(units, shape="none") == {}
    no_rates = unit_row("b", [timing_row(gbps=None), timing_row(tflops=None), timing_row(device="a stand-in")])
    assert timed_of([no_rates]) == {}


def test_what_limits_a_timing_comes_from_its_bound() -> None:
    timed = timed_of(UNITS)
    assert limits_of(timed, []) == {(DEVICE, "small"): "memory", (DEVICE, "large"): "matrix"}
    alone = timed_of(UNITS[1:])
    assert limits_of(alone, []) == {(DEVICE, "small"): ""}, "one bound alone does not show it"

    def analysis(roofline_us: float) -> Any:
        prediction = SimpleNamespace(roofline_us=roofline_us, roofline_by="memory")
        shape = SimpleNamespace(shape="small", prediction=prediction)
        return SimpleNamespace(report=SimpleNamespace(arch="gfx942"), shapes=(shape,))

    bound_us = UNITS[1].timings[0].bound_us
    assert bound_us is not None
    assert limits_of(alone, [analysis(bound_us)]) == {(DEVICE, "small"): "memory"}
    assert limits_of(alone, [analysis(2 * bound_us)]) == {(DEVICE, "small"): ""}, "that is another part's roofline"


def test_the_table_has_bounds_at_both_clocks() -> None:
    unit = unit_row(
        "a", [below_the_roof("small", 10.0, observed_percent=70.0), below_the_roof("small", 10.0, cache="hot")]
    )
    timed = timed_of([unit])
    cold, hot = timings_table(timed, {(DEVICE, "small"): "memory"}).rows
    assert (cold["specified"], cold["observed"], cold["limit"], cold["intensity"]) == (50.0, 70.0, "memory", 10.0)
    assert (hot["cache"], hot["limit"]) == ("hot", "")


def test_of_very_many_the_fastest_of_each_shape_are_drawn() -> None:
    units = [
        unit_row(f"i{number}", [below_the_roof(f"s{at}", 1.0 + at, 0.9 - number / 3000) for at in range(20)])
        for number in range(2000)
    ]
    (timed,) = timed_of(units).values()
    plot = plot_of(DEVICE, timed)
    assert len(series(plot)["cold cache"]["data"]) == MOST_POINTS
    assert {one.unit.instance for one in fastest_of(timed)} == {"i0"}
    assert plot.summary.startswith("2,000 of 40,000 timings, the fastest of each shape; choose one shape")
    table = timings_table({DEVICE: timed}, {})
    assert len(table.rows) == 5000
    assert table.title.endswith(", 5,000 of 40,000, the fastest of each shape")


async def test_names_are_text() -> None:
    shape = "{c}" + HOSTILE
    units = [unit_row(HOSTILE, [below_the_roof(shape, 10.0)]), unit_row("b", [below_the_roof("s", 90.0)])]
    content = await show(feed_of(units, analysis=CkwatchError("no code object")), {})
    assert "<img" not in page(content, "Roofline", menu=[], others=[], csv_of={})
    point = series(only(content, Plot, "roofline-0"))["cold cache"]["data"][0]
    assert "{" not in point["label"]["formatter"]
    assert not [one for one in content.blocks if isinstance(one, Table) and one.key == "parts"]


async def test_predicted_parts_of_the_chosen_unit_are_called_predicted() -> None:
    prediction = Prediction(
        part="MI300X", cache=CacheState.COLD, roofline_us=5.0, roofline_by="memory", bound_us=6.0, time_us=9.0,
        limited_by=Bottleneck.MEMORY, terms={Bottleneck.MEMORY: 8.0}, why=("memory",), notes=("a note",),
    )  # fmt: skip
    asked: list[str] = []

    def analysis(unit: str) -> Any:
        asked.append(unit)
        one = SimpleNamespace(shape="small", prediction=prediction, measured_us=10.0)
        return SimpleNamespace(report=SimpleNamespace(arch="gfx942"), shapes=(one,), fresh=True)

    content = await show(feed_of(UNITS, analysis=analysis), {})
    content = await show(feed_of(UNITS, analysis=analysis), {"unit": "k/b@gfx942"})
    assert asked == ["k/a@gfx942", "k/b@gfx942"]
    table = only(content, Table, "parts")
    assert table.title == "Predicted, not measured: k/b@gfx942"
    (row,) = table.rows
    assert (row["roofline"], row["by"], row["predicted"], row["memory"], row["measured"]) == (
        5.0,
        "memory",
        9.0,
        8.0,
        10.0,
    )
    assert [column.title_with_unit for column in table.columns if column.key == "memory"] == ["memory, µs"]
    assert only(content, Choice, "unit").value == "k/b@gfx942"


def ranking(shape: str, intensity: float | None, *tflops: float) -> PredictedRanking:
    """Predictions at a half of the roofline."""
    rows: Any = [
        SimpleNamespace(
            name=f"i{at}", place=at + 1, because="",
            prediction=SimpleNamespace(tflops=rate, time_us=10.0, roofline_us=5.0, roofline_by="memory", bound_us=6.0),
        )
        for at, rate in enumerate(tflops)
    ]  # fmt: skip
    return PredictedRanking(
        kernel="k", shape=shape, arch="gfx942", part="MI300X", cache="cold", rows=tuple(rows), measured_us={},
        intensity=intensity,
    )  # fmt: skip


def test_predictions_are_drawn_as_such() -> None:
    plot = predicted_plot([ranking("small", 10.0, 10.0, 8.0), ranking("large", 90.0, 40.0)])
    assert plot is not None
    found = series(plot)
    assert [point["value"] for point in found["predicted, not measured"]["data"]] == [
        [10.0, 10.0],
        [10.0, 8.0],
        [90.0, 40.0],
    ]
    assert "2 TB/s" in found
    assert plot.title == "Predicted, not measured: MI300X"
    assert plot.summary.startswith("Nothing was measured: 3 predictions for MI300X.")
    assert predicted_plot([]) is None
    assert predicted_plot([ranking("small", None, 10.0)]) is None


async def test_without_timings_there_are_predictions() -> None:
    analysis = SimpleNamespace(shapes=(SimpleNamespace(shape="small"), SimpleNamespace(shape="gone")))

    def predicted(kernel: str, shape: str, *, arch: str) -> PredictedRanking:
        assert (kernel, arch) == ("k", "gfx942")
        if shape == "gone":
            raise CkwatchError("there is no such shape")
        return ranking(shape, 10.0, 10.0)

    units = [unit_row("i0")]
    content = await show(feed_of(units, analysis=analysis, predicted=predicted), {})
    assert "not measured" in only(content, Note, "predicted").text
    assert "not measured" in only(content, Plot, "predicted").title
    (row,) = only(content, Table, "predictions").rows
    assert (row["instance"], row["_unit"], row["predicted"]) == ("i0", "k/i0@gfx942", 10.0)


def test_every_part_of_a_prediction_has_a_column() -> None:
    assert list(Bottleneck) == list(TERMS)


async def test_with_nothing_at_all_it_says_what_to_do() -> None:
    assert await show(feed_of([]), {}) is NO_UNITS
    content = await show(feed_of([unit_row("a", artifact="")]), {})
    assert "nothing can be predicted" in only(content, Note, "empty").text
