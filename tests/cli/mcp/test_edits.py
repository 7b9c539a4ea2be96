"""Replacements in texts."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.cli.mcp.edits import Replacement, changed, difference
from ckwatch.model.errors import CkwatchError

TEXT = "int a;\nint bü;\nint a2;\n"


def place(line: int, column: int) -> dict[str, int]:
    return {"line": line, "column": column}


@pytest.mark.parametrize(
    ("replacements", "expected"),
    [
        ([{"old": "bü", "text": "c"}], "int a;\nint c;\nint a2;\n"),
        ([{"start": place(1, 4), "end": place(1, 6), "text": "c"}], "int a;\nint c;\nint a2;\n"),
        ([{"start": place(0, 0), "end": place(0, 0), "text": "// x\n"}], "// x\n" + TEXT),
        ([{"old": "a2", "text": "d"}, {"old": "int a;", "text": "float a;"}], "float a;\nint bü;\nint d;\n"),
        ([{"start": place(9, 9), "end": place(9, 9), "text": "end"}], TEXT + "end"),
    ],
)
def test_a_text_is_changed(replacements: list[dict[str, Any]], expected: str) -> None:
    assert changed(TEXT, [Replacement.model_validate(one) for one in replacements]) == expected


@pytest.mark.parametrize(
    ("replacements", "message"),
    [
        ([{"old": "int", "text": ""}], "stands there 3 times"),
        ([{"old": "float", "text": ""}], "stands there 0 times"),
        ([{"old": "", "text": "x"}], "is empty"),
        ([{"text": "x"}], "either `old`, or"),
        ([{"old": "a2", "start": place(0, 0), "end": place(0, 1), "text": "x"}], "either `old`, or"),
        ([{"old": "int a;", "text": "x"}, {"start": place(0, 4), "end": place(0, 5), "text": "y"}], "overlap"),
    ],
)
def test_a_replacement_that_is_none(replacements: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CkwatchError, match=message):
        changed(TEXT, [Replacement.model_validate(one) for one in replacements])


def test_the_difference_is_unified() -> None:
    assert difference("/w/a", "a\nb", "a\nc\n") == "--- /w/a\n+++ /w/a\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
