"""Declarations: what clients send for them, what they load, and who must answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ckwatch
from ckwatch.questions.__main__ import page
from ckwatch.questions.endpoint import AnyEndpoint
from ckwatch.questions.table import answers
from ckwatch.questions.timings import TimingQuestions
from ckwatch.questions.units import UnitQuestions
from ckwatch.questions.workspace import WorkspaceQuestions
from helpers.each_row import each_row

UNIT = "gemm/a b@gfx942"


def sent(endpoint: AnyEndpoint, *given: Any, viewer: str | None = None, **named: Any) -> tuple[Any, ...]:
    """Path, query and JSON of a request, and when it is sent again."""
    _, segments, query, body, retry = endpoint.request(given, named, lambda path: f"/w/{path}", viewer)
    return "/".join(segments), dict(query), body and json.loads(body), retry


@each_row(
    ("found", "expected"),
    [
        (sent(UnitQuestions.units, viewer="x"), ("units", {"client": "x"}, None, "always")),
        (sent(UnitQuestions.units, "gemm"), ("units", {"pattern": "gemm"}, None, "always")),
        (
            sent(UnitQuestions.rendered, UNIT, with_map=True),
            ("units/gemm/a b@gfx942/source", {"map": "true"}, None, "always"),
        ),
        (sent(UnitQuestions.isa, UNIT, lines=False)[1:2], ({"lines": "false"},)),
        (sent(UnitQuestions.runner, UNIT, "out")[2:], ({"path": "/w/out"}, "always")),
        (sent(UnitQuestions.building, "a", "b", force=True)[2:], ({"units": ["a", "b"], "force": True}, "unsent")),
        (sent(UnitQuestions.building)[2:], ({}, "always")),
        (sent(TimingQuestions.timing, 7)[0], "timings/7"),
        (sent(TimingQuestions.set_baseline, "n", "a"), ("baselines/n", {}, {"units": ["a"]}, "always")),
        (sent(WorkspaceQuestions.values, UNIT, "Tile", (1, 2))[2]["values"], [1, 2]),
    ],
)
def test_what_is_sent(found: object, expected: object) -> None:
    assert found == expected


def test_declarations_load_no_library() -> None:
    code = (
        "import sys, ckwatch.questions.table; print(*({'anyio', 'pydantic', 'ckwatch.wire.schema'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_an_answer_takes_what_its_question_gives() -> None:
    async def runs(unit: str) -> list[Any]:
        return [unit]

    with pytest.raises(TypeError, match="runs is not answered by"):
        answers(UnitQuestions.runs.answered_by(runs))


def test_the_page_of_routes_is_that_of_the_declarations() -> None:
    """`python -m ckwatch.questions > docs/routes.md` writes it."""
    text = (Path(ckwatch.__file__).parents[2] / "docs/routes.md").read_text()
    assert text.splitlines() == "\n".join(page()).splitlines()
