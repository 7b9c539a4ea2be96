"""Messages about lines that a text calls otherwise."""

from __future__ import annotations

import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.line_directives import without_line_directives

TEXT = 'int a;\n#line 1 "reduction"\nint b = c;\nint d;\n# 40 "other.h" 2\nint e;\n#line 1\nint f = g;\n'


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("kernel.hip:1:5", ("kernel.hip", 1)),
        ("reduction:1:9", ("kernel.hip", 3)),
        ("/work/reduction:2:5", ("kernel.hip", 4)),
        ("other.h:40:5", ("kernel.hip", 6)),
        ("other.h:1:9", ("kernel.hip", 8)),
        ("reduction:9:1", ("reduction", 9)),
        ("/opt/other2.h:1:1", ("/opt/other2.h", 1)),
    ],
)
def test_places(place: str, expected: tuple[str, int]) -> None:
    (found,) = without_line_directives(parse_clang_log(f"{place}: error: bad"), "kernel.hip", TEXT)
    assert found.position is not None
    assert (found.path, found.position.line) == expected


def test_of_two_lines_of_one_name_the_one_with_the_word() -> None:
    text = "int a;\nint b;\n#line 1\nint c = gone;\n"
    log = (
        "kernel.hip:1:9:{1:5-1:13}: error: use of undeclared identifier 'gone'\nkernel.hip:2:5: note: 'b' declared here"
    )
    (found,) = without_line_directives(parse_clang_log(log), "kernel.hip", text)
    assert found.position is not None
    assert (found.position.line, found.ranges[0].start.line) == (4, 4)
    assert [note.position and note.position.line for note in found.notes] == [2]
