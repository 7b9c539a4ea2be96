"""Pages of changes: who shares them, and that all come to the same end."""

from __future__ import annotations

import random

import anyio
import anyio.lowlevel
import pytest

from ckwatch.core.events import MAIN
from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.engine.queries.changes import PAGES_KEPT, TOPICS_AT_ONCE, USUAL_PACING, ChangePacing, ChangePages
from ckwatch.model.topics import Topic
from ckwatch.wire.state import Change, Unit
from fakes.fake_engine import unit_of


class World:
    """Topics with a number each; removed ones have none. `made` counts the states that were made."""

    def __init__(self, pacing: ChangePacing = USUAL_PACING) -> None:
        self.feed = ChangeFeed()
        self.start = self.feed.seq
        self.views: set[str] = set()
        self.pages = ChangePages(self.feed, self.views, self._state_of, pacing)
        self.numbers: dict[tuple[str, str], int] = {}
        self.made = 0

    def change(self, topic: str, number: int | None, scope: str = MAIN) -> None:
        """The topic has this number now."""
        if number is None:
            self.numbers.pop((scope, topic), None)
        else:
            self.numbers[scope, topic] = number
        self.feed.mark(scope, Topic(topic))

    async def _state_of(self, scope: str, topic: str) -> Unit | None:
        self.made += 1
        await anyio.lowlevel.checkpoint()
        number = self.numbers.get((scope, topic), self.numbers.get((MAIN, topic)))
        return None if number is None else unit_of(generation=number)


class Follower:
    """Sees the topics of a world, by their numbers."""

    def __init__(self, world: World, client: str = MAIN) -> None:
        self._world = world
        self._client = client
        self.at = world.start
        self.seen: dict[str, int] = {}

    async def turn(self) -> tuple[Change, ...]:
        """Take the next changes."""
        found = await self._world.pages.after(self._client, self.at)
        assert len(found) <= TOPICS_AT_ONCE
        assert [change.seq for change in found] == sorted(change.seq for change in found)
        assert found[0].seq > self.at
        self.at = found[-1].seq
        for change in found:
            if isinstance(change.state, Unit):
                self.seen[change.topic] = change.state.generation
            else:
                self.seen.pop(change.topic, None)
        return found

    async def until(self, numbers: dict[str, int]) -> None:
        """Follow until this is seen."""
        while self.seen != numbers:
            await self.turn()


async def test_all_who_see_the_workspace_share_a_page() -> None:
    world = World()
    followers = [Follower(world), *(Follower(world, f"c{number}") for number in range(9))]
    for number in range(5):
        world.change(f"unit/{number}", number)
    pages = []

    async def turn(follower: Follower) -> None:
        pages.append(await follower.turn())

    async with anyio.create_task_group() as tasks:
        for follower in followers:
            tasks.start_soon(turn, follower)
    assert len(pages) == 10
    assert all(page is pages[0] for page in pages)
    assert world.made == 5


async def test_a_client_with_a_view_of_its_own_has_pages_of_its_own() -> None:
    world = World()
    world.change("unit/a", 1)
    world.views.add("ann")
    world.change("unit/a", 2, "ann")
    world.change("unit/b", 3)
    ann, ben = Follower(world, "ann"), Follower(world, "ben")
    await ann.until({"unit/a": 2, "unit/b": 3})
    await ben.until({"unit/a": 1, "unit/b": 3})
    # The view ends: what differed is told once more, as the workspace has it.
    world.views.discard("ann")
    world.change("unit/a", None, "ann")
    await ann.until({"unit/a": 1, "unit/b": 3})


async def test_changes_of_other_views_wake_nobody_for_nothing() -> None:
    world = World()
    ben = Follower(world, "ben")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ben.until, {"unit/b": 2})
        for number in range(3):
            await anyio.wait_all_tasks_blocked()
            world.change("unit/a", number, "ann")
        world.change("unit/b", 2)
    assert ben.seen == {"unit/b": 2}


async def test_what_changes_while_it_waits_goes_in_its_newest_state() -> None:
    world = World()
    follower = Follower(world)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.turn)
        await anyio.wait_all_tasks_blocked()
        for number in range(100):
            world.change("unit/a", number)
    assert follower.seen == {"unit/a": 99}
    assert world.made == 1


async def test_the_one_who_waits_for_all_may_go() -> None:
    world = World()
    first, second = Follower(world, "first"), Follower(world, "second")
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(first.turn)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(second.until, {"unit/a": 1})
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        world.change("unit/a", 1)
    assert (first.seen, second.seen) == ({}, {"unit/a": 1})
    await first.until({"unit/a": 1})


@pytest.mark.parametrize("number", [0, 1 << 60])
async def test_a_reset_for_a_number_that_is_not_known(number: int) -> None:
    world = World()
    found = await world.pages.after("ann", number)
    assert found == (Change(seq=world.start, topic=Topic("reset")),)


async def test_a_follower_that_is_far_behind_sees_the_present_states() -> None:
    world = World()
    slow, quick = Follower(world), Follower(world)
    for turn in range(2 * PAGES_KEPT):
        world.change(f"unit/{turn % 3}", turn)
        await quick.turn()
    world.made = 0
    page = await slow.turn()
    assert slow.seen == quick.seen
    assert len(page) == world.made == 3


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_all_see_the_final_states(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    world = World(ChangePacing(topics_at_once=7, pause_s=0.0001, longest_pause_s=0.001))
    world.views.add("ann")
    followers = {client: Follower(world, client) for client in ("ann", "ben", "eve", MAIN)}
    topics = [f"unit/{number}" for number in range(30)]

    def final(client: str) -> dict[str, int]:
        found = {topic: number for (scope, topic), number in world.numbers.items() if scope == MAIN}
        return found | {topic: number for (scope, topic), number in world.numbers.items() if scope == client}

    async def follow(follower: Follower) -> None:
        while True:
            await follower.turn()
            for _ in range(chance.randrange(10)):
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for follower in followers.values():
            tasks.start_soon(follow, follower)
        for number in range(500):
            scope = "ann" if chance.random() < 0.1 else MAIN
            world.change(chance.choice(topics), None if chance.random() < 0.2 else number, scope)
            if chance.random() < 0.2:
                await anyio.sleep(chance.random() / 1000)
        tasks.cancel_scope.cancel()
    world.change("unit/last", 1)
    for client, follower in followers.items():
        await follower.until(final(client))
