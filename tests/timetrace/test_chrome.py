"""Two passes as one trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckwatch.timetrace.chrome import joined
from ckwatch.timetrace.summary import TimeTraceError

DATA = Path(__file__).parent.parent / "data/timetrace"


def passes() -> list[tuple[str, Any]]:
    return [
        ("device pass (gfx942)", json.loads((DATA / "device.json").read_text())),
        ("host pass", json.loads((DATA / "host.json").read_text())),
    ]


def test_processes_have_names_and_an_order() -> None:
    named = {event["pid"]: event["args"] for event in joined(passes()) if event["name"] == "process_name"}
    assert named == {1: {"name": "device pass (gfx942)"}, 2: {"name": "host pass"}}
    order = [event["args"]["sort_index"] for event in joined(passes()) if event["name"] == "process_sort_index"]
    assert order == [1, 2]


def test_every_event_is_there_but_the_sums() -> None:
    found = list(joined(passes()))
    for process, (_, trace) in enumerate(passes(), start=1):
        own = [event for event in found if event["pid"] == process and event["ph"] != "M"]
        given = [event for event in trace["traceEvents"] if not event["name"].startswith("Total ")]
        assert [(event["name"], event.get("dur")) for event in own] == [
            (event["name"], event.get("dur")) for event in given if event["ph"] != "M"
        ]
        assert {event["tid"] for event in own} == {1}


def test_passes_share_a_clock() -> None:
    first, second = passes()
    first[1]["beginningOfTime"], second[1]["beginningOfTime"] = 5_000, 2_000
    begun = {event["pid"]: event["ts"] for event in joined([first, second]) if event["name"] == "ExecuteCompiler"}
    assert begun == {1: 75 + 3_000, 2: 31}


def test_ids_of_one_pass_are_not_the_others() -> None:
    found = [event for event in joined(passes()) if event["ph"] in "be"]
    assert found
    assert all(event["id2"] == {"local": "0"} and "id" not in event for event in found)


@pytest.mark.parametrize("trace", [{"traceEvents": None}, {"traceEvents": [], "beginningOfTime": "x"}, 3])
def test_what_is_no_trace(trace: Any) -> None:
    with pytest.raises(TimeTraceError):
        list(joined([("host pass", trace)]))
