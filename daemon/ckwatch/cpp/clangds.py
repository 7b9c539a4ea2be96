"""A clangd for each arch, found or fetched for the present compiler and settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.toolchain.clangd import ClangdProgram, fetch_clangd, find_clangd, major_to_fetch
from ckwatch.compile.toolchain.install_steps import InstallStep
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.cpp.supervisor import ClangdLimits, ClangdSupervisor
from ckwatch.model.errors import ToolchainError
from ckwatch.workspace.settings import Settings


class Clangds:
    """Supervisors by arch. `warn` gets an arch and a sentence, or None when it no longer holds."""

    def __init__(
        self, root: Path, settings_folder: Path, tasks: TaskGroup, warn: Callable[[str, str | None], None]
    ) -> None:
        self._root = root
        self._settings_folder = settings_folder
        self._tasks = tasks
        self._warn = warn
        self._known: dict[str, tuple[object, ClangdSupervisor]] = {}
        """Each with the compiler and the settings that it fits."""

    def of(self, arch: str, toolchain: Toolchain | NvccToolchain, settings: Settings) -> ClangdSupervisor:
        """The clangd of an arch; another after the compiler or the settings have changed."""
        configured, limit_bytes = settings.toolchain.clangd, settings.cpp.memory_limit_bytes
        fits = (toolchain.identity, configured, limit_bytes)
        known = self._known.get(arch)
        if known is not None and known[0] == fits:
            return known[1]
        if known is not None:
            self._tasks.start_soon(known[1].end)
        made = ClangdSupervisor(
            partial(_find_or_fetch, toolchain, configured),
            toolchain.environment,
            self._root,
            self._settings_folder,
            self._tasks,
            partial(self._warn, arch),
            ClangdLimits(limit_bytes),
        )
        self._known[arch] = (fits, made)
        return made


async def _find_or_fetch(
    toolchain: Toolchain | NvccToolchain, configured: Path | None, tell: Callable[[str], None]
) -> ClangdProgram:
    """Raises ToolchainError where there is none and none can be fetched."""

    def on_progress(step: InstallStep) -> None:
        share = f" {100 * step.done // step.total} %" if step.total else ""
        tell(f"clangd is being fetched: {step.title}{share}")

    find = partial(find_clangd, toolchain, toolchain.environment, configured)
    found = await to_thread.run_sync(find)
    if found is None:
        await fetch_clangd(major_to_fetch(toolchain), on_progress)
        found = await to_thread.run_sync(find)
    if found is None:
        raise ToolchainError("the clangd that was fetched does not run", "`ckwatch doctor` says more")
    return found
