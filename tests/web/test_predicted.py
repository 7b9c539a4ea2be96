"""The view *Predicted*: predictions against what was measured, here and by others."""

from __future__ import annotations

from typing import Any

from cases.web_rows import HOSTILE, feed_of, unit_row
from ckwatch.model.roofline import CacheState
from ckwatch.prediction.predict import MeasuredPrediction, Prediction, calibrate
from ckwatch.prediction.ranking import RankedInstance
from ckwatch.wire.analysis import Calibrated, PredictedRanking
from ckwatch.wire.imported_timings import ImportedTiming
from ckwatch_web.content import PLACE, UNIT, Note, Plot
from ckwatch_web.views import predicted
from ckwatch_web.views.predicted import (
    DRAWN,
    MEASURED,
    calibration,
    parts_of,
    points_elsewhere,
    ranking_blocks,
    ranking_table,
    scatter,
)


def ranked(name: str, time_us: float | None = 10.0, place: int | None = 1) -> RankedInstance:
    prediction = Prediction(part="MI300X", cache=CacheState.COLD, time_us=time_us, bound_us=3.0)
    return RankedInstance(name=name, place=place, prediction=prediction, ratio=1.0, because="latency")


def ranking(*rows: RankedInstance, measured: dict[str, float] | None = None) -> PredictedRanking:
    return PredictedRanking(
        kernel="k", shape="small", arch="gfx942", part="MI300X", cache="cold",
        rows=rows or (ranked("one"), ranked("two", 20.0, 2)), measured_us=measured or {},
    )  # fmt: skip


def imported(time_us: float = 15.0, **fields: Any) -> ImportedTiming:
    values: dict[str, Any] = {
        "source": "AITER", "format": "aiter", "device": "MI300X", "arch": "gfx942", "time_us": time_us, "kernel": "a8w8",
        "instance": "a8w8_1", "shape": "small", "instances": ("one",), "file": "/w/a.csv", "imported_at": 1.0,
    }  # fmt: skip
    return ImportedTiming(**(values | fields))


def test_the_ranking_says_what_is_predicted_and_what_was_measured() -> None:
    rows = {"one": unit_row("k/one@gfx942")}
    table = ranking_table(ranking(ranked("one"), ranked(HOSTILE, None, None), measured={"one": 15.0}), rows)
    assert [(row["predicted"], row["measured"], row["ratio"]) for row in table.rows] == [
        (10.0, 15.0, 1.5), (None, None, None),
    ]  # fmt: skip
    assert (table.rows[0][UNIT], table.rows[0][PLACE]) == ("k/one@gfx942", "/w/k.kernel.toml:5:9")
    assert "Predicted for MI300X" in table.title


def test_points_of_others_are_a_series_of_their_own() -> None:
    times = {"one": 10.0}
    found = points_elsewhere(
        [imported(), imported(5.0, device="MI308X"), imported(runtime={"kBatch": 4}), imported(instances=())], times
    )
    assert found == {
        "AITER, MI300X: measured by others": [(10.0, 15.0, "one")],
        "AITER, MI308X: measured by others": [(10.0, 5.0, "one")],
    }
    plot = scatter({MEASURED: [(10.0, 30.0, HOSTILE)], **found}, "MI300X", "small")
    assert plot is not None
    assert plot.option["legend"]["data"] == [MEASURED, *found]
    assert plot.summary.startswith("3 points: 2 within a factor of 2")
    assert plot.option["series"][0]["data"][0]["text"].startswith(HOSTILE)
    assert all(0 < plot.option[axis]["min"] < 5 and plot.option[axis]["max"] >= 32 for axis in ("xAxis", "yAxis"))


def test_of_very_many_points_some_are_drawn() -> None:
    plot = scatter({MEASURED: [(float(at), float(at), "one") for at in range(1, 5001)]}, "MI300X", "small")
    assert plot is not None
    assert len(plot.option["series"][0]["data"]) == DRAWN
    assert "2000 points of 5,000, the fastest of each series" in plot.summary
    assert scatter({MEASURED: []}, "MI300X", "small") is None


def test_without_measurements_it_is_said_that_all_is_predicted() -> None:
    blocks = ranking_blocks(ranking(), [], {})
    assert [type(block) for block in blocks[:1]] == [Note]
    assert not any(isinstance(block, Plot) for block in blocks)
    several = ranking_blocks(ranking(measured={"one": 12.0}), [imported()], {})
    assert [block.key for block in several] == ["scatter", "ranking", "imported", "others"]


def test_the_calibration_in_words() -> None:
    assert calibration(Calibrated()) is None
    pair = MeasuredPrediction(unit="k", shape="s", device="d", predicted_us=10.0, measured_us=15.0, bound_us=16.0)
    facts = calibration(Calibrated(calibration=calibrate([pair]), timed=3))
    assert facts is not None
    values = dict(facts.facts)
    assert values["predictions with a fresh timing"] == "1 of 3 timings"
    assert values["measured over predicted, median"] == "1.50"
    assert any("below the bound" in name for name in values)


def test_parts_belong_to_an_arch() -> None:
    assert {"MI300X", "MI308X"} <= {*parts_of("gfx942:xnack-")}
    assert parts_of("host") == {}


class PredictingClient:
    """Answers as the client, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def imported_timings(self, *_query: str, arch: str) -> list[ImportedTiming]:
        return [imported(arch=arch)]

    async def predicted(self, kernel: str, shape: str, *, arch: str, part: str) -> PredictedRanking:
        self.asked.append((kernel, shape, arch, part))
        return ranking()

    async def calibration(self) -> Calibrated:
        return Calibrated()


async def test_a_kernel_on_a_shape_for_a_part() -> None:
    client = PredictingClient()
    feed = feed_of(unit_row("k/one@gfx942"), unit_row("k/one@host"), client=client)
    content = await predicted.show(feed, {"part": "MI308X"})
    assert content.title == "k on small"
    assert client.asked == [("k", "small", "gfx942", "MI308X")]
    content = await predicted.show(feed, {"arch": "host"})
    assert any("no prediction for host" in getattr(block, "text", "") for block in content.blocks)
    assert len(client.asked) == 1
    feed = feed_of(unit_row("a/one@gfx942"), unit_row("k/one@gfx90a"), unit_row("k/one@gfx942"), client=client)
    await predicted.show(feed, {"unit": "k/one@gfx942"})
    assert client.asked[-1][:3] == ("k", "small", "gfx942")
    assert (await predicted.show(feed_of(), {})).tables == []


def test_it_depends_on_the_kernels_own_units() -> None:
    one, two = unit_row("k/one@gfx942"), unit_row("other/one@gfx942")
    before = predicted.depends(feed_of(one, two), {"kernel": "k"})
    other = unit_row("other/one@gfx942", artifact="cd")
    assert predicted.depends(feed_of(one, other), {"kernel": "k"}) == before
    assert predicted.depends(feed_of(unit_row("k/one@gfx942", timed_at=5.0), two), {"kernel": "k"}) != before
