"""Loads the workspace for each view: its units for the core, its settings for the other handlers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from ckwatch.core.events import MAIN, BenchmarkPolicy, KernelUnits, LoadedWorkspace, ViewOverrides
from ckwatch.engine.build_tools import BuildTools, default_jobs
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Kernel
from ckwatch.model.targets import HOST, NATIVE, Language, arch_has_language, language_of
from ckwatch.model.unit_patterns import units_of
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.reloading import WorkspaceLoader


class ViewLoader:
    """Loads of one workspace for all scopes. `workspaces` holds the last one of each."""

    def __init__(self, root: Path, tools: BuildTools) -> None:
        self._loader = WorkspaceLoader(root)
        self._tools = tools
        self._lock = threading.Lock()
        self._kernels: dict[tuple[int, tuple[str, ...]], KernelUnits] = {}
        self._native: dict[Language, str | None] = {}
        self.workspaces: dict[str, Workspace] = {}

    def load(self, scope: str, overlays: Mapping[str, str], options: ViewOverrides) -> LoadedWorkspace:
        """Read it, in a thread. Raises CkwatchError when there is no `ckwatch.toml` any more."""
        with self._lock:
            workspace = self._loader.load(overlays)
            if scope == MAIN:
                cuda = any(language_of(kernel.template) is Language.CU for kernel in workspace.kernels)
                self._tools.find(workspace.settings, cuda=cuda)
            diagnostics = list(workspace.diagnostics)
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
                self._tools.takes_apart,
                _benchmarks(workspace),
            )

    def kernels(self) -> tuple[KernelUnits, ...]:
        """The kernels of the workspace's own last load."""
        return tuple(self._kernels.values())

    def workspace(self, scope: str) -> Workspace:
        """The workspace as `scope` sees it. Raises KeyError before the first load."""
        return self.workspaces.get(scope) or self.workspaces[MAIN]

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

    def _settings(self, workspace: Workspace) -> str:
        compiling, rendering = workspace.settings.compile, workspace.settings.render
        return repr(
            (
                *(compiling.flags, sorted(compiling.defines.items(), key=str), compiling.timeout_s),
                *(compiling.header_warnings, rendering, workspace.template_folders, self._tools.identity),
            )
        )


def _benchmarks(workspace: Workspace) -> BenchmarkPolicy:
    settings = workspace.settings.bench
    return BenchmarkPolicy(settings.when == "saved", settings.save_budget_s, bool(settings.launcher))
