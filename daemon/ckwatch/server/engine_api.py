"""The engine as the server sees it; tests replace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ckwatch.questions.table import Answers
from ckwatch.wire.state import Change, Status


class Engine(Protocol):
    """A running daemon without its socket. `scope` is the view of a client, or `core.events.MAIN`.

    `answers` are functions for all endpoints but those that the server answers by itself. All are called on the event
    loop and raise CkwatchError for what a user did wrong (unknown unit: its subclass UnknownUnitError, which is
    answered by 404).
    """

    @property
    def answers(self) -> Answers: ...

    async def status(self) -> Status: ...

    async def changes(self, scope: str, after: int, *, rows: bool = False) -> Sequence[Change]:
        """The next topics that changed after `after`, in order, units as `rows` or whole; waits until there is one.

        Each comes once, with the state that it had then or a newer one; what changes later comes again. A lone `reset`
        when `after` is not a number that this daemon gave out or is too old. Followers that are given the same object
        are sent the same bytes: it never changes.
        """
        ...

    async def forget(self, client: str) -> None:
        """The client has gone."""
        ...
