"""The SOL score, as the paper defines it."""

from __future__ import annotations

import pytest

from ckwatch.engine.queries.ranking import sol_score


@pytest.mark.parametrize(
    ("time_us", "baseline_us", "bound_us", "score"),
    [
        (100.0, 100.0, 50.0, 0.5),  # the baseline's own
        (50.0, 100.0, 50.0, 1.0),  # the bound
        (150.0, 100.0, 50.0, 1 / 3),  # twice as far from the bound as the baseline
        (75.0, 100.0, 50.0, 2 / 3),  # half of the gap is closed
        (49.0, 100.0, 50.0, None),  # faster than light
        (100.0, 50.0, 50.0, None),  # there is no gap
        (100.0, 40.0, 50.0, None),
        (100.0, 50.0, 0.0, None),  # no bound is known
    ],
)
def test_score(time_us: float, baseline_us: float, bound_us: float, score: float | None) -> None:
    found = sol_score(time_us, baseline_us, bound_us)
    assert found is None if score is None else found == pytest.approx(score)
