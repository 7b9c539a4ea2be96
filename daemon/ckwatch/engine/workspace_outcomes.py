"""A workspace whose units are rendered, built and verified once, without the rest of a daemon.

Nothing watches files, no history is opened and no socket is bound: what `ckwatch ci` needs takes less than half the
processor's time of a daemon's start. Two of them may be open side by side, for two states of one workspace.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import CancelScope, CapacityLimiter, to_thread

from ckwatch.compile.includes import possible_includes
from ckwatch.compile.rendered_unit import compile_request, own_include_folders
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain, ToolchainChoice
from ckwatch.core.events import MAIN, LoadedWorkspace, UnitKey, ViewOverrides
from ckwatch.core.state import State
from ckwatch.engine.build_tools import BuildTools, FindToolchain
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.other_toolchains import OtherToolchains
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.handlers.verify import Emulate, VerifyRunner, WorkerEmulator
from ckwatch.engine.outcomes import ERRORS_SHOWN, BuiltUnit, OnStage, OutcomeBuilds, ViewedUnit
from ckwatch.model.compiler_flags import flag_groups, folder_of
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.verification import Verification, VerificationDepth
from ckwatch.render.outcome import Rendered, RenderOutcome
from ckwatch.render.tokens import token_key
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.verification.problems import trials_of
from ckwatch.wire.unit_changes import UnitOutcome
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.trust import require_trusted

if TYPE_CHECKING:  # loads what measures
    from ckwatch.engine.timed_changes import ChangeTimer

RENDERS_KEPT = 64

UNITS_PER_RENDERER = 16
"""A process that renders takes as long to start as it takes to render so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTools:
    """The tools that outcomes are made with; tests pass others. `renders`: processes that render at most."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    launch: Launcher = run_process
    find_toolchain: FindToolchain = discover
    emulate: Emulate | None = None
    renders: int = 1

    def with_one_search(self) -> OutcomeTools:
        """The same, looking once for each choice of a toolchain: two states of a workspace mostly name one."""
        found: dict[str, Toolchain] = {}

        def remembered(choice: ToolchainChoice, environment: Mapping[str, str]) -> Toolchain:
            key = repr(choice)
            if key not in found:
                found[key] = self.find_toolchain(choice, environment)
            return found[key]

        return replace(self, find_toolchain=remembered)


@dataclass(frozen=True, slots=True)
class UnitSources:
    """The files that a unit is made from, as absolute paths: `texts`, which it is rendered and verified from, `headers`
    that it may include, and `missed`, at which no template was found. `headers` is None where a macro or their number
    hides them."""

    texts: frozenset[str]
    headers: frozenset[str] | None
    missed: frozenset[str]


@asynccontextmanager
async def open_outcomes(
    root: Path, tools: OutcomeTools, compilers: CapacityLimiter, *, trusted: Path, archs: tuple[str, ...] = ()
) -> AsyncIterator[WorkspaceOutcomes]:
    """The workspace in the folder `root` for outcomes, as long as the context is open. `compilers` run at a time, which
    workspaces share. `trusted`: the workspace whose trust covers this one; `archs` in place of the workspace's. Raises
    UntrustedError without trust, CkwatchError when there is no `ckwatch.toml`."""
    await to_thread.run_sync(require_trusted, trusted)
    build_tools = BuildTools(tools.environment, tools.renders, tools.launch, tools.find_toolchain)
    try:
        view_loader = ViewLoader(root, build_tools)
        options = ViewOverrides(archs=archs)
        loaded = await to_thread.run_sync(view_loader.load, MAIN, {}, options)
        units = sum(len(kernel.units) for kernel in loaded.kernels)
        build_tools.renders = max(1, min(tools.renders, units // UNITS_PER_RENDERER))
        emulate = tools.emulate or WorkerEmulator(build_tools, root)
        verifier = VerifyRunner(State(root=str(root)), view_loader, build_tools, emulate, _unplaced)
        verifier.on_stage = lambda _unit, _stage: None
        threads = CapacityLimiter(4)
        renders = RenderHandler(build_tools, view_loader, threads)
        builds = None
        if build_tools.compiler is not None:
            toolchains = OtherToolchains(build_tools, view_loader, renders, threads)
            builds = OutcomeBuilds(build_tools, toolchains, verifier, build_tools.compiler)
        yield WorkspaceOutcomes(root, loaded, view_loader, build_tools, options, compilers, renders, builds)
    finally:
        with CancelScope(shield=True):
            await build_tools.aclose()


@dataclass(eq=False)
class WorkspaceOutcomes:
    """A loaded workspace, and the outcomes of its units."""

    root: Path
    loaded: LoadedWorkspace
    view_loader: ViewLoader
    tools: BuildTools
    _options: ViewOverrides
    _compilers: CapacityLimiter
    _renders: RenderHandler
    _builds: OutcomeBuilds | None
    _rendered: OrderedDict[str, RenderOutcome] = field(default_factory=OrderedDict, init=False)

    @property
    def workspace(self) -> Workspace:
        """The workspace as it was loaded."""
        return self.view_loader.workspace(MAIN)

    def timer(self, device: str | None) -> ChangeTimer:
        """A timer of its units against those of another state, on `device` or as `[bench]` says."""
        from ckwatch.engine.timed_changes import ChangeTimer  # most runs time nothing

        return ChangeTimer.of(self.root, self.view_loader, self.tools, device)

    @cached_property
    def units(self) -> Mapping[str, Unit]:
        """The units by their ids, in the order of the kernel files."""
        return {unit.id: unit for kernel in self.loaded.kernels for unit in kernel.units}

    async def rendered(self, unit: Unit) -> RenderOutcome:
        """The render of a unit, and its checks without a compiler; the last ones are kept."""
        known = self._rendered.get(unit.id)
        if known is None:
            known = await self._renders.outcome(UnitKey(MAIN, unit.id), unit, {}, self._options)
        self._rendered[unit.id] = known
        self._rendered.move_to_end(unit.id)
        if len(self._rendered) > RENDERS_KEPT:
            self._rendered.popitem(last=False)
        return known

    async def built(self, unit: Unit, *, verify: bool, profile: bool, on_stage: OnStage) -> BuiltUnit:
        """Compile, analyze and verify a unit, and count its work for a `profile`. Raises ToolchainError without a
        compiler."""
        if self._builds is None:
            raise ToolchainError.of(self.loaded.toolchain_problem or "there is no compiler")
        viewed = ViewedUnit(UnitKey(MAIN, unit.id), unit, {}, self._options)
        return await self._builds.built(viewed, self._compilers, verify=verify, profile=profile, on_stage=on_stage)

    async def placed(self, unit: Unit, built: BuiltUnit) -> BuiltUnit:
        """The same with the lines of what its verification has found, which may take a compile of the device code."""
        found, text = built.outcome.verification, await self._text(unit)
        if found is None or not found.findings or built.result is None or text is None:
            return built
        from ckwatch.engine.queries.listings import placed_once  # most runs find nothing

        found = await placed_once(found, unit, text, self.workspace, built.result, self.tools)
        return replace(built, outcome=replace(built.outcome, verification=found))

    async def checked(self, unit: Unit) -> BuiltUnit:
        """The outcome of a unit without a compiler."""
        found = await self.rendered(unit)
        errors = tuple(one for one in found.diagnostics if one.severity is Severity.ERROR)[:ERRORS_SHOWN]
        outcome = UnitOutcome(outcome="checked")
        if not found.ok:
            problem = errors[0].message if errors else "its template cannot be rendered"
            outcome = UnitOutcome(outcome="skipped" if found.skipped else "failed", problem=problem, errors=errors)
        return BuiltUnit(outcome, diagnostics=found.diagnostics)

    async def sources(self, unit: Unit, among: str) -> UnitSources:
        """The files that a unit is made from; of headers, those in the folder `among`."""
        facts = await self.rendered(unit)
        operation = unit.kernel.operation
        modules = () if operation.reference is None else operation.reference.modules
        arrays = (one.values.file for one in operation.tensors if one.values and one.values.file)
        texts = frozenset((*facts.read, unit.kernel.path, *(one.path for one in modules), *arrays))
        text = await self._text(unit)
        headers = frozenset() if text is None else await to_thread.run_sync(self._headers, unit, text, among)
        return UnitSources(texts, headers, frozenset(facts.missed))

    def _headers(self, unit: Unit, text: Rendered, among: str) -> frozenset[str] | None:
        flags = (*(flag.text for flag in self.workspace.flags), *unit.kernel.flags)
        given = (folder_of(group) for _, group in flag_groups(flags) if group[0].startswith("-I"))
        folders = [*own_include_folders(self.workspace, unit, text), *(self.root / one for one in given if one)]
        try:
            return frozenset(possible_includes(text.text, [one for one in folders if one.is_relative_to(among)]))
        except ValueError:
            return None

    async def identity(self, unit: Unit, place: tuple[str, str]) -> str:
        """Equal for two states of a unit, if they have the same outcome, headers apart. The path `place[0]` reads as
        `place[1]` in it: two trees of one repository. Empty where that is not known."""
        text = await self._text(unit)
        if text is None:
            return ""
        compiler = self.tools.compiler
        key = f"{text.symbol}:{text.token_key}"
        if compiler is not None:
            key = await compiler.builder.key(compile_request(self.workspace, unit, text))
        verified = await to_thread.run_sync(self._verified_as, unit)
        facts = await self.rendered(unit)
        messages = repr([(one.severity, one.code, one.message) for one in facts.diagnostics])
        return hashlib.sha256(repr((key, verified, messages)).replace(*place).encode()).hexdigest()

    async def anonymous(self, unit: Unit) -> str:
        """Equal for two units that differ in nothing but their names; empty where there is no text."""
        text = await self._text(unit)
        if text is None:
            return ""
        return f"{unit.arch} {token_key(text.text.replace(text.symbol, 'kernel'))}"

    def _verified_as(self, unit: Unit) -> str:
        operation = unit.kernel.operation
        reference = "" if operation.reference is None else operation.reference.digest
        trials = trials_of(unit, VerificationDepth.THOROUGH)
        return repr((trials, reference, operation.comparisons, self.workspace.settings.verify))

    async def _text(self, unit: Unit) -> Rendered | None:
        found = await self.rendered(unit)
        return found.rendered if found.ok else None


async def _unplaced(_unit: object, found: Verification) -> Verification:
    return found
