"""What editors ask of the language: bodies and queries are checked before the engine sees them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from ckwatch.wire.language import (
    CANDIDATE_LIMIT,
    ParameterValue,
    TemplateDetail,
    TemplateName,
    ValuesRequest,
    Vocabulary,
)
from served import Served

UNIT = "gemm/m128@gfx942"


async def test_answers_are_the_wire_types(served: Served) -> None:
    language = served.engine.language
    words = Vocabulary.model_validate_json((await served.http.get("/vocabulary")).content)
    assert words == language.words
    names = TypeAdapter(list[TemplateName]).validate_json((await served.http.get("/templates?client=x")).content)
    assert names == [TemplateName(name="k.hip.j2", path="/w/templates/k.hip.j2")]
    found = TemplateDetail.model_validate_json((await served.http.get("/template?name=k.hip.j2")).content)
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
    assert served.engine.of("values") == [(ValuesRequest(unit=UNIT, parameter="Tile", values=[96, 128]),)]


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


async def test_a_template_that_is_not_there(served: Served) -> None:
    answer = await served.http.get("/template?name=none.hip.j2")
    assert (answer.status_code, answer.json()["hint"]) == (400, "looked in: /w/templates")
