"""Opens a daemon without its socket: everything in order, and closes it in the opposite one."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.toolchain.discover import discover
from ckwatch.core.events import MAIN, FilesChanged, ViewOverrides, WarningChanged
from ckwatch.core.state import State
from ckwatch.engine.background_pch import BackgroundPch
from ckwatch.engine.build_tools import BuildTools, FindToolchain
from ckwatch.engine.daemon_api import DaemonApi
from ckwatch.engine.file_changes import TrackedPaths, changed_digests, relevant_changes
from ckwatch.engine.handlers.analyze import ArtifactAnalyzer, ReportCache
from ckwatch.engine.handlers.compile import WorkHandlers
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.measure import MeasureRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.restore import remembered_figures, remembered_timings
from ckwatch.engine.watch import Batch, make_watcher
from ckwatch.model.errors import plain_errors
from ckwatch.model.garbage_collection import collect_when_idle, young_only
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.wire.endpoint import endpoint_of
from ckwatch.workspace.trust import require_trusted

HISTORY_FILE_NAME = "history.sqlite"


log = logging.getLogger(__name__)

WATCH_UPDATE_S = 0.25
"""The set of watched files is brought up to date at most so often."""

RENDERS_AHEAD = 1
"""Renders that are begun beyond those that workers are at: what comes before and after a render need not wait."""

UNITS_AT_ONCE = 20
"""What a step does to so many units, and telling of it, takes a millisecond or two; thrice as long beside a load."""

STORE_CLEANUP_S = 600.0
"""How often the store is kept within its size."""


@asynccontextmanager
async def open_engine(
    root: Path,
    *,
    environment: Mapping[str, str] = os.environ,
    log_file: Path | None = None,
    launch: Launcher = run_process,
    find_toolchain: FindToolchain = discover,
    history: Path | None = None,
) -> AsyncIterator[DaemonApi]:
    """The daemon for the workspace in the folder `root`, at work until the context is left.

    Raises UntrustedError for a workspace whose code may not run here, and CkwatchError when there is no `ckwatch.toml`.
    Whoever opens an engine comes through here: a daemon, a command with `--no-daemon`, a script. `launch` starts
    compilers, `find_toolchain` finds them; tests pass others.
    """
    await to_thread.run_sync(require_trusted, root)
    with young_only():
        renders = max(1, min(4, len(os.sched_getaffinity(0)) // 2))
        tools = BuildTools(environment, renders, launch, find_toolchain)
        memoirs = HistoryRecorder(history or database_path(root, environment))
        state = State(renders=renders + RENDERS_AHEAD, units_at_once=UNITS_AT_ONCE, root=str(root))
        runtime = EngineLoop(state, lambda post: WorkHandlers(root, tools, post), memoirs.record)
        try:
            loads = runtime.workshop.loads
            await to_thread.run_sync(partial(loads.load, MAIN, {}, ViewOverrides()))
            if tools.store is not None:
                await to_thread.run_sync(tools.store.remove_leftovers)
            state.remembered = await memoirs.open()
            if memoirs.timings is not None:
                state.remembered_timings = await to_thread.run_sync(
                    remembered_timings, loads.kernels(), memoirs.timings
                )
            if memoirs.artifacts is not None:
                names = [unit.id for kernel in loads.kernels() for unit in kernel.units]
                state.remembered_figures = await to_thread.run_sync(remembered_figures, names, memoirs.artifacts)
            insights = ArtifactAnalyzer(ReportCache(tools), memoirs)
            runtime.analyze = insights.analyze
            measurements = MeasureRunner(root, loads, tools, memoirs)
            runtime.measure = measurements.measure
            await memoirs.note_start(os.getpid(), __version__)
            precompiling = BackgroundPch(tools, lambda: state.busy)
            runtime.workshop.on_request = lambda request, built, compiled: precompiling.note(
                request, built=built, compiled=compiled
            )
            daemon = DaemonApi(runtime, tools, memoirs, measurements, precompiling, insights, log_file)
            async with plain_errors(), anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.run)
                tasks.start_soon(collect_when_idle, lambda: state.busy)
                tasks.start_soon(_clean_store, runtime, tools)
                tasks.start_soon(precompiling.run)
                await _start_watching(tasks, root, runtime, tools)
                if memoirs.problem is not None:
                    await runtime.post(WarningChanged("history", memoirs.problem))
                try:
                    yield daemon
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            runtime.close()
            with anyio.CancelScope(shield=True):
                await tools.aclose()
                await memoirs.close(state)


async def _start_watching(tasks: TaskGroup, root: Path, runtime: EngineLoop, tools: BuildTools) -> None:
    """Watch what matters; once everything is watched, look at what may have changed before."""
    loads = runtime.workshop.loads
    settings = loads.workspaces[MAIN].settings.daemon
    news = ChangeReporter(root, runtime, tools)
    watcher = make_watcher(settings.watcher, news.deliver, news.problem, step_ms=settings.settle_ms, poll=settings.poll)
    changed = anyio.Event()

    async def follow() -> None:
        nonlocal changed
        followed: set[str] | None = None
        while True:
            changed = anyio.Event()
            folders, files = news.watched()
            watcher.follow(folders, files)
            await watcher.settled()
            if followed is None:
                await runtime.post(FilesChanged({}, reload=True, complete=False, at=time.time()))
            else:
                await news.compare(set(files) - followed)
            followed = set(files)
            await changed.wait()
            await anyio.sleep(WATCH_UPDATE_S)

    runtime.on_follow = lambda: changed.set()
    tasks.start_soon(watcher.run)
    tasks.start_soon(follow)


class ChangeReporter:
    """From batches of paths to what the machine is told."""

    def __init__(self, root: Path, runtime: EngineLoop, tools: BuildTools) -> None:
        self._root = root
        self._runtime = runtime
        self._tools = tools
        self._interest: tuple[object, TrackedPaths] | None = None

    def watched(self) -> tuple[list[str], list[str]]:
        """The folders to be watched with everything in them, and the files wherever they are."""
        workspace = self._runtime.workshop.loads.workspaces[MAIN]
        root = str(self._root)
        inside = root.rstrip(os.sep) + os.sep
        folders = [root]
        named = (*workspace.template_folders, *workspace.settings.workspace.kernel_folders)
        folders += dict.fromkeys(str(folder) for folder in named if not str(folder).startswith(inside))
        graph = self._runtime.state.graph
        return folders, [*graph.templates, *graph.headers, *workspace.files]

    async def deliver(self, batch: Batch) -> None:
        """A batch of the watcher."""
        store = self._tools.store
        if store is None:
            return
        interest = self._interest_now()
        found = await to_thread.run_sync(relevant_changes, batch.paths, interest, store.contents.digest)
        complete = batch.complete and found.complete
        if found.digests or found.reload or not complete:
            log.info("%d paths changed, %d of them matter", len(batch.paths), len(found.digests))
            await self._runtime.post(
                FilesChanged(found.digests, reload=found.reload, complete=complete, at=time.time())
            )

    async def compare(self, files: set[str]) -> None:
        """Look at files that are watched from now on: they may have changed since they were read."""
        store = self._tools.store
        known, disputed = self._runtime.state.graph.known_digests()
        new = {path: known[path] for path in files if path in known}
        if store is None or not new:
            return
        found = await to_thread.run_sync(changed_digests, new, disputed, store.contents.digest)
        if found:
            await self._runtime.post(FilesChanged(found, at=time.time()))

    def problem(self, message: str | None, hint: str | None) -> None:
        """The kernel cannot watch all that should be watched, or can again."""
        text = None if message is None else f"{message}\n{hint}" if hint else message
        self._runtime.post_soon(WarningChanged("watch", text, at=time.time()))

    def _interest_now(self) -> TrackedPaths:
        graph = self._runtime.state.graph
        workspace = self._runtime.workshop.loads.workspaces.get(MAIN)
        key = (graph.version, id(workspace))
        if self._interest is None or self._interest[0] != key:
            tracked = frozenset((*graph.templates, *graph.headers))
            self._interest = (key, TrackedPaths.of(self._root, workspace, tracked))
        return self._interest[1]


async def _clean_store(runtime: EngineLoop, tools: BuildTools) -> None:
    """Now and then, when nothing runs and something has been compiled, keep the store within its size."""
    done = 0
    while True:
        await anyio.sleep(STORE_CLEANUP_S)
        if runtime.workshop.compiled != done and not runtime.state.busy:
            done = runtime.workshop.compiled
            await tools.tidy()


def database_path(root: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The history of the workspace at `root`, beside the log of its daemon. Creates nothing."""
    return endpoint_of(root, environment).log.with_name(HISTORY_FILE_NAME)
