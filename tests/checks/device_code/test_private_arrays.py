"""Accesses of a lane's arrays in a line, with the loops whose counters index them."""

from __future__ import annotations

import pytest

from ckwatch.checks.device_code.private_arrays import array_accesses, is_told_to_unroll, loops
from ckwatch.headers.masked_text import masked


def read(text: str) -> list[tuple[str, str, list[str], list[str]]]:
    """Name, index, counters and other names of the accesses in the line with the mark `//!`."""
    mark = text.index("//!")
    found = array_accesses(masked(text), text.rfind("\n", 0, mark) + 1, mark)
    return [(one.name, one.index, [loop.counter for loop in one.loops], list(one.others)) for one in found]


ROWS = {
    "float a[4];\nfor (int i = 0; i < 4; ++i)\n  a[i] = 0;//!": [("a", "i", ["i"], [])],
    "float a[4], b[8];\nfor (int i = 0; i < 4; ++i) {\n  b[i + k] = 0;//!\n}": [("b", "i + k", ["i"], ["k"])],
    "int n[2][3];\nfor (int i = 0; i < 2; ++i) for (int j = 0; j < 3; ++j)\n  n[i][j] = 0;//!": [
        ("n", "i, j", ["i", "j"], [])
    ],
    "float a[4];\nfor (int i = 0; i < 4; ++i) a[i] = 0;\nx = a[k & 3];//!": [("a", "k & 3", [], ["k"])],
    "float a[4];\nx = a[f(2)];//!": [("a", "f(2)", [], [])],
    "__shared__ float a[4];\na[k] = 0;//!": [],
    "void f(float* a) {\na[k] = 0;//!": [],
    "float a[4];\nb.a[k] = 0; p[k] = 1;//!": [],
    "float a[4];\na[k = 0;//!": [],
}


@pytest.mark.parametrize(("text", "accesses"), ROWS.items())
def test_accesses_of_a_line(text: str, accesses: list[tuple[str, str, list[str], list[str]]]) -> None:
    assert read(text) == accesses


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", False),
        ("#pragma unroll", True),
        ("#pragma clang loop unroll(disable)", True),
        ("#pragma nounroll\n", True),
        ("x = 1;", False),
    ],
)
def test_a_directive_before_a_loop_counts(before: str, told: bool) -> None:
    text = f"{before}\n  for (int i = 0; i < 4; ++i) x();\n"
    (loop,) = loops(masked(text), 0, len(text))

    assert is_told_to_unroll(text, loop) is told
