"""Places in texts."""

from __future__ import annotations

from ckwatch.model.text import LineIndex, Position


def test_equal_positions_of_different_texts_are_one() -> None:
    first, second = LineIndex("a = 1\nb = 2\n"), LineIndex("x = 3\ny = 4\n")
    assert first.position(8) == Position(1, 2)
    assert first.position(8) is second.position(8)
