"""A listing takes as long as a compile: it comes in a stream, as a time trace does."""

from __future__ import annotations

import pytest

from ckwatch.wire.analysis import IsaAnswer
from served import Served

URL = "/units/gemm/m128@gfx942/isa"


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", (None, None, True)),
        ("?symbol=a%3Cb%3E&client=x", ("x", "a<b>", True)),
        ("?lines=false", (None, None, False)),
    ],
)
async def test_the_result_is_the_last_line(
    served: Served, query: str, asked: tuple[str | None, str | None, bool]
) -> None:
    answer = await served.http.get(URL + query)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    line = IsaAnswer.model_validate_json(answer.text)
    assert line.event == "done"
    assert line.result is not None
    client, symbol, lines = asked
    assert (line.result.kernel, line.result.has_lines) == (symbol or "main", lines)
    assert served.engine.of("isa") == [(client, "gemm/m128@gfx942", symbol, lines)]


async def test_an_unknown_unit_has_a_status(served: Served) -> None:
    assert (await served.http.get("/units/gemm/nope@gfx942/isa")).status_code == 404


@pytest.mark.parametrize("query", ["?lines=2", "?symbol=", "?what=1", "?client=a%20b"])
async def test_bad_requests_never_reach_the_engine(served: Served, query: str) -> None:
    assert (await served.http.get(URL + query)).status_code == 422
    assert served.engine.of("isa") == []
