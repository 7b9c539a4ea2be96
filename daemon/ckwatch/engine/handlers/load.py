"""Load: reads the workspace for each view, its units for the core and its settings for the other handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio import CapacityLimiter, to_thread

from ckwatch.core.effects import Load
from ckwatch.core.events import (
    MAIN,
    BenchmarkPolicy,
    KernelUnits,
    LoadedWorkspace,
    LoadFinished,
    VerificationPolicy,
    ViewOverrides,
)
from ckwatch.engine.build_tools import BuildTools, default_jobs
from ckwatch.engine.workspace_toolchains import WorkspaceToolchains
from ckwatch.model.delays import LOAD, URGENT_LOAD_WAIT
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.emulated_archs import EMULATED_ARCHS
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Kernel, units_of
from ckwatch.model.targets import HOST, NATIVE, Language, arch_has_language, language_of
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.reloading import WorkspaceLoader


class ViewLoader:
    """Loads one workspace for all views. `workspaces` holds the last load of each, and `on_loaded` is called after each
    `run`."""

    def __init__(self, root: Path, tools: BuildTools, threads: CapacityLimiter | None = None) -> None:
        self._loader = WorkspaceLoader(root, guarded=True)
        self._tools = tools
        self._threads = threads
        self._lock = threading.Lock()
        self._urgent: dict[int, anyio.Event] = {}
        self._kernels: dict[tuple[int, tuple[str, ...]], KernelUnits] = {}
        self._native: dict[Language, str | None] = {}
        self._gpu_archs: frozenset[str] | None = None
        self.toolchains = WorkspaceToolchains(tools)
        self.workspaces: dict[str, Workspace] = {}
        self.on_loaded: Callable[[], None] = lambda: None

    async def run(self, effect: Load) -> LoadFinished:
        """Load the workspace as the effect's view sees it."""
        read = partial(self.load, effect.work.key.scope, effect.overlays, effect.options)
        if not effect.urgent:
            await anyio.sleep(LOAD.seconds)
            return await self._finished(effect, read)
        loaded = self._urgent[effect.work.number] = anyio.Event()
        try:
            return await self._finished(effect, read)
        finally:
            del self._urgent[effect.work.number]
            loaded.set()

    async def _finished(self, effect: Load, read: partial[LoadedWorkspace]) -> LoadFinished:
        try:
            return LoadFinished(effect.work, await to_thread.run_sync(read, limiter=self._threads))
        except CkwatchError as error:
            return LoadFinished(effect.work, None, str(error))
        finally:
            self.on_loaded()

    async def wait_for_urgent(self) -> None:
        """Return when no urgent load runs, or the wait takes too long: beside renders a load is three times slower."""
        if self._urgent:
            with anyio.move_on_after(URGENT_LOAD_WAIT.seconds):
                for loaded in list(self._urgent.values()):
                    await loaded.wait()

    def load(self, scope: str, overlays: Mapping[str, str], options: ViewOverrides) -> LoadedWorkspace:
        """Read the workspace. Blocks; call from a worker thread. Raises CkwatchError when there is no `ckwatch.toml`
        any more."""
        with self._lock:
            workspace = self._loader.load(overlays, scope=scope)
            if scope == MAIN:
                cuda = any(language_of(kernel.template) is Language.CU for kernel in workspace.kernels)
                self._tools.configure(workspace.settings, root=workspace.root, cuda=cuda)
            diagnostics = list(workspace.diagnostics)
            toolchains = self.toolchains.policy_of(workspace, diagnostics, anew=scope == MAIN)
            used: dict[tuple[int, tuple[str, ...]], KernelUnits] = {}
            kernels = []
            for kernel in workspace.kernels:
                archs = self._archs(kernel, options.archs, diagnostics)
                key = (id(kernel), archs)
                known = self._kernels.get(key)
                if known is None or known.kernel is not kernel:
                    known = KernelUnits(kernel, units_of(kernel, archs))
                used[key] = known
                kernels.append(known)
            if scope == MAIN:
                self._kernels = used
            else:
                self._kernels |= used
            self.workspaces[scope] = workspace
            return LoadedWorkspace(
                tuple(kernels),
                tuple(diagnostics),
                workspace.files,
                self._settings(workspace),
                workspace.settings.compile.jobs or default_jobs(),
                self._tools.problem,
                workspace.settings.daemon.build == "everything",
                self._tools.runs_passes_apart,
                _benchmarks(workspace),
                self._verification(workspace),
                workspace.settings.compile.advice,
                workspace.settings.daemon.build != "wanted",
                toolchains,
            )

    def is_outdated(self) -> bool:
        """Return True if the workspace on disk differs from the loaded one. Blocks; call from a worker thread."""
        with self._lock:
            try:
                return self._loader.load(scope=MAIN) != self.workspaces.get(MAIN)
            except CkwatchError:
                return MAIN in self.workspaces

    def has_other_toolchains(self) -> bool:
        """Return True if a compiler was replaced, has gone or come since the last load. Blocks; call from a worker
        thread."""
        with self._lock:
            return self.toolchains.is_outdated(self.workspace(MAIN))

    def kernels(self) -> tuple[KernelUnits, ...]:
        """The kernels of the last load of the workspace on disk."""
        return tuple(self._kernels.values())

    def workspace(self, scope: str) -> Workspace:
        """The workspace as `scope` sees it. Raises KeyError before the first load."""
        return self.workspaces.get(scope) or self.workspaces[MAIN]

    def shows_header_warnings(self, scope: str, options: ViewOverrides) -> bool:
        """Return True if warnings in headers are shown: the view's choice, or the workspace's."""
        chosen = options.header_warnings
        return self.workspace(scope).settings.compile.header_warnings if chosen is None else chosen

    def _archs(self, kernel: Kernel, asked: tuple[str, ...], diagnostics: list[Diagnostic]) -> tuple[str, ...]:
        language = language_of(kernel.template)
        archs = kernel.archs
        if asked and archs != (HOST,):
            archs = tuple(arch for arch in asked if arch_has_language(arch, language))
        if NATIVE not in archs:
            return archs
        if language not in self._native:
            from ckwatch.compile.toolchain.devices import native_arch  # looks at the machine

            self._native[language] = native_arch(language)
        native = self._native[language]
        if native is None:
            message = "`native` means this machine's AMD GPU, and there is none; name an arch, such as gfx942"
            place = kernel.template_span
            diagnostics.append(
                Diagnostic(Severity.WARNING, Source.KERNEL_FILE, "kernel-file/no-native-arch", message, place)
            )
            return tuple(arch for arch in archs if arch != NATIVE)
        return tuple(dict.fromkeys(native if arch == NATIVE else arch for arch in archs))

    def _verification(self, workspace: Workspace) -> VerificationPolicy:
        settings = workspace.settings.verify
        archs = frozenset(EMULATED_ARCHS) if settings.automatic != "off" else frozenset()
        if settings.automatic is None:
            if self._gpu_archs is None:
                from ckwatch.compile.toolchain.devices import amd_devices  # looks at the machine

                self._gpu_archs = frozenset(device.arch for device in amd_devices())
            archs -= self._gpu_archs
        return VerificationPolicy(archs, settings.checks)

    def _settings(self, workspace: Workspace) -> str:
        compiling, rendering = workspace.settings.compile, workspace.settings.render
        compiler = None if self._tools.compiler is None else self._tools.compiler.toolchain
        return repr(
            (
                *(
                    compiling.flags,
                    sorted(compiling.defines.items(), key=str),
                    compiling.timeout_s,
                    compiling.stalled_s,
                ),
                *(compiling.header_warnings, rendering, workspace.template_folders, self._tools.identity),
                *(workspace.flags, workspace.arch_spans, self._tools.header_folders),
                compiler and (compiler.hip_arguments, compiler.link_arguments, compiler.openmp, dict(compiler.roots)),
            )
        )


def _benchmarks(workspace: Workspace) -> BenchmarkPolicy:
    settings = workspace.settings.bench
    return BenchmarkPolicy(settings.when == "saved", settings.save_budget_s, bool(settings.launcher), settings.device)
