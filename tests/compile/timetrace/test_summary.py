"""Names of instances without their arguments."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.compile.timetrace.summary import (
    CompilerStage,
    TemplateCost,
    TimeTraceError,
    join_traces,
    summarize,
    template_name,
)
from helpers.each_row import each_row

ROWS = {
    "main": "main",
    "ck::Tuple<int, X<2>>::At<1>": "ck::Tuple::At",
    "ck::Tuple<>": "ck::Tuple",
    "std::pair<std::vector<int>, char>": "std::pair",
    # Brackets in a name.
    "operator<<int>": "operator<",
    "operator<": "operator<",
    "operator<<<int>": "operator<<",
    "std::operator<<": "std::operator<<",
    "a::operator<=><b<1>>": "a::operator<=>",
    "a<1>::operator->": "a::operator->",
    "a<1>::operator>>=<2>": "a::operator>>=",
    "a<1>::operator()<(lambda at /p/x.hpp:1:2)>": "a::operator()",
    "a<1>::operator[]<3>": "a::operator[]",
    "a<1>::operator bool": "a::operator bool",
    "cooperator<1>": "cooperator",
    # Arguments that hold brackets.
    "X<(1 > 2), 3>::f": "X::f",
    "X<(sizeof(a) < 4), Y<(b >> 2)>>::f": "X::f",
    "X<int (*)(Y<1>)>::f<int[2]>": "X::f",
    "X<Y{1, {2}}>::f": "X::f",
    "X<decltype(a->b)>::f": "X::f",
    "X<'<', '\\'', \">)\">::f": "X::f",
    "X<a->b>::f": "X::f",
    # Functions and lambdas around.
    "ck::f4(float32_t, float)::(lambda)::operator()<ck::integral_constant<int, 31>>": "ck::f4::(lambda)",
    "M<T<int>>::M(const T<int> &)::(lambda)::operator()<N<0>>": "M::M::(lambda)",
    "f<1>(N<0>)::(lambda)::operator()()::(lambda)::operator()(N<1>)::(lambda)::operator()": "f::(lambda)::(lambda)::(lambda)",
    "X<1>::f() const::(anonymous class)::g<2>": "X::f::(anonymous class)::g",
    "(anonymous namespace)::f<1>": "(anonymous namespace)::f",
    "std::basic_string<char>::(anonymous union at /usr/x.h:215:7)": "std::basic_string::(anonymous union)",
    "(lambda at /a b/x.hpp:1:2)": "(lambda)",
    # Cut off.
    "ck::Tuple<int, X<2": "ck::Tuple",
    "f<1>::g(int, X<": "f::g",
    "": "",
}


@each_row(("name", "template"), ROWS.items())
def test_template_name(name: str, template: str) -> None:
    assert template_name(name) == template


DATA = Path(__file__).parents[2] / "data/timetrace"
CLASS, FUNCTION = "InstantiateClass", "InstantiateFunction"

Event = tuple[str, int, int, str]


def trace(*events: Event) -> dict[str, Any]:
    """A trace of (name, begin, end, detail) in µs, written as clang does: each when it ends."""
    written = sorted(events, key=lambda event: event[2])
    return {
        "beginningOfTime": 0,
        "traceEvents": [
            {"ph": "X", "pid": 1, "tid": 1, "ts": begin, "dur": end - begin, "name": name, "args": {"detail": detail}}
            for name, begin, end, detail in written
        ],
    }


STAGES = {
    "nothing": ((), {}),
    "each moment counts once": (
        (("ExecuteCompiler", 0, 100, ""), ("Frontend", 10, 60, ""), (CLASS, 20, 30, "A<1>"), ("Backend", 60, 90, "")),
        {
            CompilerStage.OTHER: 20,
            CompilerStage.PARSING: 40,
            CompilerStage.INSTANTIATION: 10,
            CompilerStage.OPTIMIZER: 30,
        },
    ),
    "what is not known counts to what is around it": (
        (
            (CLASS, 0, 50, "A<1>"),
            ("EvaluateAsRValue", 10, 20, "x"),
            ("NewInClang99", 12, 14, "y"),
            ("Lonely", 60, 70, ""),
        ),
        {CompilerStage.INSTANTIATION: 50, CompilerStage.OTHER: 10},
    ),
    "anything that begins with Parse": (
        (
            ("ParseStatement", 0, 5, ""),
            ("CodeGen Function", 2, 3, "f"),
            ("CodeGenPasses", 5, 9, ""),
            ("RunPass", 6, 8, ""),
        ),
        {CompilerStage.PARSING: 4, CompilerStage.IR: 1, CompilerStage.CODE_GENERATION: 4},
    ),
    "ends that rounding put behind those around": (
        (("Frontend", 0, 10, ""), (CLASS, 5, 11, "A<1>"), ("Backend", 10, 12, "")),
        {CompilerStage.PARSING: 5, CompilerStage.INSTANTIATION: 5, CompilerStage.OPTIMIZER: 2},
    ),
}


@pytest.mark.parametrize("row", STAGES)
def test_stages(row: str) -> None:
    events, expected = STAGES[row]
    found = {stage: round(seconds * 1e6) for stage, seconds in summarize(trace(*events)).stages.items()}
    assert found == {stage: expected.get(stage, 0) for stage in CompilerStage}


TEMPLATES = {
    "instances of one template": (
        ((CLASS, 0, 10, "A<1>"), (CLASS, 10, 30, "A<2>")),
        {"A": (2, 30, 30)},
    ),
    "what is needed for it": (
        ((FUNCTION, 0, 10, "f<1>"), (CLASS, 2, 5, "A<1>"), (CLASS, 3, 4, "B<1>")),
        {"f": (1, 10, 7), "A": (1, 3, 2), "B": (1, 1, 1)},
    ),
    "nested instances count once": (
        ((CLASS, 0, 10, "A<3>"), (CLASS, 1, 9, "A<2>"), (CLASS, 2, 8, "B<1>"), (CLASS, 3, 7, "A<1>"), (CLASS, 20, 21, "A<9>")),
        {"A": (4, 11, 9), "B": (1, 6, 2)},
    ),
    "of the same extent": (
        ((CLASS, 0, 10, "inner<1>"), (CLASS, 0, 10, "outer<1>")),
        {"outer": (1, 10, 0), "inner": (1, 10, 10)},
    ),
    "what clang does meanwhile": (
        ((CLASS, 0, 10, "A<1>"), ("EvaluateAsInitializer", 1, 4, "x"), ("CodeGen Function", 5, 7, "g"), ("RunPass", 5, 6, "")),
        {"A": (1, 10, 8)},
    ),
    "nothing is instantiated for a queue": (
        (("PerformPendingInstantiations", 0, 10, ""), (FUNCTION, 1, 9, "f<1>")),
        {"f": (1, 8, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", TEMPLATES)
def test_templates(row: str) -> None:
    events, expected = TEMPLATES[row]
    found = {
        cost.name: (cost.count, round(cost.inclusive_s * 1e6), round(cost.self_s * 1e6))
        for cost in summarize(trace(*events)).templates
    }
    assert found == expected


def test_the_greatest_own_time_comes_first() -> None:
    found = summarize(trace((CLASS, 0, 9, "A<1>"), (CLASS, 1, 7, "B<1>"), (CLASS, 8, 9, "C<1>")))
    assert [cost.name for cost in found.templates] == ["B", "A", "C"]


def test_a_device_pass() -> None:
    """Events of clang 22's trace of a CK GEMM, of which most were left out."""
    found = summarize(json.loads((DATA / "device.json").read_text()))
    assert {stage: round(seconds, 3) for stage, seconds in found.stages.items()} == {
        CompilerStage.PARSING: 10.319, CompilerStage.INSTANTIATION: 16.947, CompilerStage.IR: 0.009, CompilerStage.OPTIMIZER: 7.595,
        CompilerStage.CODE_GENERATION: 0.161, CompilerStage.OTHER: 0.373,
    }  # fmt: skip
    assert sum(found.stages.values()) == pytest.approx(35.404473)
    by_name = {cost.name: cost for cost in found.templates}
    outermost_us = 773243 + 2014387 + 765750 + 2150095 + 904780 + 638094
    between_us = 765347 - 763748  # a static_ford_impl in one applier, around another
    applier = "ck::detail::applier::operator()"
    assert by_name[applier] == TemplateCost(applier, 7, outermost_us / 1e6, (outermost_us - between_us) / 1e6)
    assert by_name["ck::make_tuple"].inclusive_s == pytest.approx(0.00393)
    own = sum(cost.self_s for cost in found.templates)
    queue = 16.942797 - 16.7938  # PerformPendingInstantiations beside what it instantiates
    assert own == pytest.approx(found.stages[CompilerStage.INSTANTIATION] - queue, abs=1e-3)


MALFORMED = {
    "no object": [],
    "no events": {},
    "events that are no list": {"traceEvents": {}},
    "an event that is none": {"traceEvents": [7]},
    "no duration": {"traceEvents": [{"ph": "X", "name": "Frontend", "ts": 1}]},
    "a time that is none": {"traceEvents": [{"ph": "X", "name": "Frontend", "ts": "x", "dur": 1}]},
    "arguments that are none": {"traceEvents": [{"ph": "X", "name": "Frontend", "ts": 1, "dur": 1, "args": 3}]},
    "a name that is none": {"traceEvents": [{"ph": "X", "name": ["Frontend"], "ts": 1, "dur": 1}]},
    "a detail that is none": {"traceEvents": [{"ph": "X", "name": CLASS, "ts": 1, "dur": 1, "args": {"detail": 3}}]},
}


@pytest.mark.parametrize("row", MALFORMED)
def test_what_is_no_trace(row: str) -> None:
    with pytest.raises(TimeTraceError):
        summarize(MALFORMED[row])


NAMES = ("ExecuteCompiler", "Frontend", "ParseClass", "RunPass", CLASS, FUNCTION, "CodeGen Function", "Backend")


def nested(draw: st.DrawFn, begin: int, end: int, depth: int) -> list[Event]:
    """Events in the span, some of which are in others."""
    cuts = sorted(draw(st.lists(st.integers(begin, end), max_size=6)))
    found: list[Event] = []
    for left, right in pairwise(cuts):
        detail = draw(st.sampled_from(("A<1>", "A<2>", "B<1>::f<2>")))
        if depth:
            found += nested(draw, left, right, depth - 1)
        if draw(st.booleans()):
            found.append((draw(st.sampled_from(NAMES)), left, right, detail))
    return found


@given(st.composite(nested)(0, 300, 3))
def test_each_moment_counts_once(events: list[Event]) -> None:
    found = summarize(trace(*events))
    covered = {moment for _, begin, end, _ in events for moment in range(begin, end)}
    assert sum(found.stages.values()) == pytest.approx(len(covered) / 1e6)
    own = sum(cost.self_s for cost in found.templates)
    assert own == pytest.approx(found.stages[CompilerStage.INSTANTIATION])
    for cost in found.templates:
        mine = [event for event in events if event[0] in (CLASS, FUNCTION) and event[3][0] == cost.name[0]]
        within = {moment for _, begin, end, _ in mine for moment in range(begin, end)}
        assert cost.count == len(mine)
        assert cost.inclusive_s == pytest.approx(len(within) / 1e6)
        assert cost.self_s <= cost.inclusive_s + 1e-9


def passes() -> list[tuple[str, Any]]:
    return [
        ("device pass (gfx942)", json.loads((DATA / "device.json").read_text())),
        ("host pass", json.loads((DATA / "host.json").read_text())),
    ]


def test_processes_have_names_and_an_order() -> None:
    named = {event["pid"]: event["args"] for event in join_traces(passes()) if event["name"] == "process_name"}
    assert named == {1: {"name": "device pass (gfx942)"}, 2: {"name": "host pass"}}
    order = [event["args"]["sort_index"] for event in join_traces(passes()) if event["name"] == "process_sort_index"]
    assert order == [1, 2]


def test_every_event_is_there_but_the_sums() -> None:
    found = list(join_traces(passes()))
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
    begun = {event["pid"]: event["ts"] for event in join_traces([first, second]) if event["name"] == "ExecuteCompiler"}
    assert begun == {1: 75 + 3_000, 2: 31}


def test_ids_of_one_pass_are_not_the_others() -> None:
    found = [event for event in join_traces(passes()) if event["ph"] in "be"]
    assert found
    assert all(event["id2"] == {"local": "0"} and "id" not in event for event in found)


@pytest.mark.parametrize("trace", [{"traceEvents": None}, {"traceEvents": [], "beginningOfTime": "x"}, 3])
def test_what_is_no_trace_chrome(trace: Any) -> None:
    with pytest.raises(TimeTraceError):
        list(join_traces([("host pass", trace)]))
