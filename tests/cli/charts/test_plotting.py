"""Files by the real matplotlib: what is in them, and what stands in the way."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benches.timing_records import failed, measured, record, report, samples
from ckwatch.cli.charts.plot_file import check_target, draw, save
from ckwatch.cli.charts.plotting import points_of
from ckwatch.engine.queries.ranking import rank_units
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model.errors import CkwatchError
from ckwatch.model.roofline import CacheState
from ckwatch.model.roofline_points import RooflinePoint
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import RankedTiming

pytest.importorskip("matplotlib")
plotting: Any = import_module("ckwatch.cli.charts.plotting")

UNIT = "gemm $x_1$/m128 ü@gfx942"
DEVICE = "hip:7, test device, gfx942, 900 MHz"


def timings(*taken: tuple[str, float, str]) -> list[Timing]:
    """Cold and hot timings of shape, time and artifact."""
    found = []
    for at, (shape, time_us, artifact) in enumerate(taken):
        both = report(
            measured(UNIT, samples(CacheState.COLD, time_us, time_us * 1.1), samples(CacheState.HOT, time_us / 2))
        )
        found += record_to_wire(
            record(UNIT, shape=shape, artifact_key=artifact, taken_at=1e9 + 3600.0 * at, report=both), "a1"
        )
    return found


def ranks() -> list[RankedTiming]:
    present: dict[str, str | None] = {f"gemm/{name}@gfx942": "a1" for name in ("a", "b_$c$", "ü")}
    records = [
        record(unit, [100.0 + 10 * at] * 20, shape=shape, id=10 * at + place)
        for at, unit in enumerate(present)
        for place, shape in enumerate(("small", "large $"))
    ]
    records.append(replace(failed("gemm/ü@gfx942"), id=99))
    return rank_units(records, present, {})


FIGURES: dict[str, tuple[str, list[Any]]] = {
    "history_figure": (UNIT, timings(("small", 100.0, "a0"), ("large", 900.0, "a1"), ("small", 90.0, "a1"))),
    "heat_map": ("gemm $k$", ranks()),
    "roofline": ("gemm", timings(("small", 100.0, "a0"), ("large", 900.0, "a1"))),
}
EMPTY: dict[str, tuple[str, list[Any]]] = {
    "history_figure": (UNIT, []),
    "heat_map": ("gemm", []),
    "roofline": ("gemm", []),
}


@pytest.mark.parametrize("name", FIGURES)
def test_files_are_what_they_are_called(tmp_path: Path, name: str) -> None:
    for kind, magic in (("svg", b"<?xml"), ("PNG", b"\x89PNG")):
        path = tmp_path / f"größe 1.{kind}"
        draw(path, name, *FIGURES[name])
        assert path.read_bytes().startswith(magic)
    assert ET.parse(tmp_path / "größe 1.svg").getroot().tag.endswith("svg")  # noqa: S314  # our own file
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_draw(tmp_path: Path, name: str) -> None:
    draw(tmp_path / "empty.svg", name, *EMPTY[name])
    assert (tmp_path / "empty.svg").stat().st_size > 0


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw(tmp_path / name, "history_figure", *FIGURES["history_figure"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_history_has_a_panel_for_each_shape_and_the_medians_in_them() -> None:
    figure = plotting.history_figure(*FIGURES["history_figure"])
    panels = figure.get_axes()
    assert [panel.get_title() for panel in panels] == ["small", "large"]
    cold, hot = (container.lines[0] for container in panels[0].containers)
    assert list(cold.get_ydata()) == pytest.approx([105.0, 94.5])
    assert list(hot.get_ydata()) == [50.0, 45.0]
    assert cold.get_xdata()[1] - cold.get_xdata()[0] == pytest.approx(2 / 24)
    # a0 became a1 on the small shape
    assert sum(line.get_linestyle() == ":" for line in panels[0].lines) == 1
    assert sum(line.get_linestyle() == ":" for line in panels[1].lines) == 0
    assert UNIT in texts(figure)


def test_devices_have_panels_of_their_own() -> None:
    mine = FIGURES["history_figure"][1]
    elsewhere = [replace(one, device_description="another device") for one in mine]
    titles = [panel.get_title() for panel in plotting.history_figure(UNIT, [*mine, *elsewhere]).get_axes()]
    devices = [f"hip:7, {what} device, gfx942, 900 MHz" for what in ("test", "another")]
    assert titles == [f"{shape}, {device}" for device in devices for shape in ("small", "large")]
    figure = plotting.roofline("gemm", [*mine, *elsewhere])
    assert [panel.get_title() for panel in figure.get_axes()] == devices


def test_heat_map_has_ratios_and_crosses() -> None:
    figure = plotting.heat_map(*FIGURES["heat_map"])
    panel = figure.get_axes()[0]
    rows = panel.images[0].get_array().filled(0).tolist()
    labels = [label.get_text() for label in panel.get_yticklabels()]
    columns = [label.get_text() for label in panel.get_xticklabels()]
    assert columns == ["large $\n100.0 µs", "small\n100.0 µs"] or columns == ["small\n100.0 µs", "large $\n100.0 µs"]
    shapes = [column.partition("\n")[0] for column in columns]
    found = {(unit, shape): rows[y][x] for y, unit in enumerate(labels) for x, shape in enumerate(shapes)}
    assert found == {
        ("a@gfx942", "small"): 1.0,
        ("a@gfx942", "large $"): 1.0,
        ("b_$c$@gfx942", "small"): 1.1,
        ("b_$c$@gfx942", "large $"): 1.1,
        ("ü@gfx942", "small"): 0,
        ("ü@gfx942", "large $"): 1.2,
    }
    assert sum(line.get_marker() == "x" for line in panel.lines) == 1
    assert {"1.10", "1.20", DEVICE} <= set(texts(figure))


def test_roofline_draws_the_roof_that_bounds_show() -> None:
    shown = [
        replace(one, bound_us=bound, gbps=gbps)
        for one, bound, gbps in zip(FIGURES["roofline"][1][::2], (50.0, 20.0), (0.5, 0.001), strict=True)
    ]
    figure = plotting.roofline("gemm", shown)
    labels = [text for text in texts(figure) if re.match(r"\d.* ([TG]B|[TG]FLOP)/s$", text)]
    assert len(labels) == 2
    assert {"small", "large"} <= set(texts(figure))


def ranked(units: int, shapes: int, time_us: Callable[[int], float] = lambda unit: 10.0 + unit) -> list[RankedTiming]:
    timing = timings(("s", 10.0, "a1"))[0]
    return [
        RankedTiming(
            unit=f"k/{unit}@gfx942",
            instance=str(unit),
            shape=f"s{shape}",
            rank=unit + 1,
            timing=replace(timing, median_us=time_us(unit)),
        )
        for unit in range(units)
        for shape in range(shapes)
    ]


def test_a_large_heat_map_has_no_numbers() -> None:
    assert len(plotting.heat_map("k", ranked(41, 10)).get_axes()[0].texts) == 0
    assert len(plotting.heat_map("k", ranked(40, 10)).get_axes()[0].texts) == 400


def test_of_too_many_units_and_shapes_the_best_and_the_first_are_shown() -> None:
    figure = plotting.heat_map("k", ranked(150, 50, lambda unit: 1000.0 - unit))
    panel = figure.get_axes()[0]
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert (len(labels), labels[0], labels[-1]) == (100, "149@gfx942", "50@gfx942")
    assert len(panel.get_xticklabels()) == 40
    assert f"{DEVICE}; the best 100 of 150 units; the first 40 of 50 shapes" in texts(figure)


@pytest.mark.parametrize(
    ("time_us", "limit", "ticks"),
    [
        (lambda _unit: 10.0, 1.1, None),
        (lambda unit: 10.0 + unit, 1.3, None),
        (lambda unit: 10.0 * 1e4**unit if unit < 2 else 10.0, 1e4, ["1", "10", "100", "1000", "10000"]),
    ],
)
def test_the_colours_reach_as_far_as_the_values(
    time_us: Callable[[int], float], limit: float, ticks: list[str] | None
) -> None:
    figure = plotting.heat_map("k", ranked(4, 1, time_us))
    panel, bar = figure.get_axes()
    assert panel.images[0].get_clim() == pytest.approx((1.0, limit))
    figure.draw_without_rendering()
    if ticks is not None:
        assert [label.get_text() for label in bar.get_yticklabels()] == ticks


HOUR, DAY, YEAR = 3600.0, 86400.0, 365 * 86400.0


def medians(*taken: tuple[float, float]) -> list[Timing]:
    """Cold timings of one shape: when, and the median."""
    (one,) = (timing for timing in timings(("small", 100.0, "a1")) if timing.cache == "cold")
    return [
        replace(
            one, taken_at=at, median_us=time_us, minimum_us=time_us, q3_us=time_us, artifact_key=str(key),
            commit=f"c{key}" * 5, tflops=1 / time_us, gbps=1e3 / time_us,
        )
        for key, (at, time_us) in enumerate(taken)
    ]  # fmt: skip


NOW = 1.79e9

AXES = [
    # what a person could not read from the axis: equal values, one huge one, tiny and huge times
    ("one", [(NOW, 120.0)], "median, µs", (118.8, 121.2), HOUR / DAY),
    ("equal", [(NOW + HOUR * at, 120.0) for at in range(5)], "median, µs", (118.8, 121.2), 4.4 * HOUR / DAY),
    ("at one time", [(NOW, 120.0), (NOW, 240.0)], "median, µs", (96.0, 264.0), HOUR / DAY),
    (
        "outlier",
        [(NOW + HOUR * at, 480_000.0 if at == 3 else 120.0) for at in range(6)],
        "median, µs",
        (100.0, 1e6),
        None,
    ),
    ("years", [(NOW - YEAR * at, 2e6) for at in range(12)], "median, s", (1.98, 2.02), 12.1 * 365),
    ("milliseconds", [(NOW, 1500.0), (NOW + HOUR, 1600.0)], "median, ms", (1.48, 1.62), None),
    ("twice", [(NOW, 100.0), (NOW + HOUR, 200.0)], "median, µs", (80.0, 220.0), None),
]


@pytest.mark.parametrize(("taken", "label", "limits", "days"), [row[1:] for row in AXES], ids=[row[0] for row in AXES])
def test_axes_fit_the_values(
    taken: list[tuple[float, float]], label: str, limits: tuple[float, float], days: float | None
) -> None:
    figure = plotting.history_figure(UNIT, medians(*taken))
    (panel,) = figure.get_axes()
    assert panel.get_ylabel() == label
    assert panel.get_ylim() == pytest.approx(limits, rel=1e-6)
    begin, end = panel.get_xlim()
    assert days is None or end - begin == pytest.approx(days)
    figure.draw_without_rendering()
    written = [text.get_text() for text in panel.get_yticklabels()]
    assert len([text for text in written if text]) >= 2
    assert panel.yaxis.get_offset_text().get_text() == ""


def test_points_are_labelled_the_best_first_and_none_on_another() -> None:
    figure = plotting.history_figure(UNIT, medians(*((NOW + HOUR * at, 120.0 + at) for at in range(4))))
    (panel,) = figure.get_axes()
    words = [text.get_text() for text in panel.texts]
    assert words[0] == "120.0 µs, c0c0c0c0c0"
    assert set(words) <= {f"{120 + at}.0 µs, " + f"c{at}" * 5 for at in range(4)}
    crowd = plotting.history_figure(UNIT, medians(*((NOW + at, 120.0 + at % 7 / 10) for at in range(300))))
    assert crowd.get_axes()[0].texts[0].get_text().startswith("120.0 µs, ")
    for one in (figure, crowd):
        (panel,) = one.get_axes()
        renderer = one.canvas.get_renderer()
        room = panel.get_window_extent(renderer)
        boxes = [text.get_window_extent(renderer) for text in panel.texts]
        assert len(boxes) <= plotting.MOST_LABELS
        assert all(room.x0 <= box.x0 and box.x1 <= room.x1 for box in boxes)
        assert not any(box.overlaps(other) for at, box in enumerate(boxes) for other in boxes[:at])


def test_a_point_without_a_commit_has_its_time() -> None:
    (one,) = medians((NOW, 120.0))
    figure = plotting.history_figure(UNIT, [replace(one, commit=None)])
    (label,) = figure.get_axes()[0].texts
    assert re.fullmatch(r"120\.0 µs, \d{4}-\d\d-\d\d \d\d:\d\d", label.get_text())


@pytest.mark.parametrize(("time_us", "unit"), [(0.5, "TFLOP/s"), (20.0, "GFLOP/s"), (20_000.0, "MFLOP/s")])  # 1 MFLOP
def test_a_roofline_has_units_that_fit_and_two_ticks_at_least(time_us: float, unit: str) -> None:
    figure = plotting.roofline("gemm", medians((NOW, time_us)))
    (panel,) = figure.get_axes()
    assert panel.get_ylabel() == unit
    for low, high in (panel.get_xlim(), panel.get_ylim()):
        assert 10 <= high / low <= 100
    figure.draw_without_rendering()
    for labels in (panel.get_xticklabels(), panel.get_yticklabels()):
        assert len(labels) >= 3
        assert all(float(label.get_text()) > 0 for label in labels)


def test_a_rooflines_points_have_the_names_in_which_they_differ() -> None:
    one, two = medians((NOW, 1.0), (NOW, 2.0))
    by_instance = [one, replace(two, instance="other", gbps=100.0)]
    labels = [text.get_text() for text in plotting.roofline("g", by_instance).get_axes()[0].texts]
    assert set(labels) == {"m128 ü", "other"}
    by_both = [one, replace(two, instance="other", shape="large", gbps=100.0)]
    labels = [text.get_text() for text in plotting.roofline("g", by_both).get_axes()[0].texts]
    assert set(labels) == {"m128 ü, small", "other, large"}


@pytest.mark.parametrize("name", FIGURES)
def test_the_device_is_named(name: str) -> None:
    assert DEVICE in texts(getattr(plotting, name)(*FIGURES[name]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.pdf", "must end in .svg or .png"),
        ("x", "must end in .svg or .png"),
        ("gone/x.svg", "there is no folder"),
        ("folder.svg", "it is a folder"),
    ],
)
def test_targets_that_cannot_be(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(CkwatchError, match=message):
        check_target(tmp_path / name)


def test_a_target_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_target(Path("x.SVG")) == tmp_path / "x.SVG"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("matplotlib", "which is not installed"),
        ("matplotlib.font_manager", "not installed"),
        ("numpy", "cannot be loaded"),
    ],
)
def test_without_matplotlib(tmp_path: Path, name: str, message: str) -> None:
    def missing(_module: str) -> object:
        raise ImportError(f"No module named '{name}'", name=name)

    with pytest.raises(CkwatchError, match=message) as caught:
        check_target(tmp_path / "x.svg", missing)
    assert "matplotlib>=3.9" in str(caught.value.hint)


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    path.write_text("before")
    figure = plotting.history_figure(UNIT, [])

    class Full:
        """A figure for which there is no space."""

        def savefig(self, file: Any, **_more: Any) -> None:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(CkwatchError, match="No space left on device"):
        save(Full(), path)  # type: ignore[arg-type]
    assert [one.name for one in tmp_path.iterdir()] == ["x.svg"]
    assert path.read_text() == "before"
    save(figure, path)
    assert path.read_text().startswith("<?xml")


def test_only_a_plot_loads_matplotlib() -> None:
    program = (
        "import sys, ckwatch.cli.history, ckwatch.cli.best, ckwatch.cli.bench, ckwatch.cli.charts.plot_file\n"
        "assert not {'matplotlib', 'numpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def timing(**changes: Any) -> Timing:
    fields: dict[str, Any] = {
        "id": 1, "unit": "k/a@gfx942", "kernel": "k", "instance": "a", "arch": "gfx942", "shape": "s", "cache": "cold",
        "device": "hip:0", "device_description": "test device", "median_us": 100.0, "tflops": 40.0, "gbps": 1000.0,
        "bound_us": 50.0,
    }  # fmt: skip
    return Timing(**(fields | changes))


def test_points() -> None:
    # 40 TFLOP/s at 1 TB/s are 40 operations for each byte
    assert points_of([timing()]) == [
        RooflinePoint(shape="s", instance="a", cache="cold", intensity=40.0, tflops=40.0, bound_tflops=80.0)
    ]
    assert [one.bound_tflops for one in points_of([timing(bound_us=None)])] == [None]
    left_out = [timing(failure="wrong result"), timing(tflops=None), timing(gbps=None), timing(tflops=0.0)]
    assert points_of(left_out) == []
