"""A running watcher, and what it reported.

As an incomplete batch asks for, everything is then compared with what was there before.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio

from ckwatch.engine.watch import Batch, WatchDelays, Watcher
from ckwatch.engine.watch.batch import is_temporary
from ckwatch.engine.watch.notify import Notify, watchfiles_process
from ckwatch.engine.watch.watcher import suspended_s
from ckwatch.workspace.kernel_globs import is_skipped
from fakes.patience import PATIENCE_S

TICK_S = 0.01
"""Two writes within so much time may leave the same time stamp, which the kernel takes from a clock that ticks."""

QUICK = WatchDelays(poll_s=0.05, check_s=0.1, new_folder_s=0.1, restart_s=0.05, retry_s=0.1)
"""For tests: the same, only quicker."""


Stamp = tuple[int, int, int]


def stamps(folders: Iterable[str], files: Iterable[str]) -> dict[str, Stamp]:
    """Return the state of the watched names, as `stat` tells it apart; of folders only their identity."""
    found: dict[str, Stamp] = {}
    places = [*files, *folders]
    for folder in folders:
        for place, inside, names in os.walk(folder, followlinks=True):
            # each folder once on its way: links may lead up
            inside[:] = [name for name in inside if not is_skipped(name) and len(place) < len(folder) + 100]
            places += [os.path.join(place, name) for name in (*inside, *names) if not is_temporary(name)]  # noqa: PTH118
    for path in places:
        with suppress(OSError):
            status = Path(path).stat()
            is_folder = stat.S_ISDIR(status.st_mode)
            found[path] = (status.st_ino, *((0, 0) if is_folder else (status.st_ctime_ns, status.st_size)))
    return found


class Reports:
    """Collects batches; waits for what is expected to be in them."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.problems: list[tuple[str | None, str | None]] = []
        self.watcher: Watcher
        self._news = anyio.Event()
        self._places: tuple[list[str], list[str]] = ([], [])
        self._there: dict[str, Stamp] = {}

    async def deliver(self, batch: Batch) -> None:
        """Record a batch; the watcher calls this."""
        there = stamps(*self._places)
        if not batch.complete:
            differ = {path for path in self._there.keys() | there.keys() if self._there.get(path) != there.get(path)}
            batch = replace(batch, paths=batch.paths | differ)
        for path in batch.paths:
            self._there.pop(path, None)
            self._there.update({path: there[path]} if path in there else {})
        if batch.paths:
            self.batches.append(batch)
            self._ring()

    def problem(self, message: str | None, hint: str | None) -> None:
        """Record a problem; the watcher calls this."""
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
        await anyio.sleep(2 * TICK_S)
        self._places = [str(folder) for folder in folders], [str(file) for file in files]
        self._there = stamps(*self._places)
        self.watcher.follow(*self._places)
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
