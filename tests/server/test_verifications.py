"""Following a verification over the wire, and the clients that do."""

from __future__ import annotations

import pytest

from benches.served import Served
from ckwatch.wire.encoding import adapter
from ckwatch.wire.verification import VerifyLine
from fakes.fake_verifications import UNIT, finding_of, unit_verification, verification_of


async def test_a_verification_is_followed_line_by_line(served: Served) -> None:
    found = unit_verification(verification_of(finding_of()))
    served.engine.verify_lines = [VerifyLine(event="unit", unit=UNIT, outcome="built", result=found)]
    body = {"units": ["gemm"], "shapes": ["M=1,N=8,K=8"], "force": True, "client": "x"}
    async with served.http.stream("POST", "/verifications", json=body) as answer:
        lines = [adapter(VerifyLine).validate_json(line) async for line in answer.aiter_lines()]
    assert [line.event for line in lines] == ["unit", "done"]
    assert lines[0].result == found
    assert served.engine.of("verify") == [("x", ["gemm"], "M=1,N=8,K=8", True)]
    assert served.engine.following == 0


@pytest.mark.parametrize("body", [{"units": "gemm"}, {"forced": True}, {"shapes": "exact"}])
async def test_what_is_not_understood_is_not_asked(body: dict[str, object], served: Served) -> None:
    answer = await served.http.post("/verifications", json=body)
    assert answer.status_code == 422
    assert served.engine.of("verify") == []
