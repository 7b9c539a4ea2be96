"""How long a compile took."""

from __future__ import annotations

from ckwatch.compile.store.entries import CompilerCommand, wall_s
from helpers.each_row import each_row


@each_row(
    ("commands", "expected"),
    [
        ([], 0.0),
        ([(0.0, 2.0)], 2.0),
        ([(0.5, 2.0)], 2.0),
        ([(0.0, 2.0), (2.0, 1.0)], 3.0),
        ([(0.0, 2.0), (2.5, 1.0)], 3.5),
        ([(0.0, 5.0), (0.0, 3.0)], 5.0),
        ([(0.5, 5.0), (0.0, 3.0), (5.5, 1.0)], 6.5),
        ([(5.5, 1.0), (0.5, 5.0)], 6.0),
        ([(None, 2.0), (None, 1.0)], 3.0),
        ([(0.0, 2.0), (None, 1.0)], 3.0),
    ],
)
def test_wall_time(commands: list[tuple[float | None, float]], expected: float) -> None:
    rows = [CompilerCommand(("clang",), 0, duration_s, 0, begun_s) for begun_s, duration_s in commands]
    assert wall_s(rows) == expected
