"""When a gathering is reported: rows of (time, what happens) against the time at which it is due."""

from __future__ import annotations

import pytest

from ckwatch.engine.watch.batch import LARGE_BATCH, PATHS_LIMIT, SEVERAL_PATHS, Batch, PendingChanges

STEP_S = 0.02


def many(count: int, start: int = 0) -> set[str]:
    return {f"/w/{number}" for number in range(start, start + count)}


@pytest.mark.parametrize(
    ("additions", "due_s"),
    [
        ([(1.0, {"/w/a"})], 1.02),
        ([(1.0, {"/w/a"}), (1.01, {"/w/a"})], 1.03),
        ([(1.0, {"/w/a"}), (1.01, set())], 1.02),
        ([(1.0 + i / 100, {"/w/a"}) for i in range(20)], 1.1),
        ([(1.0, many(LARGE_BATCH))], 1.02),
        ([(1.0, many(LARGE_BATCH + 1))], 1.15),
        ([(1.0, many(LARGE_BATCH)), (1.01, {"/w/a"})], 1.16),
        ([(1.0 + i / 10, many(LARGE_BATCH, i * LARGE_BATCH)) for i in range(30)], 3.0),
    ],
    ids=["one", "again", "nobody's", "never quiet", "just small", "large", "becomes large", "large without end"],
)
def test_due(additions: list[tuple[float, set[str]]], due_s: float) -> None:
    gathering = PendingChanges(STEP_S)
    for now_s, paths in additions:
        gathering.add(paths, now_s)
    assert gathering.due_s() == pytest.approx(due_s)


def test_a_change_of_some_time_ago_has_been_quiet_for_so_long() -> None:
    gathering = PendingChanges(STEP_S)
    gathering.add({"/w/a"}, 1.0)
    gathering.add({"/w/b"}, 0.95)
    assert gathering.due_s() == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("reported", "next_s", "due_s"),
    [(SEVERAL_PATHS, 1.3, 1.45), (SEVERAL_PATHS - 1, 1.3, 1.32), (SEVERAL_PATHS, 9.0, 9.02)],
    ids=["goes on", "another save", "long after"],
)
def test_a_checkout_that_paused(reported: int, next_s: float, due_s: float) -> None:
    gathering = PendingChanges(STEP_S)
    gathering.add(many(reported), 1.0)
    gathering.take(1.02)
    gathering.add({"/w/next"}, next_s)
    assert gathering.due_s() == pytest.approx(due_s)


def test_take_begins_anew() -> None:
    gathering = PendingChanges(STEP_S)
    gathering.add({"/w/a"}, 1.0)
    gathering.add({"/w/b"}, 1.0, lost=True)
    assert gathering.take(2.0) == Batch(frozenset({"/w/a", "/w/b"}), complete=False)
    assert not gathering
    gathering.add({"/w/c"}, 9.0)
    assert gathering.due_s() == pytest.approx(9.02)
    assert gathering.take(2.0) == Batch(frozenset({"/w/c"}))


def test_memory_is_bounded() -> None:
    gathering = PendingChanges(STEP_S)
    for start in range(0, 4 * PATHS_LIMIT, 1000):
        gathering.add(many(1000, start), 1.0)
        assert len(gathering.paths) <= PATHS_LIMIT
    assert not gathering.take(2.0).complete
