"""clang's time trace as a flame graph."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases.web_rows import HOSTILE
from ckwatch_web.views.compile_time import MOST_FRAMES, Flame, flame_plot, flames


def event(name: str, begin: int, duration: int, detail: str = "", process: int = 1) -> str:
    return json.dumps(
        {"pid": process, "tid": 1, "ph": "X", "ts": begin, "dur": duration, "name": name, "args": {"detail": detail}}
    )


def trace(*events: str, name: str = "device pass (gfx942)") -> list[str]:
    """As the daemon writes it: an event a line."""
    first = json.dumps({"ph": "M", "pid": 1, "tid": 1, "ts": 0, "name": "process_name", "args": {"name": name}})
    return ['{"displayTimeUnit": "ms", "traceEvents": [\n', *(f"{one},\n" for one in (first, *events)), "]}\n"]


def nested(flame: Flame) -> list[tuple[str, int, int, int]]:
    return [(one.detail or one.name, one.depth, one.duration_us, one.own_us) for one in flame.frames]


def test_events_are_nested_and_what_is_within_is_no_own_time() -> None:
    inner = event("InstantiateClass", 1300, 200, "ck::Tuple<int>")
    (flame,) = flames(
        trace(inner, event("InstantiateFunction", 1200, 500, "f<int>"), event("Frontend", 1100, 800),
              event("Backend", 1900, 100), event("ExecuteCompiler", 1000, 1000))
    )  # fmt: skip
    assert (flame.name, flame.total_us, flame.left_out) == ("device pass (gfx942)", 1000, 0)
    assert nested(flame) == [
        ("ExecuteCompiler", 0, 1000, 100), ("Frontend", 1, 800, 300), ("f<int>", 2, 500, 300),
        ("ck::Tuple<int>", 3, 200, 200), ("Backend", 1, 100, 100),
    ]  # fmt: skip
    assert [one.begin_us for one in flame.frames] == [0, 100, 200, 300, 900]


def test_of_two_with_one_extent_the_later_one_is_around_the_other() -> None:
    (flame,) = flames(trace(event("Source", 0, 100, "inner.h"), event("Frontend", 0, 100)))
    assert nested(flame) == [("Frontend", 0, 100, 0), ("inner.h", 1, 100, 100)]


def test_short_pieces_are_left_out_and_none_without_what_is_around_it() -> None:
    many = [event("InstantiateClass", at, 3, f"T<{at}>") for at in range(0, 9000, 4)]
    (flame,) = flames(trace(*many, event("Frontend", 0, 9000)))
    assert (nested(flame), flame.left_out) == ([("Frontend", 0, 9000, 2250)], len(many))
    alike = [event("InstantiateClass", at * 100, 100, f"T<{at}>") for _ in range(5) for at in range(400)]
    (flame,) = flames(trace(*alike, event("Frontend", 0, 40_000)))
    assert (len(flame.frames), flame.left_out) == (MOST_FRAMES, len(alike) + 1 - MOST_FRAMES)
    there = {(one.begin_us, one.depth) for one in flame.frames}
    assert all((one.begin_us, one.depth - 1) in there for one in flame.frames if one.depth > 1)


def test_passes_are_apart() -> None:
    found = flames(trace(event("Frontend", 5, 10), event("Frontend", 0, 20, process=2)))
    assert [(one.name, one.total_us) for one in found] == [("device pass (gfx942)", 10), ("pass 2", 20)]
    assert flames([]) == ()


@pytest.mark.parametrize("line", ['{"pid": 1}', '{"ph": "X", "pid": 1, "name": "Frontend"}', "{]}"])
def test_what_is_no_trace_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of json too
        flames([line])


def test_names_are_data_and_functions_are_the_packages() -> None:
    (flame,) = flames(trace(event("InstantiateClass", 0, 1000, HOSTILE), event("Frontend", 0, 2000)))
    plot = flame_plot(flame, "flame")
    (series,) = plot.option["series"]
    assert HOSTILE in series["data"][1]["text"]
    functions = [value for key, value in walked(plot.option) if key.startswith(":")]
    assert functions
    assert not any("img" in one for one in functions)
    assert "2 pieces are drawn" in plot.summary
    assert "InstantiateClass: template instantiation" in series["data"][1]["text"]


def walked(option: Any) -> list[tuple[str, Any]]:
    if isinstance(option, dict):
        return [pair for key, value in option.items() for pair in ((key, value), *walked(value))]
    if isinstance(option, list | tuple):
        return [pair for value in option for pair in walked(value)]
    return []
