"""The toolchains of a workspace: its own, and those that `[toolchain] also` names."""

from __future__ import annotations

from dataclasses import field

from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import OtherToolchain, ToolchainPolicy
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.workspace.loading import Workspace


@dataclass(eq=False)
class WorkspaceToolchains:
    """Finds them anew with each load of the workspace on disk. Blocks; call from worker threads, one call at a time."""

    _tools: BuildTools
    _found: dict[str, CompilerWithStore | ToolchainError] = field(default_factory=dict, init=False)
    policy: ToolchainPolicy = field(default_factory=ToolchainPolicy, init=False)
    """That of the last load."""

    def policy_of(self, workspace: Workspace, diagnostics: list[Diagnostic], *, anew: bool) -> ToolchainPolicy:
        """The toolchains to check units with besides; names that mean nothing are reported at their places."""
        if anew:
            self._found.clear()
        main = self._tools.compiler
        named: dict[str, OtherToolchain] = {}
        places: dict[str, str] = {} if main is None else {_identity(main): "the toolchain of this workspace"}
        for name, place in zip(workspace.settings.toolchain.also, workspace.also, strict=False):
            found = self._found[name] = self._found.get(name) or self._find(name, workspace)
            if isinstance(found, ToolchainError):
                text = found.message if found.hint is None else f"{found.message}: {found.hint}"
                diagnostics.append(_problem(Severity.ERROR, "missing-toolchain", text, place))
                continue
            identity = _identity(found)
            if identity in places:
                text = f"`{name}` is {places[identity]}"
                diagnostics.append(_problem(Severity.WARNING, "duplicate-value", text, place))
                continue
            places[identity] = f"the same toolchain as `{name}`"
            named[name] = OtherToolchain(name, identity)
        self.policy = ToolchainPolicy(
            tuple(named.values()), workspace.settings.toolchain.also_build, _own_name(main, named)
        )
        return self.policy

    def compiler(self, name: str, workspace: Workspace) -> CompilerWithStore:
        """The compiler behind a name, also that of the workspace's own. Raises ToolchainError where there is none."""
        if name and name == self.policy.main:
            return self._tools.present_compiler()
        return self._tools.compiler_called(name, workspace.settings, workspace.root)

    def is_outdated(self, workspace: Workspace) -> bool:
        """Return True if one of them was replaced, has gone or come since the last load."""
        found = [(self._find(name, workspace), known) for name, known in self._found.items()]
        return self._tools.is_outdated(workspace.settings) or any(
            str(now) != str(known) if isinstance(now, ToolchainError) else now is not known for now, known in found
        )

    def _find(self, name: str, workspace: Workspace) -> CompilerWithStore | ToolchainError:
        try:
            return self._tools.compiler_called(name, workspace.settings, workspace.root)
        except ToolchainError as error:
            return error


def _identity(compiler: CompilerWithStore) -> str:
    """Changes with the compiler and its headers' folders."""
    toolchain = compiler.toolchain
    return " ".join([toolchain.identity, *map(str, toolchain.include_folders)])


def _own_name(main: CompilerWithStore | None, others: dict[str, OtherToolchain]) -> str:
    if main is None or not others:
        return ""
    if isinstance(main.toolchain, NvccToolchain):
        return "CUDA"
    name = toolchain_name(main.toolchain)
    return f"{name} (this workspace's)" if name in others else name


def toolchain_name(toolchain: Toolchain) -> str:
    """Return the name of a toolchain in messages, `rocm-7.2.4`."""
    return f"rocm-{toolchain.rocm_version}" if toolchain.rocm_version else toolchain.root.name


def _problem(severity: Severity, code: str, message: str, place: Span) -> Diagnostic:
    return Diagnostic(severity, Source.WORKSPACE, f"workspace/{code}", message, place)
