"""What a watcher asks the daemon for."""

from __future__ import annotations

from typing import Any

from ckwatch.cli.live.board import Board, UnitFilter
from ckwatch.cli.live.feed import WatchFeed
from ckwatch.model.errors import CkwatchError
from helpers.changes import unit, workspace


class Client:
    """Compiles nothing, and notes what was asked."""

    def __init__(self, problem: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self._problem = problem

    async def rerun(self, *patterns: str) -> None:
        self.asked.append(patterns)
        if self._problem:
            raise CkwatchError(self._problem)


def feed_of(client: Client) -> WatchFeed:
    fake: Any = client
    return WatchFeed(fake, UnitFilter(), building=True)


def board_of(*changes: Any) -> Board:
    board = Board()
    for change in changes:
        board.note(change, 0.0)
    return board


async def test_a_rebuild_is_of_the_units_that_are_shown() -> None:
    client = Client()
    await feed_of(client).rebuild(board_of(workspace(), unit("k/b[1]@x"), unit("k/a@x", "done", "failed")))
    assert client.asked == [("k/a@x", "k/b[[]1]@x")]


async def test_units_at_work_are_not_begun_anew() -> None:
    client = Client()
    await feed_of(client).rebuild(board_of(workspace(), unit("k/a@x", "compiling")))
    assert client.asked == []


async def test_why_nothing_was_rebuilt_is_shown() -> None:
    feed = feed_of(Client("the compiler has gone"))
    await feed.rebuild(board_of(workspace(), unit("k/a@x")))
    assert feed.problem == "the compiler has gone"
