"""Which files are watched, and how batches of changed paths become events of the engine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.core.events import MAIN, FilesChanged, WarningChanged
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.file_changes import RelevantChanges, TrackedPaths, relevant_changes
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.scan import changed_digests
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.watch import Batch, Watcher
from ckwatch.model.amounts import count
from ckwatch.model.delays import WATCH_UPDATE

log = logging.getLogger(__name__)


async def start_watching(
    tasks: TaskGroup, root: Path, loop: EngineLoop, tools: BuildTools, view_loader: ViewLoader
) -> None:
    """Watch what matters; once everything is watched, scan for what may have changed before."""
    settings = view_loader.workspaces[MAIN].settings.daemon
    reporter = ChangeReporter(root, loop, tools, view_loader)
    watcher = Watcher(reporter.deliver, reporter.problem, step_ms=settings.settle_ms, poll=settings.poll)
    changed = anyio.Event()

    async def follow() -> None:
        nonlocal changed
        followed: set[str] | None = None
        while True:
            changed = anyio.Event()
            folders, files = reporter.watched()
            watcher.follow(folders, files)
            await watcher.settled()
            if followed is None:
                await loop.post(FilesChanged({}, reload=True, complete=False, at=time.time()))
            else:
                await reporter.compare(set(files) - followed)
            followed = set(files)
            await changed.wait()
            await anyio.sleep(WATCH_UPDATE.seconds)

    loop.on_follow = lambda: changed.set()
    tasks.start_soon(watcher.run)
    tasks.start_soon(follow)


LOGGED_PATHS = 5
"""So many changed paths the log names."""


def describe_changes(paths: Collection[str], found: RelevantChanges, root: Path, *, complete: bool) -> str:
    """A line for the log: the files that changed, those that units depend on if there are any, and what follows."""
    meant = sorted(found.digests or paths)
    names = [_shown(path, root) + (" (gone)" if found.digests.get(path, "") is None else "") for path in meant]
    more = [f"and {len(names) - LOGGED_PATHS} more"] if len(names) > LOGGED_PATHS else []
    parts = [f"changed: {', '.join([*names[:LOGGED_PATHS], *more]) or 'unknown'}"]
    if others := len(paths) - len(meant):
        parts.append(f"{count(others, 'path')} that no unit has read")
    if found.reload:
        parts.append("the workspace is read again")
    if not complete:
        parts.append("all files are compared")
    return "; ".join(parts)


def _shown(path: str, root: Path) -> str:
    name = path.removeprefix(f"{root}{os.sep}")
    return name if name.isprintable() else ascii(name)


class ChangeReporter:
    """Turns batches of paths into events."""

    def __init__(self, root: Path, loop: EngineLoop, tools: BuildTools, view_loader: ViewLoader) -> None:
        self._root = root
        self._loop = loop
        self._tools = tools
        self._view_loader = view_loader
        self._interest: tuple[object, TrackedPaths] | None = None

    def watched(self) -> tuple[list[str], list[str]]:
        """The folders to be watched with everything in them, and the files wherever they are."""
        workspace = self._view_loader.workspaces[MAIN]
        root = str(self._root)
        inside = root.rstrip(os.sep) + os.sep
        folders = [root]
        named = (*workspace.template_folders, *workspace.settings.workspace.kernel_folders)
        folders += dict.fromkeys(str(folder) for folder in named if not str(folder).startswith(inside))
        graph = self._loop.state.graph
        return folders, [*graph.templates, *graph.headers, *workspace.files]

    async def deliver(self, batch: Batch) -> None:
        """A batch of the watcher."""
        store = self._tools.store
        if store is None:
            return
        interest = self._interest_now()
        found = await to_thread.run_sync(relevant_changes, batch.paths, interest, store.contents.digest)
        complete = found.complete and (batch.complete or not await self._differs(store))
        if found.digests or found.reload or not complete:
            log.info("%s", describe_changes(batch.paths, found, self._root, complete=complete))
            reload = found.reload or not complete
            await self._loop.post(FilesChanged(found.digests, reload=reload, complete=complete, at=time.time()))

    async def compare(self, files: set[str]) -> None:
        """Compare files that are watched from now on: they may have changed since they were read."""
        store = self._tools.store
        known, disputed = self._loop.state.graph.known_digests()
        new = {path: known[path] for path in files if path in known}
        if store is None or not new:
            return
        found = await to_thread.run_sync(changed_digests, new, disputed, store.contents.digests)
        if found:
            await self._loop.post(FilesChanged(found, at=time.time()))

    async def _differs(self, store: ArtifactStore) -> bool:
        """Return True if a file or the workspace differs from what was read."""
        known, _ = self._loop.state.graph.known_digests()
        changed = await to_thread.run_sync(changed_digests, known, (), store.contents.digests)
        return bool(changed) or await to_thread.run_sync(self._view_loader.is_outdated)

    def problem(self, message: str | None, hint: str | None) -> None:
        """Some folders cannot be watched, or can again."""
        text = None if message is None else f"{message}\n{hint}" if hint else message
        self._loop.post_soon(WarningChanged("watch", text, at=time.time()))

    def _interest_now(self) -> TrackedPaths:
        graph = self._loop.state.graph
        workspace = self._view_loader.workspaces.get(MAIN)
        key = (graph.version, id(workspace))
        if self._interest is None or self._interest[0] != key:
            tracked = frozenset((*graph.templates, *graph.headers))
            self._interest = (key, TrackedPaths.of(self._root, workspace, tracked))
        return self._interest[1]
