"""How far a build or a benchmark is, and how long the rest may take."""

from __future__ import annotations

import pytest

from ckwatch.cli.progress import amount


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "worked", "words"),
    [
        (0, 12, 5, 0, "0 of 12, 5 s"),
        (3, 12, 60, 3, "3 of 12, 1 min, about 3 min left"),
        (3, 12, 60, 1, "3 of 12, 1 min, about 9 min left"),
        (3, 12, 2, 0, "3 of 12, 2 s"),
        (12, 12, 60, 12, "12 of 12, 1 min"),
    ],
)
def test_what_came_from_the_store_tells_nothing_of_the_rest(
    done: int, total: int, elapsed_s: float, worked: int, words: str
) -> None:
    assert amount(done, total, elapsed_s, worked) == words
