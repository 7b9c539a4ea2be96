"""A running watcher, and what it told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ckwatch.engine.watch import Batch, Watcher, WatcherKind, make_watcher
from ckwatch.engine.watch.inotify import Inotify
from patience import PATIENCE_S


class Told:
    """Collects batches; waits for what is expected to be in them."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.problems: list[tuple[str | None, str | None]] = []
        self.watcher: Watcher
        self._news = anyio.Event()

    async def deliver(self, batch: Batch) -> None:
        """What the watcher calls for each batch."""
        self.batches.append(batch)
        self._ring()

    def problem(self, message: str | None, hint: str | None) -> None:
        """What the watcher calls for each problem."""
        self.problems.append((message, hint))
        self._ring()

    def _ring(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    @property
    def paths(self) -> set[str]:
        """All paths that were told so far."""
        return {path for batch in self.batches for path in batch.paths}

    def times(self, path: Path | str) -> int:
        """In how many batches the path was."""
        return sum(str(path) in batch.paths for batch in self.batches)

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for news until the condition is met."""
        with anyio.fail_after(PATIENCE_S):
            while not met():
                await self._news.wait()

    async def saw(self, *paths: Path | str) -> None:
        """Wait until all of these were told."""
        wanted = {str(path) for path in paths}
        try:
            await self.until(lambda: wanted <= self.paths)
        except TimeoutError:
            raise AssertionError(f"not told: {sorted(wanted - self.paths)}; told: {sorted(self.paths)[:50]}") from None

    async def nothing_before(self, marker: Path) -> None:
        """Save the marker and wait for it: what was not told until then is not going to be."""
        marker.write_text("marker")  # noqa: ASYNC240  # a small file
        await self.saw(marker)

    async def follow(self, folders: Iterable[Path | str], files: Iterable[Path | str] = ()) -> None:
        """Follow and wait until it is watched."""
        self.watcher.follow([str(folder) for folder in folders], [str(file) for file in files])
        with anyio.fail_after(PATIENCE_S):
            await self.watcher.settled()


def unconcerned(message: str | None, hint: str | None) -> None:
    """Take no notice of problems."""


@asynccontextmanager
async def watching(
    folders: Iterable[Path | str],
    files: Iterable[Path | str] = (),
    *,
    poll: bool = False,
    step_ms: int = 20,
    kind: WatcherKind = "inotify",
    make_inotify: Callable[[], Inotify] | None = None,
) -> AsyncIterator[Told]:
    """A watcher that runs and has settled; stopped at the end."""
    told = Told()
    if make_inotify is not None:
        told.watcher = Watcher(told.deliver, told.problem, poll=poll, step_ms=step_ms, make_inotify=make_inotify)
    else:
        told.watcher = make_watcher(kind, told.deliver, told.problem, poll=poll, step_ms=step_ms)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(told.watcher.run)
        await told.follow(folders, files)
        yield told
        tasks.cancel_scope.cancel()
