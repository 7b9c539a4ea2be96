"""Time that counts towards the limits of a process, and when they are exceeded."""

from __future__ import annotations

import pytest

from ckwatch.system.time_limits import LONGEST_PAUSE_S, SHORTEST_PAUSE_S, GroupUsage, Overrun, TimeLimits

Sample = tuple[float, float, bool]
"""When, the processor time so far, and whether a process is ready to run."""


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        pytest.param([(50, 50, True), (101, 101, True)], Overrun.PROCESSOR, id="busy all the time"),
        pytest.param([(20, 101, True)], Overrun.PROCESSOR, id="several processes at once"),
        pytest.param([(900, 20, True), (9000, 99, True)], None, id="a good compile on a loaded machine"),
        pytest.param([(100, 0, True), (1000, 0, True)], None, id="others have the processor"),
        pytest.param([(10, 5, False), (60, 5, False)], Overrun.STALLED, id="waits for a disk that is gone"),
        pytest.param([(10, 5, False), (59, 5, False)], None, id="waits for a disk that is slow"),
        pytest.param([(10, 0.01, False), (60, 0.02, False)], Overrun.STALLED, id="looks every second for what never comes"),
        pytest.param([(49, 1, False), (98, 2, False), (147, 3, False)], None, id="reads and works"),
        pytest.param([(10, 90, True), (20, 30, False), (30, 100, True)], Overrun.PROCESSOR, id="a child goes with its time"),
    ],
)  # fmt: skip
def test_verdicts(samples: list[Sample], verdict: Overrun | None) -> None:
    limits = TimeLimits(processor_s=100, stalled_s=50, now_s=0)
    verdicts = [limits.overrun(GroupUsage(used_s, ready), now_s) for now_s, used_s, ready in samples]
    assert verdicts[-1] is verdict
    assert set(verdicts[:-1]) <= {None}


@pytest.mark.parametrize(
    ("processor_s", "stalled_s", "pause_s"), [(600, 600, LONGEST_PAUSE_S), (100, 50, 0.5), (1, 600, SHORTEST_PAUSE_S)]
)
def test_short_limits_are_looked_at_often(processor_s: float, stalled_s: float, pause_s: float) -> None:
    assert TimeLimits(processor_s, stalled_s, 0).pause_s == pause_s
