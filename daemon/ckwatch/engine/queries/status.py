"""The daemon and its workspace: status, settings that could be read, and the end of the log."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from anyio import to_thread

from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN
from ckwatch.core.notify import HEADERS_TOPIC
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.file_diagnostics import refused_shapes, skipped_in_sweeps
from ckwatch.engine.handlers.farm_link import FarmLink
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.to_wire import shown_phase, workspace_to_wire
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.version import __version__
from ckwatch.system.memory import resident_bytes
from ckwatch.wire.state import Status, WorkspaceDetail

LOG_READ_BYTES = 1_000_000

SHARED_FOLDERS = (Path("/"), Path("/usr"), Path("/usr/local"))
"""Of a compiler that is installed there, every file on the machine would be a header."""


@dataclass(eq=False)
class StatusQueries:
    """`clients` counts those that are connected, `builds` those that are followed."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _lookup: UnitLookup
    _background_pch: BackgroundPch
    _log_file: Path | None
    _farm: FarmLink
    _clients: Callable[[], int]
    _builds: Callable[[], int]
    _started_at: float = field(default_factory=time.time, init=False)
    _started: float = field(default_factory=time.monotonic, init=False)

    async def status(self) -> Status:
        """Return the daemon's identity and activity."""
        state = self._loop.state
        units = list(state.main.units.values())
        memory = await to_thread.run_sync(resident_bytes)
        workspace = self._view_loader.workspaces.get(MAIN)
        shown = workspace_to_wire(state, MAIN)
        compiler = self._tools.compiler
        return Status(
            version=__version__,
            pid=os.getpid(),
            root=state.root,
            started_at=self._started_at,
            uptime_s=time.monotonic() - self._started,
            seq=self._loop.feed.seq,
            unit_count=len(units),
            phases=dict(Counter(shown_phase(unit).value for unit in units)),
            outcomes=dict(Counter(unit.outcome.value for unit in units if unit.outcome is not None)),
            busy=state.busy or bool(self._builds()),
            precompiling=self._background_pch.pending,
            clients=self._clients(),
            memory_bytes=memory,
            idle_exit_s=0.0 if workspace is None else workspace.settings.daemon.idle_exit_s,
            log_file=None if self._log_file is None else str(self._log_file),
            toolchain=None if compiler is None else compiler.toolchain.clang_version,
            warnings=shown.warnings,
            farm=self._farm.status(len(state.on_farm)),
            other_toolchains={
                one.name: dict(Counter(found.outcome.value for unit in units if (found := unit.with_toolchain(one))))
                for one in state.toolchains.others
            },
        )

    async def workspace(self, scope: str) -> WorkspaceDetail:
        """The workspace itself."""
        await self._lookup.loaded()
        state = self._loop.state
        view = state.views.get(scope, state.main)
        loaded = view.workspace or state.main.workspace
        found = self._view_loader.workspace(scope)
        compiler = self._tools.compiler
        shapes = refused_shapes(state, self._loop.diagnosed, self._loop.shape_refusals, scope)
        warnings = () if shapes is None else await to_thread.run_sync(shapes)
        return WorkspaceDetail(
            root=state.root,
            problem=view.problem,
            diagnostics=(
                *(() if loaded is None else loaded.diagnostics),
                *skipped_in_sweeps(state, self._loop.diagnosed, scope),
                *warnings,
            ),
            files=found.files,
            template_folders=tuple(str(folder) for folder in found.template_folders),
            toolchain=None if compiler is None else compiler.toolchain.clang_version,
            toolchain_problem=None if loaded is None else loaded.toolchain_problem or state.warnings.get(HEADERS_TOPIC),
            kernel_names=dict(found.kernel_names),
            header_folders=() if compiler is None else _header_folders(compiler.toolchain),
        )

    async def log(self, lines: int) -> str:
        """The last lines of the daemon's log."""
        return await to_thread.run_sync(log_tail, self._log_file, lines)


def _header_folders(toolchain: Toolchain | NvccToolchain) -> tuple[str, ...]:
    """Those of the libraries that it compiles, and its own, if it shares that with nothing else."""
    own = {name: folder for name, folder in toolchain.roots.items() if name != "workspace"}
    if isinstance(toolchain, NvccToolchain):
        own["cuda"] = toolchain.nvcc.resolve().parents[1]
    folders = dict.fromkeys((*toolchain.include_folders, *own.values()))
    return tuple(str(folder) for folder in folders if folder not in SHARED_FOLDERS)


def log_tail(log_file: Path | None, lines: int) -> str:
    """The last lines of the log, of its last megabyte; empty when it cannot be read."""
    if log_file is None:
        return ""
    try:
        with log_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""
