"""The compiler, the store and the render workers that a workspace's settings lead to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import CancelScope, to_thread

from ckwatch.compile.builder import Builder
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.store.entries import verified
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.toolchain.discover import CONFIGURED, discover
from ckwatch.compile.toolchain.model import Toolchain, ToolchainChoice
from ckwatch.compile.toolchain.named import chosen_by_name
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.core.events import HeaderFacts
from ckwatch.engine.render_pool import RenderPool
from ckwatch.model.compiler_flags import flag_groups, folder_of
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.cache import prune
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.settings import Settings

if TYPE_CHECKING:
    from ckwatch.compile.background_pch import LadderOf
    from ckwatch.compile.staged_build import StagedCompiler
    from ckwatch.compile.store.shared_store import SharedStore

HEADER_SETS_KEPT = 500

SHARING_LIMIT_S = 20.0
"""How long the end waits for what was compiled last to be shared."""

FindToolchain = Callable[[ToolchainChoice, Mapping[str, str]], Toolchain]
"""Raises ToolchainError when there is none."""


@dataclass(frozen=True, slots=True)
class CompilerWithStore:
    """A compiler and the store it fills."""

    toolchain: Toolchain | NvccToolchain
    builder: Builder
    roots: PathRoots


@dataclass(eq=False)
class BuildTools:
    """Configured again when the settings change. `compiler` is None while `problem` says why there is none. `renders`:
    processes that render at once, for those search paths that are rendered from next."""

    _environment: Mapping[str, str]
    renders: int
    _launch: Launcher = run_process
    _find_toolchain: FindToolchain = discover
    _pools: dict[tuple[Path, ...], RenderPool] = field(default_factory=dict, init=False)
    _stores: dict[Path, ArtifactStore] = field(default_factory=dict, init=False)
    _headers: dict[tuple[str, PathRoots], HeaderFacts] = field(default_factory=dict, init=False)
    _others: dict[str, CompilerWithStore] = field(default_factory=dict, init=False)
    _precompile: bool = field(default=True, init=False)
    store: ArtifactStore | None = field(default=None, init=False)
    compiler: CompilerWithStore | None = field(default=None, init=False)
    problem: str | None = field(default=None, init=False)
    _shared: SharedStore | None = field(default=None, init=False)
    on_shared_problem: Callable[[str | None], None] = field(default=lambda _problem: None, init=False)
    """Called from any thread with what keeps the shared store from being used, in a sentence; None when nothing
        does any more."""

    def configure(self, settings: Settings, *, root: Path | None = None, cuda: bool = False) -> None:
        """Find the compiler and open the store. Blocks; call from a worker thread, one call at a time.

        `root` is the workspace's folder. `cuda`: without a HIP compiler, nvcc alone will do.
        """
        folder = settings.store.folder or default_folder()
        store = self._stores.get(folder)
        if store is None:
            store = self._stores[folder] = ArtifactStore(folder, settings.store.size_limit_bytes)
        store.size_limit_bytes = settings.store.size_limit_bytes
        self._share(settings.store.shared)
        toolchain = self._found(settings, root)
        if isinstance(toolchain, ToolchainError):
            nvcc = self._nvcc_alone(root) if cuda else None
            if nvcc is None:
                self.store, self.compiler, self.problem = store, None, str(toolchain)
                return
            toolchain = nvcc
        known = self.compiler
        if known is None or known.toolchain != toolchain or self.store is not store:
            make = partial(self._make_ladder, toolchain, store) if isinstance(toolchain, Toolchain) else None
            builder = Builder(toolchain, store, launch=self._launch, make_ladder=make, shared=lambda: self._shared)
            self.compiler = CompilerWithStore(toolchain, builder, PathRoots(toolchain.roots))
        self._precompile = settings.compile.precompile
        self.store, self.problem = store, None

    def _found(self, settings: Settings, root: Path | None) -> Toolchain | NvccToolchain | ToolchainError:
        try:
            return replace(self._find_toolchain(settings.toolchain, self._environment), workspace=root)
        except ToolchainError as error:
            return error

    def is_outdated(self, settings: Settings) -> bool:
        """Return True if the compiler was replaced, has gone or come. Blocks; call from a worker thread."""
        known = None if self.compiler is None else self.compiler.toolchain
        found = self._found(settings, None if known is None else known.workspace)
        if isinstance(found, ToolchainError):
            return isinstance(known, Toolchain) or (known is None and str(found) != self.problem)
        return found != known

    def _share(self, location: str | None) -> None:
        """Use the shared store at the location from now on."""
        former = self._shared
        if location == (None if former is None else former.location):
            return
        self._shared = None
        if former is not None:
            former.close()
            self.on_shared_problem(None)
        if location is not None:
            from ckwatch.compile.store.shared_store import SharedStore

            self._shared = SharedStore(location, on_problem=lambda problem: self.on_shared_problem(problem))

    def compiler_called(self, name: str, settings: Settings, root: Path) -> CompilerWithStore:
        """The compiler of another toolchain by its name, or by its folder, which may be relative to the workspace's.
        Blocks; call from a worker thread. Raises ToolchainError where there is none."""
        if self.store is None:
            raise RuntimeError("a toolchain was asked for before the settings were read")
        choice = chosen_by_name(name, settings.toolchain, self._environment, folder=root)
        try:
            toolchain = replace(self._find_toolchain(choice, self._environment), workspace=root)
        except ToolchainError as error:
            what = f"{CONFIGURED}{choice.rocm}: "
            if not error.message.startswith(what):
                raise
            hint = "Name the folder of a whole ROCm, or install one: `ckwatch toolchain install --rocm 7.2`."
            raise ToolchainError(error.message.removeprefix(what), hint) from None
        known = self._others.get(name)
        if known is None or known.toolchain != toolchain or known.builder.store is not self.store:
            # Nothing is precompiled for it: that pays for what is edited, which is compiled with the main toolchain.
            builder = Builder(toolchain, self.store, launch=self._launch, shared=lambda: self._shared)
            known = self._others[name] = CompilerWithStore(toolchain, builder, PathRoots(toolchain.roots))
        return known

    def present_compiler(self) -> CompilerWithStore:
        """The compiler. Raises ToolchainError where there is none."""
        if self.compiler is None:
            raise ToolchainError.of(self.problem or "there is no compiler")
        return self.compiler

    def require_compiler(self) -> CompilerWithStore:
        """The compiler. The core starts no compiles without one."""
        if self.compiler is None:
            raise RuntimeError("a compile was requested without a compiler")
        return self.compiler

    def _nvcc_alone(self, root: Path | None) -> NvccToolchain | None:
        """The compiler of a machine without ROCm, if it has one."""
        with suppress(ToolchainError):
            return replace(find_nvcc(self._environment), workspace=root)
        return None

    @property
    def precompiles(self) -> bool:
        """True if precompiled headers are enabled, and the compiler can use them."""
        return self._precompile and self.runs_passes_apart

    @property
    def ladder_of(self) -> LadderOf | None:
        """The present maker of precompiled headers; None if none are to be made."""
        return self._ladder if self.precompiles else None

    def _ladder(self) -> StagedCompiler | None:
        return self.compiler.builder.ladder if self.compiler is not None and self.precompiles else None

    @property
    def runs_passes_apart(self) -> bool:
        """True if the passes of a compile can run as processes of their own, as far as is known."""
        builder = None if self.compiler is None else self.compiler.builder
        return builder is not None and builder.takes_apart

    def _make_ladder(self, toolchain: Toolchain, store: ArtifactStore) -> StagedCompiler:
        from ckwatch.compile.staged_build import StagedCompiler

        return StagedCompiler(toolchain, store, self._launch, precompile=lambda: self._precompile)

    @property
    def identity(self) -> str:
        """Changes with the compiler."""
        return "" if self.compiler is None else self.compiler.toolchain.identity

    @property
    def header_folders(self) -> tuple[Path, ...]:
        """Those of the compiler's libraries, and HIP's."""
        return () if self.compiler is None else self.compiler.toolchain.feature_folders

    def searched_for_headers(
        self, workspace: Workspace, header_folders: tuple[Path, ...] | None = None
    ) -> tuple[Path, ...]:
        """The folders that all compiles of a workspace search for headers: those of its flags, then a compiler's, by
        default its own."""
        groups = flag_groups([flag.text for flag in workspace.flags])
        given = (folder_of(group) for _, group in groups if group[0].startswith("-I"))
        return tuple(
            dict.fromkeys(
                (
                    *(Path(one) for one in given if one),
                    *(self.header_folders if header_folders is None else header_folders),
                )
            )
        )

    def renderers(self, folders: tuple[Path, ...]) -> RenderPool:
        """The render workers for a template search path."""
        pool = self._pools.get(folders)
        if pool is None:
            pool = self._pools[folders] = RenderPool(folders, self.renders)
        return pool

    @property
    def render_cache_folder(self) -> Path | None:
        """The folder of earlier daemons' renders."""
        return None if self.store is None else self.store.folder / "renders"

    async def rest(self) -> None:
        """Nothing is to be rendered: one worker will do for the next edit."""
        for compiler in (self.compiler, *self._others.values()):
            if compiler is not None:
                compiler.builder.rest()
        for store in tuple(self._stores.values()):
            await to_thread.run_sync(store.contents.rest)
        for pool in self._pools.values():
            await pool.rest()

    def load_product(self, path: Path) -> bytes:
        """A file of an artifact, as it was stored. Blocks; call from a worker thread. Raises LostArtifactError and
        StoreError."""
        return verified(path) if self.store is None else self.store.load(path)

    def header_set(self, name: str, compiler: CompilerWithStore | None = None) -> HeaderFacts | None:
        """The headers of the set called so in the store, where a compiler has them, by default the workspace's; one
        object per set. Blocks; call from a worker thread."""
        compiler, store = compiler or self.compiler, self.store
        if compiler is None or store is None:
            return None
        known = self._headers.get((name, compiler.roots))
        found = None if known is not None else store.header_set(name)
        if found is None:
            return known
        expand = compiler.roots.expand
        facts = HeaderFacts(
            name,
            {expand(path): digest for path, digest in found.present.items()},
            frozenset(expand(path) for path in found.absent),
        )
        if len(self._headers) >= HEADER_SETS_KEPT:
            del self._headers[next(iter(self._headers))]
        return self._headers.setdefault((name, compiler.roots), facts)

    async def collect_garbage(self) -> None:
        """Keep the stores and the render cache within their sizes, and save the content hashes."""
        for store in list(self._stores.values()):
            await to_thread.run_sync(store.collect_garbage)
            await to_thread.run_sync(store.contents.save)
        if self.render_cache_folder is not None:
            await to_thread.run_sync(prune, self.render_cache_folder)

    async def aclose(self) -> None:
        """End the render workers and close the stores."""
        with CancelScope(shield=True):
            for pool in self._pools.values():
                await pool.__aexit__(None, None, None)
            if self._shared is not None:
                await to_thread.run_sync(self._shared.close, SHARING_LIMIT_S)
            for store in self._stores.values():
                await to_thread.run_sync(partial(store.close))


def default_jobs() -> int:
    """Compilers at a time: one per core; each starts only when there is memory for it."""
    return len(os.sched_getaffinity(0))
