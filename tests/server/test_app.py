"""Every route: what the engine is asked, and what the client gets."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import anyio
import pytest
from pydantic import TypeAdapter

from benches.served import Serve, Served
from ckwatch.bench.imports.records import ImportedTimingsFile
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import CkwatchError, TemplateError, ToolchainError, UnknownUnitError, UntrustedError
from ckwatch.model.text import span
from ckwatch.model.timings import Timing
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.table import ENDPOINTS
from ckwatch.questions.units import UnitQuestions
from ckwatch.server.routes import path_of
from ckwatch.wire.analysis import Analysis, Calibrated, OccupancySteps, PredictedRanking
from ckwatch.wire.benchmarks import Baseline, Compared, Devices, RankedTiming, TimingDetail
from ckwatch.wire.cpp import CppAnswer, CppRequest
from ckwatch.wire.encoding import adapter
from ckwatch.wire.imported_timings import ImportedTiming, TimingsImport
from ckwatch.wire.language import (
    ParameterValue,
    TemplateDetail,
    TemplateName,
    Vocabulary,
)
from ckwatch.wire.messages import Artifact, PlannedUnit, Problem, RenderedText, Run, SlowAnswer, UnitDetail, UnsavedText
from ckwatch.wire.rows import Overview, UnitRow, read_row, unit_row
from ckwatch.wire.schema import CANDIDATE_LIMIT
from ckwatch.wire.state import File, Snapshot, Status, Unit, WorkspaceDetail
from ckwatch.wire.verification import UnitVerification
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import HOVER, WORDS, FakeEngine, unit_of

UNIT = "gemm/m128@gfx942"


class Row(NamedTuple):
    """A request, what it answers, and the call that the engine gets."""

    request: str
    answers: Any
    asked: tuple[Any, ...]
    body: Any = None


ROWS = [
    Row("GET /status", Status, ("status",)),
    Row("GET /snapshot", Snapshot, ("snapshot", None)),
    Row("GET /snapshot?client=vim-1", Snapshot, ("snapshot", "vim-1")),
    Row("GET /overview?client=x", Overview, ("overview", "x")),
    Row("GET /units", list[Unit], ("units", None, None)),
    Row(
        "POST /unit-rows", list[UnitRow], ("unit_rows", "x", [UNIT, "gone"]),
        {"units": [UNIT, "gone"], "client": "x"},
    ),
    Row("GET /units?pattern=gemm&pattern=a%2Fb%40c%2B&client=x", list[Unit], ("units", "x", ["gemm", "a/b@c+"])),
    Row(f"GET /units/{UNIT}", UnitDetail, ("unit", None, UNIT)),
    Row("GET /units/gemm/m128%40gfx942?client=x", UnitDetail, ("unit", "x", UNIT)),
    Row("GET /units/a%20b%3F/%C3%BC%25%23+@gfx90a:xnack+", UnitDetail, ("unit", None, "a b?/ü%#+@gfx90a:xnack+")),
    Row("GET /units/source/artifact", UnitDetail, ("unit", None, "source/artifact")),
    Row("GET /plan?pattern=gemm&client=x", list[PlannedUnit], ("plan", "x", ["gemm"])),
    Row(f"GET /units/{UNIT}/source", RenderedText, ("rendered", None, UNIT, False)),
    Row(f"GET /units/{UNIT}/source?map=0", RenderedText, ("rendered", None, UNIT, False)),
    Row(f"GET /units/{UNIT}/source?map=1&client=x", RenderedText, ("rendered", "x", UNIT, True)),
    Row(f"GET /units/{UNIT}/artifact", Artifact, ("artifact", None, UNIT)),
    Row(f"GET /units/{UNIT}/verification?client=x", UnitVerification, ("verification", "x", UNIT)),
    Row(f"GET /units/{UNIT}/runs", list[Run], ("runs", UNIT, 20)),
    Row(f"GET /units/{UNIT}/runs?limit=2", list[Run], ("runs", UNIT, 2)),
    Row("GET /files?path=/w/a%20b%C3%BC.j2", File, ("file", None, "/w/a bü.j2")),
    Row("GET /workspace?client=x", WorkspaceDetail, ("workspace", "x")),
    Row(f"POST /units/{UNIT}/runner", None, ("runner", None, UNIT, "/out/a b"), {"path": "/out/a b"}),
    Row("GET /log", None, ("log", 100)),
    Row("GET /log?lines=5", None, ("log", 5)),
    Row("POST /cancel", list[str], ("cancel", None, None), {}),
    Row("POST /cancel", list[str], ("cancel", "x", ["gemm"]), {"units": ["gemm"], "client": "x"}),
    Row("PUT /clients/x/overlays", None, ("overlay", "x", "/w/a", "ü\n"), {"path": "/w/a", "text": "ü\n"}),
    Row("PUT /clients/x/overlays", None, ("overlay", "x", "/w/a", None), {"path": "/w/a", "text": None}),
    Row("PUT /clients/x/focus", None, ("focus", "x", [], [], False, "edited"), {}),
    Row(
        "PUT /clients/x/focus", None, ("focus", "x", ["gemm"], ["/w/a"], True, "none"),
        {"units": ["gemm"], "files": ["/w/a"], "everything": True, "unsaved": "none"},
    ),
    Row("PUT /clients/x/view", None, ("view", "x", [], True, None), {}),
    Row(
        "PUT /clients/x/view", None, ("view", "x", ["gfx942"], False, True),
        {"archs": ["gfx942"], "rules": False, "header_warnings": True},
    ),
    Row("PUT /clients/x/editor", None, ("editor", "x", True), {"shows": True}),
    Row("GET /unsaved", list[UnsavedText], ("unsaved",)),
    Row("POST /show", int, ("show", "/ck/a b.hpp", 3, 0), {"path": "/ck/a b.hpp", "line": 3}),
    Row(f"GET /units/{UNIT}/analysis", Analysis, ("analysis", None, UNIT)),
    Row(f"GET /units/{UNIT}/analysis?client=x", Analysis, ("analysis", "x", UNIT)),
    Row(f"GET /units/{UNIT}/occupancy-steps?client=x", OccupancySteps, ("occupancy_steps", "x", UNIT)),
    Row("GET /calibration", Calibrated, ("calibration",)),
    Row("GET /predictions?kernel=a&shape=b", PredictedRanking, ("predicted", None, "a", "b", None, "")),
    Row(
        "GET /predictions?kernel=a&shape=b&arch=gfx90a&part=MI210", PredictedRanking,
        ("predicted", None, "a", "b", "gfx90a", "MI210"),
    ),
    Row("GET /vocabulary", Vocabulary, ("vocabulary",)),
    Row("GET /templates", list[TemplateName], ("templates", None)),
    Row("GET /template?name=k.hip.j2&client=x", TemplateDetail, ("template", "x", "k.hip.j2", None)),
    Row("GET /readers?path=/w/a%20b.j2", list[str], ("readers", None, "/w/a b.j2")),
    Row(
        "POST /readers", list[list[str]], ("readers_of", "x", ["/w/a", "/w/b"]),
        {"paths": ["/w/a", "/w/b"], "client": "x"},
    ),
    Row(
        "POST /values", list[ParameterValue], ("values", None, UNIT, "Tile", None, None),
        {"unit": UNIT, "parameter": "Tile"},
    ),
    Row("GET /devices", Devices, ("devices", False)),
    Row("GET /devices?again=1", Devices, ("devices", True)),
    Row("GET /timings?unit=gemm/m128%40gfx942", list[Timing], ("timings", UNIT, None, 50)),
    Row("GET /timings?unit=gemm/m128%40gfx942&shape=a%20b&limit=2", list[Timing], ("timings", UNIT, "a b", 2)),
    Row("GET /timings/7", list[TimingDetail], ("timing", 7)),
    Row("GET /ranking?kernel=gemm", list[RankedTiming], ("best", "gemm", None, None)),
    Row("GET /ranking?kernel=gemm&shape=big&cache=hot", list[RankedTiming], ("best", "gemm", "big", "hot")),
    Row("GET /comparison?unit=a&against=baseline:x", list[Compared], ("compare", "a", "baseline:x", None)),
    Row("GET /baselines", list[Baseline], ("baselines",)),
    Row("PUT /baselines/a%20b", list[str], ("set_baseline", "a b", None), {}),
    Row("PUT /baselines/x", list[str], ("set_baseline", "x", ["gemm"]), {"units": ["gemm"]}),
    Row("DELETE /baselines/x", int, ("remove_baseline", "x")),
    Row(
        "POST /imported-timings", TimingsImport, ("import_timings", "/w/t.csv", None, None, None, None),
        {"path": "/w/t.csv"},
    ),
    Row(
        "POST /imported-timings", TimingsImport,
        ("import_timings", "/w/t.json", "kernel-tuner", "theirs", "k", None),
        {"path": "/w/t.json", "format": "kernel-tuner", "source": "theirs", "kernel": "k"},
    ),
    Row("GET /imported-timings", list[ImportedTiming], ("imported_timings", None, None, None)),
    Row(
        "GET /imported-timings?kernel=a&shape=b%20c&arch=gfx942", list[ImportedTiming],
        ("imported_timings", "a", "b c", "gfx942"),
    ),
    Row("GET /imported-files", list[ImportedTimingsFile], ("imported_files",)),
    Row("DELETE /imported-files?path=/w/a%20b.csv", None, ("remove_imported", "/w/a b.csv")),
    Row("POST /stop", None, ("stop",)),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.request)
async def test_a_route_asks_the_engine_and_answers_with_what_it_returns(row: Row, serve: Serve) -> None:
    async with serve(FakeEngine(UNIT, "a b?/ü%#+@gfx90a:xnack+", "source/artifact")) as served:
        method, _, path = row.request.partition(" ")
        answer = await served.http.request(method, path, json=row.body)
        assert answer.is_success, answer.text
        assert row.asked in served.engine.asked
        if row.answers is not None:
            assert answer.headers["content-type"] == "application/json"
            TypeAdapter(row.answers).validate_json(answer.content)
        elif method != "GET":
            assert (answer.status_code, answer.content) == (204, b"")


def test_every_route_has_a_row() -> None:
    asked = {row.asked[0] for row in ROWS} | {
        "building",
        "bench",
        "verifying",
        "upgrading",
        "time_trace",
        "isa",
        "profile",
        "profile_on_device",
        "import_profile",
        "advice",
        "ask_cpp",
        "processor_roof",
    }
    assert {one.name for one in ENDPOINTS} == asked | {"events", "leave"}


async def test_answers_hold_what_the_engine_said(served: Served) -> None:
    engine = served.engine
    engine.change("file//w/ü", File(path="/w/ü", diagnostics=()))
    snapshot = adapter(Snapshot).validate_json((await served.http.get("/snapshot")).content)
    assert snapshot == await engine.ask(ClientQuestions.snapshot)
    units = TypeAdapter(list[Unit]).validate_json((await served.http.get("/units")).content)
    assert units == await engine.ask(UnitQuestions.units, patterns=None)
    assert (await served.http.get("/units?pattern=nothing")).json() == []
    source = adapter(RenderedText).validate_json((await served.http.get(f"/units/{UNIT}/source")).content)
    assert source.text == "int a = 1; // ü\n"
    log = await served.http.get("/log")
    assert (log.text, log.headers["content-type"]) == ("a line\nund noch eine: ü\n", "text/plain; charset=utf-8")
    assert (await served.http.post("/cancel", json={})).json() == [UNIT]
    engine.states.clear()
    assert (await served.http.get("/snapshot")).json() == {"seq": 2, "states": {}}


async def test_an_overview_is_a_snapshot_with_units_as_rows_without_timings(served: Served) -> None:
    unit = unit_of(UNIT, timings=(timing_of(),))
    served.engine.change(f"unit/{UNIT}", unit)
    served.engine.change("file//w/a", File(path="/w/a", diagnostics=()))
    whole = (await served.http.get("/snapshot")).json()
    rows = (await served.http.get("/overview")).json()
    assert read_row(rows["states"].pop(f"unit/{UNIT}")) == unit_row(unit, untimed=True)
    del whole["states"][f"unit/{UNIT}"]
    assert rows == whole


async def test_a_unit_that_was_not_built_has_no_artifact(served: Served) -> None:
    served.engine.change(f"unit/{UNIT}", unit_of(UNIT, outcome="failed"))
    answer = await served.http.get(f"/units/{UNIT}/artifact")
    assert (answer.status_code, answer.json()) == (200, None)


async def test_a_snapshot_of_many_units_arrives_whole(serve: Serve) -> None:
    async with serve(FakeEngine(*(f"gemm/i{number}@gfx942" for number in range(3000)))) as served:
        snapshot = adapter(Snapshot).validate_json((await served.http.get("/snapshot")).content)
        assert len(snapshot.states) == 3000
        assert snapshot == await served.engine.ask(ClientQuestions.snapshot)


async def test_names_that_are_no_unicode_are_shown_as_far_as_they_go(served: Served) -> None:
    served.engine.change("file//w/\udcff", File(path="/w/\udcff", diagnostics=()))
    snapshot = adapter(Snapshot).validate_json((await served.http.get("/snapshot")).content)
    assert snapshot.states["file//w/?"] == File(path="/w/?", diagnostics=())


async def test_the_document_describes_every_route(served: Served) -> None:
    answer = await served.http.get("/openapi.json")
    paths = answer.json()["paths"]
    assert {(method.upper(), path) for path, of in paths.items() for method in of} == {
        (one.method, "/v1" + path_of(one)) for one in ENDPOINTS
    }
    events = paths["/v1/events"]["get"]["responses"]["200"]["content"]
    assert events == {"application/x-ndjson": {"schema": {"$ref": "#/components/schemas/Change"}}}
    schemas = answer.json()["components"]["schemas"]
    assert schemas["OverlayRequest"]["additionalProperties"] is False
    assert {"Snapshot", "Unit", "Problem", "BuildLine", "Status"} <= set(schemas)


async def test_curl(served: Served) -> None:
    command = ["curl", "-sS", "--unix-socket", str(served.path), "http://localhost/v1/status"]
    ran = await anyio.run_process(command)
    assert adapter(Status).validate_json(ran.stdout).seq == 1


MISTAKE = Diagnostic(Severity.ERROR, Source.WORKSPACE, "toml", "expected a value", span("/w/ckwatch.toml", 0, 4, 0, 5))


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (UnknownUnitError("no unit", "look"), 404, Problem(error="no unit", hint="look")),
        (UntrustedError("not trusted", "trust"), 403, Problem(error="not trusted", hint="trust")),
        (CkwatchError("wrong"), 400, Problem(error="wrong")),
        (ToolchainError("no hipcc", "install"), 400, Problem(error="no hipcc", hint="install")),
        (
            TemplateError((MISTAKE, MISTAKE)), 400,
            Problem(
                error="/w/ckwatch.toml:1:5: expected a value (and 1 more)",
                details=("/w/ckwatch.toml:1:5: expected a value",) * 2,
            ),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/status", "/snapshot", f"/units/{UNIT}"])
async def test_what_a_user_did_wrong(
    path: str, error: CkwatchError, status: int, problem: Problem, served: Served
) -> None:
    served.engine.fault = error
    answer = await served.http.get(path)
    assert (answer.status_code, adapter(Problem).validate_json(answer.content)) == (status, problem)


async def test_a_fault_of_ours_is_logged_and_not_shown(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.engine.fault = ZeroDivisionError("a secret")
    answer = await served.http.get("/snapshot?client=x")
    assert answer.status_code == 500
    assert "internal error" in adapter(Problem).validate_json(answer.content).error
    assert "secret" not in answer.text
    assert "Traceback" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert (await served.http.get("/status")).status_code == 200


async def test_no_request_is_kept_waiting_by_another(served: Served) -> None:
    served.engine.endless = True
    async with served.http.stream("POST", "/builds", json={}), served.http.stream("GET", "/events"):
        assert (await served.http.get("/status")).status_code == 200


async def test_answers_are_the_wire_types(served: Served) -> None:
    words = adapter(Vocabulary).validate_json((await served.http.get("/vocabulary")).content)
    assert words == WORDS
    names = TypeAdapter(list[TemplateName]).validate_json((await served.http.get("/templates?client=x")).content)
    assert names == [TemplateName(name="k.hip.j2", path="/w/templates/k.hip.j2")]
    found = adapter(TemplateDetail).validate_json((await served.http.get("/template?name=k.hip.j2")).content)
    assert [one.name for one in found.parameters] == ["Tile"]
    assert (await served.http.get("/template?path=/w/a%20b.j2")).json()["path"] == "/w/a b.j2"
    assert (await served.http.get("/readers?path=/w/k.j2&client=x")).json() == [UNIT]
    answer = await served.http.post("/values", json={"unit": UNIT, "parameter": "Tile", "values": [96, 128]})
    assert TypeAdapter(list[ParameterValue]).validate_json(answer.content) == [
        ParameterValue(value=128, accepted=True),
        ParameterValue(value=96, accepted=False),
    ]
    assert served.engine.of("template") == [(None, "k.hip.j2", None), (None, None, "/w/a b.j2")]
    assert served.engine.of("readers") == [("x", "/w/k.j2")]
    assert served.engine.of("values") == [(None, UNIT, "Tile", [96, 128], None)]


@pytest.mark.parametrize(
    "path",
    [
        *("/template", "/template?name=a&path=/b", "/template?path=relative", "/template?name=", "/readers"),
        *("/readers?path=relative", "/readers?path=/a&more=1", "/templates?more=1", "/vocabulary?client=x"),
    ],
)
async def test_bad_queries_never_reach_the_engine(served: Served, path: str) -> None:
    assert (await served.http.get(path)).status_code == 422
    assert served.engine.asked == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"unit": UNIT},
        {"unit": "", "parameter": "Tile"},
        {"unit": UNIT, "parameter": "Tile", "values": 1},
        {"unit": UNIT, "parameter": "Tile", "values": [1] * (CANDIDATE_LIMIT + 1)},
        {"unit": UNIT, "parameter": "Tile", "parameters": [1]},
        {"unit": UNIT, "parameter": "Tile", "client": "a b"},
        {"unit": UNIT, "parameter": "Tile", "more": 1},
    ],
)
async def test_bad_bodies_never_reach_the_engine(served: Served, body: dict[str, Any]) -> None:
    assert (await served.http.post("/values", json=body)).status_code == 422
    assert served.engine.of("values") == []


HERE = {"question": "hover", "path": "/w/k.j2", "start": {"line": 0, "character": 0}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"question": "weather", "path": "/w/k.j2"},
        {"question": "symbols"},
        {"question": "hover", "path": "/w/k.j2"},
        {"question": "rename", "path": "/w/k.j2", "start": HERE["start"]},
        {"question": "incoming-calls", "path": "/w/k.j2", "start": HERE["start"]},
        *({**HERE, **change} for change in (
            {"path": "k.j2"}, {"start": {"line": -1, "character": 0}}, {"start": {"line": 0, "character": 2**31}},
            {"side": "both"}, {"trigger": "::"}, {"patience_s": -1}, {"patience_s": 601}, {"client": "a b"}, {"more": 1},
            {"unit": ""}, {"call": {"unit": UNIT}},
        )),
    ],
)  # fmt: skip
async def test_bad_questions_about_cpp_never_reach_the_engine(served: Served, body: dict[str, Any]) -> None:
    assert (await served.http.post("/cpp", json=body)).status_code == 422
    assert served.engine.of("ask_cpp") == []


@pytest.mark.parametrize(
    "body",
    [
        HERE,
        {**HERE, "path": "/w/a b.j2", "patience_s": 0.5, "others": True, "unit": UNIT, "side": "device"},
        {"question": "symbols", "unit": UNIT, "client": "x"},
        {"question": "hints", "path": "/w/k.j2", "start": HERE["start"], "end": HERE["start"]},
        {"question": "rename", "path": "/w/k.j2", "start": HERE["start"], "name": "ü"},
        {
            "question": "outgoing-calls",
            "call": {"unit": UNIT, "side": "host", "path": None, "item": {"uri": "file:///k"}},
        },
    ],
)
async def test_questions_about_cpp(served: Served, body: dict[str, Any]) -> None:
    answer = await served.http.post("/cpp", json=body)
    last = adapter(SlowAnswer[CppAnswer]).validate_json(answer.text.splitlines()[-1])
    assert last.result is not None
    assert last.result.result == HOVER
    assert served.engine.of("ask_cpp") == [
        (
            body.get("client"),
            CppRequest.model_validate(body),
        )
    ]


async def test_a_template_that_is_not_there(served: Served) -> None:
    answer = await served.http.get("/template?name=none.hip.j2")
    assert (answer.status_code, answer.json()["hint"]) == (400, "looked in: /w/templates")
