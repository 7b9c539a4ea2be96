"""The view *Compare*: two units, or a unit and what it was."""

from __future__ import annotations

from typing import Any

import pytest

from cases.web_rows import HOSTILE, feed_of, unit_row
from ckwatch import CkwatchError
from ckwatch.model.isa import IsaFold, IsaLine
from ckwatch.model.roofline import CacheState
from ckwatch.model.text import Position, Span
from ckwatch.model.timings import Comparison, Timing
from ckwatch.prediction.predict import Prediction
from ckwatch.wire.analysis import Analysis, Isa, ShapePrediction
from ckwatch.wire.benchmarks import Compared
from ckwatch.wire.messages import UnitDetail
from ckwatch.wire.state import Unit
from ckwatch_web.content import PLACE, UNIT, Content, csv_text
from ckwatch_web.places import TextPlace
from ckwatch_web.views import compare
from ckwatch_web.views.compare import (
    Side,
    figures,
    instructions,
    listing_table,
    parameters,
    ratio_plot,
    timings,
    verdict,
)
from helpers.kernel_reports import kernel, report

ONE, TWO = "k/one@gfx942", "k/two@gfx942"


def span(line: int, column: int = 0, path: str = "/w/k.kernel.toml") -> Span:
    return Span(path=path, start=Position(line=line, column=column), end=Position(line=line, column=column + 1))


def compared(shape: str = "small", ratio: float = 0.9, **fields: Any) -> Compared:
    values: dict[str, Any] = {
        "shape": shape, "cache": "cold", "ours": ONE, "theirs": TWO, "timing": timing(ONE), "other": timing(TWO),
        "comparison": Comparison(verdict="FAST", ratio=ratio, against="two", other_median_us=10.0),
    }  # fmt: skip
    return Compared(**(values | fields))


def timing(unit: str, **fields: Any) -> Timing:
    values: dict[str, Any] = {
        "id": 1, "unit": unit, "kernel": "k", "instance": "one", "arch": "gfx942", "shape": "small", "cache": "cold",
        "device": "hip:0", "device_description": "MI300X", "median_us": 9.0,
    }  # fmt: skip
    return Timing(**(values | fields))


def test_parameters_that_differ_come_first_and_are_marked() -> None:
    ours = Side(ONE, {"Tile": 64, "Lengths": [8, 32, 1], "Pad": True}, {"Pad": span(3, 6)}, None)
    theirs = Side(TWO, {"Tile": 64, "Lengths": (8, 32, 1), "Pad": False, HOSTILE: HOSTILE}, {"Tile": span(9)}, None)
    table = parameters(ours, theirs)
    assert table.title == "Parameters, 2 different"
    assert [(row["name"], row["ours"], row["theirs"], row["differs"]) for row in table.rows] == [
        ("Pad", "true", "false", True), (HOSTILE, "", HOSTILE, True), ("Tile", "64", "64", False),
        ("Lengths", "[8, 32, 1]", "[8, 32, 1]", False),
    ]  # fmt: skip
    assert (table.rows[0][PLACE], table.rows[0][UNIT]) == ("/w/k.kernel.toml:4:7", ONE)
    assert (table.rows[2][PLACE], table.rows[2][UNIT]) == ("/w/k.kernel.toml:10:1", TWO)
    assert all(not key.startswith(":") for row in table.rows for key in row), "keys that begin so are functions"


def test_of_what_is_not_known_nothing_differs() -> None:
    table = parameters(Side(ONE, {"Tile": 64}, {}, None), Side("previous", {}, {}, None))
    assert table.title == "Parameters, those of B are not known"
    assert not table.rows[0]["differs"]
    alone = figures(Side(ONE, {}, {}, report(kernel())), Side("previous", {}, {}, None))
    assert not any(row["differs"] for row in alone.rows)


def test_figures_stand_side_by_side() -> None:
    ours, theirs = Side(ONE, {}, {}, report(kernel(vgprs=201))), Side(TWO, {}, {}, report(kernel(vgprs=189)))
    rows = {row["name"]: row for row in figures(ours, theirs).rows}
    assert (rows["VGPR"]["ours"], rows["VGPR"]["theirs"], rows["VGPR"]["differs"]) == ("201", "189", True)
    assert rows["VGPR"]["worse"] == ""
    for answer, word in (("slower", "explains"), ("faster", "in spite of")):
        said = next(row for row in figures(ours, theirs, answer).rows if row["name"] == "VGPR")  # type: ignore[arg-type]
        assert said["worse"] == word
    assert not rows["LDS"]["differs"]
    assert any(str(name).startswith("loop: ") for name in rows)


def test_timings_have_the_daemons_verdict_or_why_there_is_none() -> None:
    table = timings([compared(), compared("large", comparison=None, other=None, why_not="two has no timing")])
    assert [(row["shape"], row["ours"], row["theirs"], row["verdict"]) for row in table.rows] == [
        ("small", 9.0, 10.0, "FAST"), ("large", 9.0, None, "two has no timing"),
    ]  # fmt: skip
    stale = timings([compared(timing=timing(ONE, standing="stale"))])
    assert stale.rows[0]["standing"] == "A is stale"


def test_the_answer_is_a_sentence_and_what_is_not_sure_is_hollow() -> None:
    unsure = Comparison(verdict="UNSURE", ratio=1.6, against="two", other_median_us=10.0)
    slow = Comparison(verdict="SLOW", ratio=1.25, against="two", other_median_us=10.0)
    rows = [
        compared(),
        compared("flat", comparison=unsure),
        compared("big", comparison=slow),
        compared("huge", comparison=None),
    ]
    of_both = "A is faster on 1 of 3: −10.0 % on small, cold; it is slower on 1 of 3: +25.0 % on big, cold"
    assert said(rows) == ("unsure", of_both)
    of_one = "A is faster on 1 of 2: −10.0 % on small, cold (1 of them not decided, or equal)"
    assert said(rows[:2]) == ("faster", of_one)
    not_decided = "not decided on 1 of 1: A takes +60.0 %, which the samples cannot tell from noise"
    assert said(rows[1:2]) == ("unsure", not_decided)
    plot = ratio_plot(rows)
    assert plot is not None
    (bars,) = plot.option["series"]
    hollow = [bar.get("itemStyle", {}).get("color") == "transparent" for bar in bars["data"]]
    assert hollow == [False, True, False]


def said(rows: list[Compared], *analyses: Analysis) -> tuple[str, str]:
    """The kind and the text of the verdict."""
    line = verdict(rows, *analyses)
    return line.kind, line.text


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((10.0, 9.0, 11.0), (20.0, 18.0, 22.0), ("faster", "is faster than B, and takes −50.0 % on small")),
        ((20.0, 18.0, 22.0), (10.0, 9.0, 11.0), ("slower", "is slower than B, and takes +100 % on small")),
        ((10.0, 5.0, 20.0), (20.0, 18.0, 22.0), ("unsure", "may be as fast as B, and takes −50.0 % on small")),
        ((10.0, None, None), (20.0, None, None), ("unsure", "may be as fast as B, and takes −50.0 % on small")),
    ],
)
def test_without_a_timing_predictions_answer_where_their_intervals_are_apart(
    ours: tuple[float, float | None, float | None],
    theirs: tuple[float, float | None, float | None],
    expected: tuple[str, str],
) -> None:
    analyses = [predicted(unit, *times) for unit, times in ((ONE, ours), (TWO, theirs))]
    assert said([], *analyses) == (expected[0], f"predicted, not measured: A {expected[1]}")
    assert said([])[1].startswith("neither measured nor predicted")


def predicted(unit: str, time_us: float, low_us: float | None, high_us: float | None) -> Analysis:
    """The analysis of a unit with a prediction on one shape."""
    found = Prediction(part="MI300X", cache=CacheState.COLD, roofline_us=1.0, time_us=time_us, low_us=low_us,
                       high_us=high_us)  # fmt: skip
    return Analysis(unit=unit, artifact_key="a", fresh=True, report=report(kernel()),
                    shapes=(ShapePrediction(shape="small", prediction=found),))  # fmt: skip


def test_the_picture_says_how_much_of_it_is_drawn() -> None:
    assert ratio_plot([]) is None
    assert ratio_plot([compared(comparison=None)]) is None
    plot = ratio_plot([compared(f"{HOSTILE}{at}", 0.5 + at) for at in range(60)])
    assert plot is not None
    assert "The first 40 of 60 shapes are drawn." in plot.summary
    assert len(plot.option["series"][0]["data"]) == 40
    assert (plot.option["yAxis"]["min"], plot.option["yAxis"]["max"]) == (0.5, 100.0)


LISTING = """; k: 4 instructions
; ▾ 1 instruction: 1 salu
  000100  s_mov_b32 s0, 0                                           ; scalar: D = A
; ▾ main loop L1, 2 instructions
    L1:
    000104  v_mfma_f32_32x32x8_f16 v[0:15], v[98:99], v[162:163], v[0:15]  ; matrix unit
    00010c  s_cbranch_scc1 L1
; ▾ 1 instruction: 1 other
  000110  s_endpgm
"""


def isa(unit: str = ONE, text: str = LISTING, **fields: Any) -> Isa:
    numbers = [at for at, line in enumerate(text.split("\n")) if line.strip()[:1].isdigit()]
    values: dict[str, Any] = {
        "unit": unit, "artifact_key": "ab", "fresh": True, "kernel": "k", "kernels": ("k",), "text": text,
        "lines": tuple(IsaLine(line=at, span=span(at, path="/w/k.hip.j2")) for at in numbers),
        "folds": (IsaFold(start=0, end=9, kind="function", label="k"),
                  IsaFold(start=3, end=6, kind="loop", label="main loop", main=True)),
    }  # fmt: skip
    return Isa(**(values | fields))


def test_the_main_loop_or_the_whole_kernel_is_shown() -> None:
    found = instructions(isa(), compare.MAIN_LOOP)
    assert found.addresses == ["000104", "00010c"]
    assert found.texts[1] == "s_cbranch_scc1 L1"
    assert found.places[0] == TextPlace("/w/k.hip.j2", 5)
    assert len(instructions(isa(), compare.WHOLE).texts) == 4
    assert len(instructions(isa(folds=()), compare.MAIN_LOOP).texts) == 4


def test_instructions_are_marked_where_more_than_registers_differs() -> None:
    other = LISTING.replace("v[98:99]", "v[100:101]").replace("s_endpgm", "s_nop 0\n  000114  s_endpgm")
    ours, theirs = instructions(isa(), compare.WHOLE), instructions(isa(TWO, other), compare.WHOLE)
    table = listing_table(ours, theirs, compare.WHOLE, (ONE, TWO))
    assert [(row["change"], row["differs"]) for row in table.rows] == [
        ("", False), ("", False), ("", False), ("+", True), ("", False),
    ]  # fmt: skip
    assert (table.rows[3]["ours"], table.rows[3]["theirs"], table.rows[3][UNIT]) == ("", "s_nop 0", TWO)
    assert table.rows[3][PLACE] == "/w/k.hip.j2:9:1"
    assert "v[98:99]" in csv_text(table)


class AnsweringClient:
    """Answers as the client; `failing` names what raises."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing

    def _raise(self, name: str) -> None:
        if name in self.failing:
            raise CkwatchError(f"{name} cannot be told", "build it first")

    async def baselines(self) -> list[Any]:
        return []

    async def unit(self, unit: str) -> UnitDetail:
        state = Unit(
            id=unit, kernel="k", instance=unit[2:5], arch="gfx942", place=span(4), phase="done", outcome="built",
            fresh=True, generation=1, errors=0, warnings=0,
        )  # fmt: skip
        return UnitDetail(
            unit=state, parameters={"Tile": 1 if unit == ONE else 2}, parameter_places={"Tile": span(5)}, template="k",
            reads={}, missed=(), headers=0, token_key=None, standing="", cause=(), diagnostics=(),
        )  # fmt: skip

    async def analysis(self, unit: str) -> Analysis:
        self._raise("analysis")
        return Analysis(
            unit=unit, artifact_key="ab", fresh=True, report=report(kernel()), previous=report(kernel(vgprs=7))
        )

    async def isa(self, unit: str, *, lines: bool) -> Isa:
        assert not lines, "lines take a compile"
        self._raise("isa")
        return isa(unit)

    async def compare(self, unit: str, against: str) -> list[Compared]:
        self._raise("compare")
        return [compared(ours=unit, theirs=against, other=timing(against, parameters={"Tile": 3}))]


async def shown(client: AnsweringClient, **query: str) -> Content:
    return await compare.show(feed_of(unit_row(ONE), unit_row(TWO), client=client), query)


async def test_two_units() -> None:
    content = await shown(AnsweringClient(), unit=ONE)
    assert content.title == f"{ONE} and {TWO}"
    assert [table.key for table in content.tables] == ["timings", "parameters", "figures", "isa"]


async def test_a_unit_is_not_compared_with_itself() -> None:
    assert (await shown(AnsweringClient(), unit=ONE, against=ONE)).title == f"{ONE} and {TWO}"


async def test_what_a_unit_was_before() -> None:
    content = await shown(AnsweringClient(), unit=ONE, against="previous")
    tables = {table.key: table for table in content.tables}
    assert [*tables] == ["timings", "parameters", "figures"]
    assert tables["parameters"].rows[0]["theirs"] == "3"
    assert next(row for row in tables["figures"].rows if row["name"] == "VGPR")["theirs"] == "7"
    assert any("not the instructions" in getattr(block, "text", "") for block in content.blocks)


async def test_what_cannot_be_told_is_said() -> None:
    content = await shown(AnsweringClient("analysis", "isa", "compare"), unit=ONE)
    assert [table.key for table in content.tables] == ["parameters"]
    assert any(getattr(block, "text", "") == "compare cannot be told: build it first" for block in content.blocks)


async def test_without_units_it_says_so() -> None:
    content = await compare.show(feed_of(), {})
    assert content.tables == []
    assert compare.depends(feed_of(), {}) == ((), None, None)


@pytest.mark.parametrize(("fields", "again"), [({"artifact": "cd"}, True), ({"phase": "compiling"}, False)])
def test_it_is_shown_again_when_something_of_it_changed(fields: dict[str, Any], again: bool) -> None:
    before, after = feed_of(unit_row(ONE), unit_row(TWO)), feed_of(unit_row(ONE), unit_row(TWO, **fields))
    query = {"unit": ONE, "against": TWO}
    assert (compare.depends(before, query) != compare.depends(after, query)) is again
