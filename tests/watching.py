"""A running watcher, and what it reported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ckwatch.engine.watch import Batch, WatchDelays, Watcher
from ckwatch.engine.watch.notify import Notify, watchfiles_process
from ckwatch.engine.watch.paths import RACY_NS
from ckwatch.engine.watch.watcher import suspended_s
from patience import PATIENCE_S

QUICK = WatchDelays(poll_s=0.05, check_s=0.1, new_folder_s=0.1, restart_s=0.05, retry_s=0.1)
"""For tests: the same, only quicker."""


class Reports:
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
        """All paths that were reported so far."""
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
        """Wait until all of these were reported."""
        wanted = {str(path) for path in paths}
        try:
            await self.until(lambda: wanted <= self.paths)
        except TimeoutError:
            missing = sorted(wanted - self.paths)
            raise AssertionError(f"not reported: {missing}; reported: {sorted(self.paths)[:50]}") from None

    async def nothing_before(self, marker: Path) -> None:
        """Save the marker and wait for it: what was not reported until then is not going to be."""
        marker.write_text("marker")  # noqa: ASYNC240  # a small file
        await self.saw(marker)

    async def follow(self, folders: Iterable[Path | str], files: Iterable[Path | str] = ()) -> None:
        """Follow and wait until it is watched. What a test has made just before is not reported."""
        await anyio.sleep(2 * RACY_NS / 1e9)
        self.watcher.follow([str(folder) for folder in folders], [str(file) for file in files])
        with anyio.fail_after(PATIENCE_S):
            await self.watcher.settled()


def ignore_problems(message: str | None, hint: str | None) -> None:
    """Take no notice of problems."""


@asynccontextmanager
async def watching(
    folders: Iterable[Path | str],
    files: Iterable[Path | str] = (),
    *,
    poll: bool = False,
    step_ms: int = 20,
    notify: Notify = watchfiles_process,
    delays: WatchDelays = QUICK,
    suspended_s: Callable[[], float] = suspended_s,
) -> AsyncIterator[Reports]:
    """A watcher that runs and has settled; stopped at the end."""
    reports = Reports()
    reports.watcher = Watcher(
        reports.deliver,
        reports.problem,
        step_ms=step_ms,
        poll=poll,
        notify=notify,
        delays=delays,
        suspended_s=suspended_s,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reports.watcher.run)
        await reports.follow(folders, files)
        yield reports
        tasks.cancel_scope.cancel()
