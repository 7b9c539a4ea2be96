"""Which files are watched, which changed paths matter, and how batches of them become events of the engine."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.core.events import MAIN, FilesChanged, WarningChanged
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.scan import changed_digests
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.watch import Batch, Watcher
from ckwatch.model.amounts import count
from ckwatch.model.delays import COMPILER_LOOK, WATCH_UPDATE
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.kernel_globs import compile_glob, is_skipped
from ckwatch.workspace.loading import Workspace

Digest = Callable[[str], str | None]
"""`ContentHashes.digest`."""


@dataclass(frozen=True, slots=True)
class TrackedPaths:
    """The paths that matter: files with known readers, the workspace's own, where kernels and templates lie."""

    kernel_folders: tuple[str, ...]
    tracked: Collection[str]
    files: frozenset[str]
    kernel_patterns: tuple[re.Pattern[str], ...]
    template_folders: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, workspace: Workspace | None, tracked: Collection[str]) -> TrackedPaths:
        """Return the paths that matter to `workspace`; only its `ckwatch.toml` while it could not be read."""
        if workspace is None:
            return cls((), tracked, frozenset({str(root / FILE_NAME)}), (), (str(root),))
        patterns = tuple(compile_glob(pattern) for pattern in workspace.settings.workspace.kernels)
        folders = tuple(str(folder) for folder in workspace.template_folders)
        searched = tuple(map(str, (root, *workspace.settings.workspace.kernel_folders)))
        files = frozenset({*workspace.files, str(root / FILE_NAME)})
        return cls(searched, tracked, files, patterns, folders)


@dataclass(frozen=True, slots=True)
class RelevantChanges:
    """As in `FilesChanged`."""

    digests: Mapping[str, str | None]
    reload: bool
    complete: bool


def relevant_changes(paths: Iterable[str], interest: TrackedPaths, digest: Digest) -> RelevantChanges:
    """Return the meaning of changed paths. A folder that came or went may hide any number of files: then everything is
    scanned."""
    digests: dict[str, str | None] = {}
    reload, complete = False, True
    for path in paths:
        if path in interest.tracked:
            found = digest(path)
            digests[path] = found
            reload = reload or found is None
        if path in interest.files or _may_be_kernel(path, interest) or _may_be_template(path, interest):
            reload = True
        elif path not in interest.tracked and _is_or_was_folder(path, interest):
            reload, complete = True, False
    return RelevantChanges(digests, reload, complete)


def _may_be_kernel(path: str, interest: TrackedPaths) -> bool:
    for folder in interest.kernel_folders:
        prefix = folder.rstrip(os.sep) + os.sep
        name = path.removeprefix(prefix)
        if name == path or any(is_skipped(part) for part in name.split("/")[:-1]):
            continue
        if any(pattern.fullmatch(name) for pattern in interest.kernel_patterns):
            return True
    return False


def _may_be_template(path: str, interest: TrackedPaths) -> bool:
    """A template that was not read yet may be one that a kernel file names."""
    return (
        path not in interest.tracked
        and path.endswith(".j2")
        and any(path.startswith(folder + os.sep) for folder in interest.template_folders)
    )


def _is_or_was_folder(path: str, interest: TrackedPaths) -> bool:
    if os.path.isdir(path):  # noqa: PTH112  # Path.is_dir raises where a name is too long
        return True
    if os.path.lexists(path):
        return False
    below = path + os.sep
    watched: Sequence[Collection[str]] = (interest.files, interest.tracked, interest.template_folders)
    return any(one.startswith(below) or one == path for group in watched for one in group)


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
        followed: frozenset[str] | None = None
        while True:
            changed = anyio.Event()
            folders, files = reporter.watched()
            watched = frozenset({*files})
            watcher.follow(folders, watched)
            await watcher.settled()
            if followed is None:
                await loop.post(FilesChanged({}, reload=True, complete=False))
            else:
                await reporter.compare(watched - followed)
            followed = watched
            await changed.wait()
            await anyio.sleep(WATCH_UPDATE.seconds)

    async def look_at_compilers() -> None:
        """Read the workspace again when another compiler would be found: their files are too many to be watched."""
        while True:
            await anyio.sleep(COMPILER_LOOK.seconds)
            if await to_thread.run_sync(view_loader.has_other_toolchains):
                await loop.post(FilesChanged({}, reload=True))

    loop.on_follow = lambda: changed.set()
    tasks.start_soon(look_at_compilers)
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
            await self._loop.post(FilesChanged(found.digests, reload=reload, complete=complete))

    async def compare(self, files: AbstractSet[str]) -> None:
        """Compare files that are watched from now on: they may have changed since they were read."""
        store = self._tools.store
        known, disputed = self._loop.state.graph.known_digests()
        new = {path: known[path] for path in files if path in known}
        if store is None or not new:
            return
        found = await to_thread.run_sync(changed_digests, new, disputed, store.contents.digests)
        if found:
            await self._loop.post(FilesChanged(found))

    async def _differs(self, store: ArtifactStore) -> bool:
        """Return True if a file or the workspace differs from what was read."""
        known, _ = self._loop.state.graph.known_digests()
        changed = await to_thread.run_sync(changed_digests, known, (), store.contents.digests)
        return bool(changed) or await to_thread.run_sync(self._view_loader.is_outdated)

    def problem(self, message: str | None, hint: str | None) -> None:
        """Some folders cannot be watched, or can again."""
        text = None if message is None else f"{message}\n{hint}" if hint else message
        self._loop.post_soon(WarningChanged("watch", text))

    def _interest_now(self) -> TrackedPaths:
        graph = self._loop.state.graph
        workspace = self._view_loader.workspaces.get(MAIN)
        key = (graph.version, id(workspace))
        if self._interest is None or self._interest[0] != key:
            tracked = frozenset({*graph.templates, *graph.headers})
            self._interest = (key, TrackedPaths.of(self._root, workspace, tracked))
        return self._interest[1]
