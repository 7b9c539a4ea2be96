"""The order of changes: each topic once, at its latest."""

from __future__ import annotations

import anyio

from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.model.topics import Topic
from fakes.patience import PATIENCE_S


def topics(feed: ChangeFeed, scope: str, after: int, limit: int = 100) -> list[str]:
    return [topic for _, topic in feed.after(scope, after, limit)]


def test_a_topic_stands_at_its_latest_change() -> None:
    feed = ChangeFeed()
    start = feed.seq
    for topic in ("a", "b", "a", "c"):
        feed.mark("", Topic(topic))
    assert topics(feed, "", start) == ["b", "a", "c"]
    assert topics(feed, "", start + 3) == ["c"]
    assert topics(feed, "", feed.seq) == []
    assert feed.after("", start, 2)[-1] == (start + 3, "a")
    assert feed.last("", Topic("a")) == start + 3


def test_a_client_sees_its_own_changes_among_those_of_the_workspace() -> None:
    feed = ChangeFeed()
    start = feed.seq
    feed.mark("", Topic("a"))
    feed.mark("ann", Topic("a"))
    feed.mark("ben", Topic("b"))
    feed.mark("", Topic("c"))
    assert topics(feed, "ann", start) == ["a", "c"]
    assert topics(feed, "", start) == ["a", "c"]
    assert topics(feed, "ben", start) == ["a", "b", "c"]
    feed.forget("ben")
    assert topics(feed, "ben", start) == ["a", "c"]


def test_what_came_later_than_a_number_is_left_out() -> None:
    feed = ChangeFeed()
    start = feed.seq
    for scope, topic in (("", "a"), ("ann", "b"), ("", "c"), ("", "a"), ("ann", "c")):
        feed.mark(scope, Topic(topic))
    assert feed.after("", start, 10, start + 3) == [(start + 3, "c")]
    assert feed.after("", start, 10, start + 4) == [(start + 3, "c"), (start + 4, "a")]
    assert feed.after("ann", start, 10, start + 4) == [(start + 2, "b"), (start + 4, "a")]
    assert feed.after("ann", start, 10) == [(start + 2, "b"), (start + 4, "a"), (start + 5, "c")]
    assert feed.has("ann")
    assert not feed.has("ben")


def test_topics_that_change_all_the_time_stand_in_it_once() -> None:
    feed = ChangeFeed()
    start = feed.seq
    for number in range(10_000):
        feed.mark("", Topic(f"unit/{number % 7}"))
        if number % 100 == 0:
            assert feed.after("", feed.seq - 3, 10)[-1][0] == feed.seq
    assert [at for at, _ in feed.after("", start, 10)] == list(range(feed.seq - 6, feed.seq + 1))


def test_numbers_of_other_daemons_are_not_known() -> None:
    old = ChangeFeed(clock=lambda: 1000.0)
    old.mark("", Topic("a"))
    new = ChangeFeed(clock=lambda: 1001.0)
    assert not new.is_known(old.seq)
    assert not new.is_known(new.seq + 1)
    assert new.is_known(new.seq)


def test_what_was_forgotten_is_not_known() -> None:
    feed = ChangeFeed(topics_kept=10)
    start = feed.seq
    for number in range(11):
        feed.mark("", Topic(f"unit/{number}"))
    assert not feed.is_known(start)
    assert feed.is_known(start + 5)
    assert len(topics(feed, "", start + 5)) == 6


async def test_waiting_ends_with_the_next_change() -> None:
    feed = ChangeFeed()
    start = feed.seq
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(feed.wait, start)
            await anyio.wait_all_tasks_blocked()
            feed.mark("", Topic("a"))
        await feed.wait(start)
