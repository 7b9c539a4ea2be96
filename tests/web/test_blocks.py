"""Data of a view: CSV, places, changes of a table, static HTML."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from ckwatch_web import static_html
from ckwatch_web.content import (
    PLACE,
    Action,
    Block,
    Choice,
    Column,
    Content,
    Facts,
    Function,
    Note,
    Plot,
    Row,
    Table,
    csv_text,
    spans,
    without_marks,
)
from ckwatch_web.export import pages
from ckwatch_web.grid import HEAT_STEPS, LINE_PX, MOST_WRAPPED, grid_options, height_px, transaction
from ckwatch_web.places import TextPlace, place_in
from ckwatch_web.plots import HEAT_COLOURS, base, log_axis, log_ticks, painted
from ckwatch_web.static_html import MOST_ROWS, csv_files, echarts_script, page, shown
from ckwatch_web.views.all import VIEWS

SCRIPT = "</script><script>alert(1)</script>"
HERE = TextPlace("/w/a b.j2", 4, 2)


def table(*rows: Row, columns: tuple[Column, ...] = (Column(key="a", title="a"),)) -> Table:
    return Table(key="t", title="T", columns=columns, rows=rows)


def written(*blocks: Block, csv_of: dict[str, str] | None = None) -> str:
    content = Content(title=SCRIPT, blocks=blocks)
    return page(content, "PageView", menu=[("Now", "index.html")], others=[], csv_of=csv_of or {})


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_spreadsheet_computes_nothing(text: str) -> None:
    assert csv_text(table({"id": "1", "a": text})).splitlines()[1].strip('"') == f"'{text}"


def test_a_csv_has_places_and_verdicts_where_there_are_any() -> None:
    columns = (Column(key="a", title="shape a", kind="heat"), Column(key="b", title="b", kind="number"))
    rows: tuple[Row, ...] = (
        {"id": "1", "a": 1.5, "a_verdict": "SLOW", "b": -2, PLACE: HERE.text},
        {"id": "2", "a": None},
    )
    assert csv_text(table(*rows, columns=columns)).splitlines() == [
        "shape a,b,shape a verdict,place",
        "1.5,-2,SLOW,/w/a b.j2:5:3",
        ",,,",
    ]
    assert csv_text(table({"id": "1", "a": "x"})) == "a\nx\n"


@pytest.mark.parametrize("text", [HERE.text, "/w/a:b.j2:1:1"])
def test_a_place_is_read_as_it_is_written(text: str) -> None:
    found = place_in(text)
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize("text", ["", "/w/a", "/w/a:1", "/w/a:0:1", "/w/a:x:1", ":1:1", None, 3])
def test_what_is_no_place(text: object) -> None:
    assert place_in(text) is None


def test_a_place_opens_in_vs_code() -> None:
    assert HERE.vscode_url == "vscode://file/w/a%20b.j2:5:3"


ROWS: list[Row] = [{"id": name, "a": 1} for name in "abc"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (ROWS, {"add": [], "remove": [], "update": []}),
        ([*ROWS, {"id": "d"}], {"add": [{"id": "d"}], "remove": [], "update": []}),
        (ROWS[1:], {"add": [], "remove": [{"id": "a"}], "update": []}),
        ([ROWS[0], {"id": "b", "a": 2}, ROWS[2]], {"add": [], "remove": [], "update": [{"id": "b", "a": 2}]}),
        (ROWS[::-1], None),
        ([{"id": "d"}, *ROWS], None),
        ([{"id": str(number)} for number in range(100)], None),
    ],
)
def test_a_table_changes_by_what_has_changed(after: list[Row], expected: object) -> None:
    assert transaction(ROWS, after) == expected


def test_no_column_is_pinned_on_a_phone() -> None:
    shown_table = table(columns=(Column(key="a", title="a", pinned=True, width=400),))
    assert grid_options(shown_table, narrow=False)["columnDefs"][0]["pinned"] == "left"
    narrow = grid_options(shown_table, narrow=True)["columnDefs"][0]
    assert "pinned" not in narrow
    assert narrow["width"] < 390


def test_long_text_has_several_lines_and_names_keep_their_backticks() -> None:
    columns = (Column(key="unit", title="unit", pinned=True), Column(key="said", title="said", width=160))
    short, long = ({"id": "1", "unit": "`k`", "said": text} for text in ("a", "a" * 60))
    of_short, of_long = (Table(key="t", title="T", columns=columns, rows=(row,)) for row in (short, long))
    name, said = grid_options(of_long, narrow=False)["columnDefs"]
    assert said["wrapText"]
    assert ":valueFormatter" in said
    assert ":valueFormatter" not in name
    assert height_px(of_long) > height_px(of_short)
    words, whole = (Table(key="t", title="T", columns=columns, rows=({**long, "said": text},)) for text in
                    ("a " * 20, "a " * 9 + "a" * 19 + " b"))  # fmt: skip
    assert height_px(whole) - height_px(words) == LINE_PX  # a word that does not fit leaves the rest of its line empty
    many = Table(key="t", title="T", columns=columns, rows=(long,) * (MOST_WRAPPED + 1))
    assert not grid_options(many, narrow=False)["columnDefs"][1]["wrapText"]


def test_functions_of_a_table_hold_nothing_of_a_workspace() -> None:
    options = grid_options(table(columns=(Column(key=SCRIPT, title=SCRIPT, note=SCRIPT, kind="heat"),)), narrow=False)
    functions = [value for key, value in options["columnDefs"][0].items() if key.startswith(":")]
    assert functions
    assert not any("alert" in one for one in functions)


@pytest.mark.parametrize(
    "option", [{":x": "alert(1)"}, {"a": [{"b": {":c": "alert(1)"}}]}, {"a": [[{":c": "alert(1)"}]]}]
)
def test_no_text_of_a_workspace_becomes_a_function(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="would be evaluated"):
        painted(option, dark=False)
    with pytest.raises(ValueError, match="begins with a colon"):
        table({"id": "1"}, {"id": "2", ":a": "alert(1)"})


def test_text_is_escaped_in_every_block() -> None:
    option = base(title={"text": SCRIPT}, series=[{"type": "bar", ":label": Function("x => x"), "data": [SCRIPT]}])
    text = written(
        Note(key="n", text=SCRIPT, place=HERE),
        Facts(key="f", title=SCRIPT, facts=((SCRIPT, SCRIPT),)),
        Choice(key="c", label=SCRIPT, options={"v": SCRIPT}, value="v"),
        Action(key="a", label=SCRIPT),
        Plot(key="p", title=SCRIPT, option=option, summary=SCRIPT),
        Table(key="t", title=SCRIPT, columns=(Column(key="a", title=SCRIPT),), rows=({"id": "1", "a": SCRIPT},)),
    )
    assert "<script>alert" not in text
    assert text.count("<script") == 3  # the plot's data, ECharts, and what draws
    data = re.search(r'<script type="application/json" id="plot-0">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    drawn = json.loads(data[1])
    assert drawn["option"]["series"][0] == {"type": "bar", "label": {"$function": 0}, "data": [SCRIPT]}
    assert "backgroundColor" in drawn["option"]
    assert "textStyle" in drawn["dark"]
    assert "series" not in drawn["dark"]


def test_a_long_table_says_where_the_rest_is() -> None:
    rows = tuple({"id": str(number), "a": f"row {number}"} for number in range(MOST_ROWS + 5))
    text = written(table(*rows), csv_of={"t": "t.csv"})
    assert text.count("<tr>") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS:,} of {MOST_ROWS + 5:,} rows" in text
    assert 'href="t.csv"' in text
    ((name, csv),) = csv_files("stem", [table(*rows)]).values()
    assert name == "stem-t.csv"
    assert len(csv.splitlines()) == MOST_ROWS + 6


def test_an_empty_table_says_so() -> None:
    assert "<p>nothing yet</p>" in written(table())
    assert csv_files("stem", [table()]) == {}


@pytest.mark.parametrize(
    ("cell", "expected"), [(None, ""), (1.23456, "1.235"), (12345, "12345"), ("x", "x"), (12345.6, "12345.6")]
)
def test_cells_are_shown_as_the_grid_shows_them(cell: str | float | None, expected: str) -> None:
    assert shown(cell) == expected


def test_times_and_rates_are_shown_as_people_read_them() -> None:
    columns = (Column(key="a", title="median", kind="time"), Column(key="b", title="rate", kind="rate"))
    rows: tuple[Row, ...] = ({"id": "1", "a": 132_600.0, "b": 0.0221}, {"id": "2", "a": 9.5, "b": 413.0})
    text = written(table(*rows, columns=columns))
    for cell in ("132.6 ms", "22.10 GFLOP/s", "9.500 µs", "413.0 TFLOP/s"):
        assert f'<td class="number">{cell}</td>' in text
    assert csv_text(table(*rows, columns=columns)).splitlines()[:2] == [
        '"median, µs","rate, TFLOP/s"',
        "132600.0,0.0221",
    ]


def test_a_difference_that_is_not_sure_is_hollow() -> None:
    column = Column(key="a", title="a", kind="heat")
    rows: tuple[Row, ...] = ({"id": "1", "a": 1.6, "a_verdict": "UNSURE"}, {"id": "2", "a": 9.0, "a_verdict": "SLOW"})
    text = written(table(*rows, columns=(column,)))
    assert '<td class="number heat-5 unsure">1.600 ?</td>' in text
    assert '<td class="number heat-7">9.000 ▼</td>' in text


def test_every_step_of_the_scale_is_darker() -> None:
    def luminance(colour: str) -> float:
        return math.fsum(
            weight * (int(colour[at : at + 2], 16) / 255) ** 2.2
            for weight, at in ((0.2126, 1), (0.7152, 3), (0.0722, 5))
        )

    steps = [luminance(colour) for colour in HEAT_COLOURS]
    assert steps == sorted(steps, reverse=True)
    assert len(HEAT_COLOURS) == len(HEAT_STEPS) + 1
    style = (Path(static_html.__file__).parent / "assets/style.css").read_text()
    assert re.findall(r"\.heat-\d { --heat: (#\w+)", style) == list(HEAT_COLOURS)


def test_code_in_a_sentence_is_marked_and_its_backticks_are_gone() -> None:
    text = written(Note(key="n", text="`ckwatch tune <k>` looks, it's so"), table())
    assert "<code>ckwatch tune &lt;k&gt;</code> looks, it&#x27;s so" in text
    assert spans("a lone ` stays") == [("a lone ` stays", False)]
    assert without_marks("none; `ckwatch bench` takes some") == "none; ckwatch bench takes some"


def test_what_is_of_the_last_minutes_is_not_in_a_file() -> None:
    assert "queues now" not in written(Plot(key="q", title="queues now", option={}, summary="", live=True))


def test_a_file_can_hold_the_library_of_its_plots() -> None:
    plot = Content(title="", blocks=(Plot(key="p", title="P", option={}, summary=""),))
    beside, within = (page(plot, "V", menu=[], library=library) for library in ("", "const ECHARTS = 1;"))
    assert re.findall(r'(?:src|href)="([^"]+)"', beside) == ["echarts.js"]
    assert re.findall(r'(?:src|href)="([^"]+)"', within) == []
    allowed = set(re.findall(r"'sha256-([^']+)'", within))
    scripts = re.findall(r"<script>(.*?)</script>", within, re.DOTALL)
    assert {b64encode(sha256(one.encode()).digest()).decode() for one in scripts} == allowed
    assert len(scripts) == 2


def test_echarts_comes_from_the_wheel() -> None:
    spec = find_spec("nicegui")
    assert spec is not None
    assert spec.origin is not None
    text = echarts_script(Path(spec.origin).parent / "elements/echart/dist")
    assert text.startswith("const ECHARTS_NAME = ")
    assert len(text) > 500_000
    assert "<" not in text


def test_a_packing_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.js").write_text("export {}")
    with pytest.raises(ValueError, match="packed differently"):
        echarts_script(tmp_path)


def test_paint_is_of_text_and_lines_alone() -> None:
    option = base(xAxis={"type": "value"}, yAxis=[{"type": "log"}], series=[{"data": [1]}], legend={"data": ["a"]})
    light, dark = painted(option, dark=False), painted(option, dark=True)
    assert light != dark
    assert {key for key in light if light[key] != dark[key]} == {"textStyle", "xAxis", "yAxis", "legend", "tooltip"}
    assert option == base(
        xAxis={"type": "value"}, yAxis=[{"type": "log"}], series=[{"data": [1]}], legend={"data": ["a"]}
    )


def test_every_page_of_an_export_has_a_file_of_its_own() -> None:
    names = ["a", "A", "a b", "a-b", "<img>", "../../etc"]
    found = [one.stem for one in pages(names, [f"k/{name}@x" for name in names])]
    assert len(set(found)) == len(found) > len(VIEWS)
    assert "index" in found
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", stem) for stem in found)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (5500.0, 8100.0, [5500, 6000, 6500, 7000, 7500, 8000]),
        (3.0, 40.0, [5, 10, 20]),
        (0.5, 9000.0, [1, 10, 100, 1000]),
        (1.0, 1.004, [1.0, 1.001, 1.002, 1.003, 1.004]),
    ],
)
def test_a_logarithmic_axis_has_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [1e-3, 1e6]])
def test_a_logarithmic_axis_has_room_for_its_values(values: list[float]) -> None:
    option = log_axis("µs", values)
    assert option["min"] < min(values) <= max(values) < option["max"]
    assert all(option["min"] <= tick <= option["max"] for tick in option["axisTick"]["customValues"])
    assert option["axisTick"]["customValues"]


def test_what_only_actions_need_is_not_in_a_file() -> None:
    options = {"1": "one"}
    asked = Choice(key="a", label="Kernel", options=options, value="1")
    for_actions = Choice(key="b", label="Budget", options=options, value="1", changes=True)
    text = written(asked, for_actions)
    assert "Kernel" in text
    assert "Budget" not in text
