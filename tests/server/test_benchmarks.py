"""Following a benchmark over the wire."""

from __future__ import annotations

import pytest

from benches.served import Served
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.benchmarks import BenchLine
from ckwatch.wire.encoding import adapter
from fakes.fake_benchmarks import UNIT


async def test_a_benchmark_is_followed_line_by_line(served: Served) -> None:
    body = {"units": ["gemm"], "shapes": ["test"], "device": "hip:1", "force": True}
    async with served.http.stream("POST", "/benchmarks", json=body) as answer:
        lines = [adapter(BenchLine).validate_json(line) async for line in answer.aiter_lines()]
    assert [line.event for line in lines] == ["timing", "done"]
    assert lines[0].timing is not None
    assert lines[0].timing.unit == UNIT
    assert served.engine.of("bench") == [(None, ["gemm"], ["test"], "hip:1", True, False, None, False)]
    assert served.engine.following == 0


@pytest.mark.parametrize(
    "body", [{"device": "gpu"}, {"shapes": [""]}, {"units": "gemm"}, {"forced": True}, {"device": "hip:1; rm"}]
)
async def test_what_is_not_understood_is_not_asked(body: dict[str, object], served: Served) -> None:
    answer = await served.http.post("/benchmarks", json=body)
    assert answer.status_code == 422
    assert served.engine.of("bench") == []


async def test_a_mistake_known_at_once_has_its_own_status(served: Served) -> None:
    served.engine.fault = CkwatchError("none of these units has a shape 'x'", "there are test")
    answer = await served.http.post("/benchmarks", json={"shapes": ["x"]})
    assert answer.status_code == 400
    assert "none of these units has a shape 'x'" in answer.text


@pytest.mark.parametrize("path", ["/timings/0", "/timings/x", "/baselines/a:b", "/timings", "/ranking", "/comparison"])
async def test_queries_are_checked(path: str, served: Served) -> None:
    method = "PUT" if path.startswith("/baselines") else "GET"
    answer = await served.http.request(method, path, json={} if method == "PUT" else None)
    assert answer.status_code == 422
    assert served.engine.asked == []
