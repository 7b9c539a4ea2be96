"""Parts of long answers: what is shown fits, and what is cut can be read on until nothing is left."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.cli.mcp.answers import KEPT, TOKEN_LIMIT, Answer, AnswerBook, compact, token_count
from ckwatch.model.errors import CkwatchError

UNIT: dict[str, Any] = {
    "event": "unit",
    "unit": "gemm/one@gfx942",
    "outcome": "built",
    "figures": None,
    "diagnostics": [],
}
ERROR = {"event": "diagnostic", "severity": "error", "message": "no member named 'x'"}


def test_an_answer_begins_with_the_sum_and_the_errors_and_has_no_empty_fields() -> None:
    failed = UNIT | {"outcome": "failed"}
    lines: list[dict[str, Any]] = [
        {"event": "start", "schema": 1},
        UNIT,
        failed,
        ERROR,
        {"event": "summary", "failed": 1, "warning": ""},
    ]
    answer = AnswerBook().answer(1, lines)
    assert answer == Answer(
        exit_status=1,
        lines=[
            {"event": "summary", "failed": 1},
            {"event": "unit", "unit": "gemm/one@gfx942", "outcome": "failed"},
            ERROR,
            {"event": "unit", "unit": "gemm/one@gfx942", "outcome": "built"},
        ],
    )


def read_on(book: AnswerBook, answer: Answer, document: Any) -> Any:
    """Fill what `answer` has cut into the `document` that it shows."""
    for cut in answer.cut:
        rest = book.more(cut.more)
        assert token_count(rest.text()) <= TOKEN_LIMIT
        steps = cut.at.split("/")[2:]
        holder: Any = {"whole": document}
        last: Any = "whole"
        for step in steps:
            holder, last = holder[last], step.replace("~1", "/")
            last = int(last) if isinstance(holder, list) else last
        shown = holder[last]
        if isinstance(shown, list):
            holder[last] = shown + rest.lines
        elif isinstance(shown, dict):
            holder[last] = shown | rest.lines[0]
        else:
            holder[last] = shown + rest.lines[0]
        document = read_on(book, rest, document) if steps else read_on(book, rest, holder["whole"])
    return document


@pytest.mark.parametrize(
    "lines",
    [
        [{"n": n, "text": "word " * 20} for n in range(500)],
        [{"kernels": [{"lines": [{"line": n, "path": "/w/k.hip.j2", "counts": [1, 2, 3]} for n in range(300)]}]}],
        [{"text": "; softmax: s_load_dwordx2\n" * 900}],
        [{"mnemonics": {f"v_add_{n}/x": "vector: D = A + B" for n in range(400)}, "name": "k"}],
        [{"deep": [[{"text": "x y " * 400, "n": [m]} for m in range(8)] for _ in range(3)]}],
    ],
    ids=["lines", "nested", "text", "table", "deep"],
)
def test_what_is_cut_can_be_read_on(lines: list[dict[str, Any]]) -> None:
    book = AnswerBook()
    answer = book.answer(0, lines)
    assert token_count(answer.text()) <= TOKEN_LIMIT
    assert answer.cut
    assert read_on(book, answer, answer.lines) == lines


@pytest.mark.parametrize(
    "wanted",
    ["", "1", "2:/lines@0", "1:/lines/7@0", "1:/lines/0/x@0", "1:/lines/0/n@0", "../1:/lines@0", "1:/lines/-1@0"],
)
def test_a_part_that_is_none(wanted: str) -> None:
    book = AnswerBook()
    book.answer(0, [{"n": 1}])
    with pytest.raises(CkwatchError, match="no answer has more under"):
        book.more(wanted)


def test_old_answers_are_forgotten() -> None:
    book = AnswerBook()
    for n in range(KEPT + 1):
        book.answer(0, [{"n": n}])
    assert book.more(f"{KEPT + 1}:/lines@0").lines == [{"n": KEPT}]
    with pytest.raises(CkwatchError):
        book.more("1:/lines@0")


def test_zero_and_false_are_not_empty() -> None:
    assert compact({"a": 0, "b": False, "c": None, "d": [], "e": {"f": ""}, "g": [None]}) == {
        "a": 0,
        "b": False,
        "g": [None],
    }
