"""What the server needs of the daemon behind it; `ckwatch.runtime` is it, tests pass another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ckwatch.events import Options
from ckwatch.wire.messages import (
    Artifact,
    BuildLine,
    RenderedText,
    Run,
    Status,
    TimeTrace,
    UnitDetail,
    WorkspaceDetail,
)
from ckwatch.wire.values import Change, File, Snapshot, Unit


class Engine(Protocol):
    """A running daemon without its socket. `client` None means the workspace as it is on disk.

    All methods are called on the event loop and raise CkwatchError for what a user did wrong (unknown unit: its
    subclass UnknownUnitError, which is answered by 404).
    """

    async def status(self) -> Status: ...
    async def snapshot(self, client: str | None) -> Snapshot: ...

    async def changes(self, client: str | None, after: int) -> list[Change]:
        """All topics that changed after `after`, each once with its present state, in order; waits until there is one.

        A lone `reset` when `after` is not a number that this daemon gave out or is too old.
        """
        ...

    async def units(self, client: str | None, patterns: Sequence[str] | None) -> list[Unit]: ...
    async def unit(self, client: str | None, unit: str) -> UnitDetail: ...
    async def rendered(self, client: str | None, unit: str, *, with_map: bool) -> RenderedText: ...
    async def artifact(self, client: str | None, unit: str) -> Artifact | None: ...
    async def runs(self, unit: str, limit: int) -> list[Run]: ...
    async def workspace(self, client: str | None) -> WorkspaceDetail: ...
    async def runner(self, client: str | None, unit: str, path: str) -> None:
        """Write a standalone program for a unit that was built to `path`."""
        ...

    async def time_trace(self, client: str | None, unit: str, path: str | None) -> TimeTrace:
        """Compile a unit to see where its time goes; `path` is a file for clang's traces. Cancelling ends compilers."""
        ...

    async def file(self, client: str | None, path: str) -> File: ...

    def build(
        self, client: str | None, patterns: Sequence[str] | None, *, force: bool, check_only: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[BuildLine]]:
        """The lines of a build; leaving the context before `done` gives up what nobody else wants."""
        ...

    async def cancel(self, client: str | None, patterns: Sequence[str] | None) -> list[str]: ...
    async def overlay(self, client: str, path: str, text: str | None) -> None: ...
    async def focus(self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool) -> None: ...
    async def view(self, client: str, options: Options) -> None: ...
    async def forget(self, client: str) -> None:
        """The client has gone."""
        ...

    async def log(self, lines: int) -> str: ...
    def stop(self) -> None:
        """End the daemon soon; returns at once."""
        ...
