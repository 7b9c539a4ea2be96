"""The disassembly of a unit's kernels, with the source lines that the instructions came from.

The line tables stand beside an artifact that was in focus when it was compiled. Others take a second compile of the
device code. Loaded with the first question for a listing.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.bench.worker_protocol import LaunchCounted
from ckwatch.checks.places import RenderedFile
from ckwatch.checks.rebase import position_rebaser
from ckwatch.codeobject.disassembly import DisassembledFunction
from ckwatch.codeobject.listing import listing_of
from ckwatch.codeobject.listing_text import isa_view
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, main_kernel
from ckwatch.codeobject.source_lines import CallChain, move_call_chains, same_instructions, transfer_call_chains
from ckwatch.codeobject.tools.llvm_tools import disassemble, source_lines_of
from ckwatch.compile.line_tables import compile_with_lines, find_lined_code
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind, read_entry
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.compile.work_folder import remove_work_folder
from ckwatch.core.events import CompileFacts
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.advise import LinedKernel
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.analysis import AnalysisQueries
from ckwatch.engine.side_work import SideWork
from ckwatch.model.errors import CkwatchError
from ckwatch.model.instruction_counts import KernelCounts
from ckwatch.model.isa import IsaView
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.profiles import KernelProfile
from ckwatch.model.verification import Verification
from ckwatch.render.outcome import Rendered
from ckwatch.verification.kernel_profiles import counted_profile
from ckwatch.verification.places import at_inputs, place_findings
from ckwatch.wire.analysis import Isa
from ckwatch.workspace.loading import Workspace

if TYPE_CHECKING:
    from ckwatch.compile.staged_build import StagedCompiler

log = logging.getLogger(__name__)

STALE = "the kernel was built from an earlier input: build it to see its source lines"
DOES_NOT_COMPILE = "no source lines: the device code does not compile with line tables"
CANCELLED = "no source lines: their compile was cancelled"
NOT_YET = "source lines take a compile of the device code"


@dataclass(slots=True)
class KnownKernel:
    """A kernel of an artifact. `frames` are the call chains by address, in the text `source` that was compiled at
    `path`; None as long as they are not known. `rendered` is the text that was last seen to have the same tokens."""

    function: DisassembledFunction
    frames: dict[int, CallChain] | None = None
    source: str = ""
    path: str = ""
    rendered: Rendered | None = None
    notes: tuple[str, ...] = ()
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    def lines(self) -> tuple[dict[int, CallChain] | None, RenderedFile | None]:
        """The call chains in the rendered text, and that text; runs in a thread."""
        if self.frames is None or self.rendered is None:
            return self.frames, None
        file = RenderedFile(self.path, self.rendered.source_map)
        if self.rendered.text == self.source:
            return self.frames, file
        move = position_rebaser(self.path, old=self.source, new=self.rendered.text)
        return move_call_chains(self.frames, self.path, move), file


@dataclass(eq=False)
class LineCompiles:
    """Finds the source lines of an artifact's instructions, with one compile at a time where there are no line tables
    yet: builds come first."""

    _tools: BuildTools
    _turn: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _failed: dict[str, str] = field(default_factory=dict, init=False)

    async def add(
        self,
        known: KnownKernel,
        unit: Unit,
        workspace: Workspace,
        artifact: str,
        code_object: Path,
        *,
        compile_it: bool = True,
        awaited: bool = True,
        side_work: AbstractContextManager[object] | None = None,
    ) -> str:
        """Find out where the instructions of a kernel of `artifact` came from, whose text is `known.rendered`; why that
        is not known, or "". With `compile_it` the device code is compiled when that has not been done. Raises
        CkwatchError, and OSError or ValueError for an artifact that cannot be read."""
        compiler, store = self._tools.compiler, self._tools.store
        toolchain = None if compiler is None else compiler.toolchain
        if compiler is None or store is None or toolchain is None or isinstance(toolchain, NvccToolchain):
            return f"no source lines: {self._tools.problem or 'there is no compiler'}"
        if artifact in self._failed:
            return self._failed[artifact]
        stored = await to_thread.run_sync(read_entry, code_object.parent)
        beside = stored.product(ProductKind.LINE_TABLES)
        if beside is not None:
            await to_thread.run_sync(self._tools.load_product, beside)
            known.frames = await source_lines_of(beside, toolchain, known.function, compiler.roots.expand)
            known.source, known.path = await to_thread.run_sync(lambda: stored.source_text), stored.record.source
            return ""
        assert known.rendered is not None  # noqa: S101  # the caller has set it
        source = await to_thread.run_sync(lambda: stored.source_text)
        request = compile_request(workspace, unit, known.rendered, awaited=awaited)
        request = replace(request, source=source, symbol=stored.record.symbol)
        found = await to_thread.run_sync(find_lined_code, request, toolchain, store)
        if found is not None:
            return await self._read(known, request, found, toolchain)
        if not compile_it:
            return NOT_YET
        note = CANCELLED
        with side_work or nullcontext():
            async with self._turn:
                # Another kernel of the same artifact may have waited here, too.
                found = await to_thread.run_sync(find_lined_code, request, toolchain, store)
                if found is not None:
                    return await self._read(known, request, found, toolchain)
                note = await self._compile(known, request, toolchain, compiler.builder.ladder, store)
        if note == DOES_NOT_COMPILE:
            self._failed[artifact] = note
        return note

    async def _compile(
        self,
        known: KnownKernel,
        request: CompileRequest,
        toolchain: Toolchain,
        ladder: StagedCompiler | None,
        store: ArtifactStore,
    ) -> str:
        with anyio.CancelScope(shield=True):
            folder = await to_thread.run_sync(store.work_folder)
        try:
            lined = await compile_with_lines(request, toolchain, store, ladder, folder)
            if lined.code_object is not None:
                return await self._read(known, request, lined.code_object, toolchain)
        finally:
            await remove_work_folder(folder)
        failure = lined.failure
        if failure is not None and failure.fault is not None:
            return f"no source lines: {failure.message}"
        return DOES_NOT_COMPILE

    async def _read(self, known: KnownKernel, request: CompileRequest, lined: Path, toolchain: Toolchain) -> str:
        function = await disassemble(lined, toolchain, known.function.symbol)
        if not await to_thread.run_sync(same_instructions, function, known.function):
            return "no source lines: with line tables the compiler makes other code of this kernel"
        frames = await source_lines_of(lined, toolchain, function)
        known.frames = await to_thread.run_sync(transfer_call_chains, frames, function, known.function)
        known.source, known.path = request.source, request.language.source_name
        return ""


@dataclass(eq=False)
class SourceLines:
    """Finds the source lines of the units' present artifacts."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _side_work: SideWork

    def __post_init__(self) -> None:
        self._compiles = LineCompiles(self._tools)

    async def add(
        self,
        known: KnownKernel,
        unit: UnitState,
        result: CompileFacts,
        code_object: Path,
        *,
        compile_it: bool,
        awaited: bool = True,
    ) -> str:
        """Find out where the instructions of a kernel of `result` came from; why that is not known, or "".

        With `compile_it` the device code is compiled when that has not been done. Raises nothing of its own.
        """
        async with known.lock:
            try:
                fresh = unit.present_result is result
                rendered = await self._rendered(unit, result) if fresh else None
                if rendered is None:
                    return STALE if known.frames is None else ""
                known.rendered = rendered
                if known.frames is not None:
                    return ""
                workspace = self._view_loader.workspace(unit.key.scope)
                return await self._compiles.add(
                    *(known, unit.unit, workspace, result.artifact, code_object),
                    compile_it=compile_it, awaited=awaited, side_work=self._side_work.of(unit.key),
                )  # fmt: skip
            except CkwatchError as error:
                return f"no source lines: {error.message}"
            except (OSError, ValueError) as error:
                return f"no source lines: the artifact cannot be read: {error}"

    async def _rendered(self, unit: UnitState, result: CompileFacts) -> Rendered | None:
        """The unit's text, if it still is what the result is of."""
        found = (await self._renders.present(self._loop.state, unit)).rendered
        if found is None or f"{found.symbol}:{found.token_key}" != result.tokens:
            return None
        return found


KERNELS_KEPT = 20
"""Kernels whose instructions are kept; each has some megabytes with its lines."""


@dataclass(eq=False)
class IsaListings:
    """Listings of artifacts."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _analyses: AnalysisQueries
    _lines: SourceLines
    _known: dict[tuple[str, str], KnownKernel] = field(default_factory=dict, init=False)

    async def listing(self, unit: UnitState, name: str | None, *, lines: bool) -> Isa:
        """The listing of a kernel, by its name or symbol, the main one for None; with `lines` it may take a compile.
        Raises CkwatchError for a unit without a code object, and for a kernel that is not in it. A note says why there
        are no lines."""
        result, fresh = unit.compile.result, unit.built is not None  # may change while the report is made
        report = (await self._analyses.analysis(unit)).report
        compiler = self._tools.compiler
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None:
            raise CkwatchError(f"'{unit.key.unit}' no longer has a code object", "build it")
        if compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            raise CkwatchError(self._tools.problem or "there is no ROCm here, whose tools read code objects")
        toolchain = compiler.toolchain
        kernel = _chosen_kernel(report, name, unit.key.unit)
        known = await self._kernel(result.artifact, kernel.resources.symbol, Path(path), toolchain)
        why_not = await self._lines.add(known, unit, result, Path(path), compile_it=lines)
        workspace = self._view_loader.workspace(unit.key.scope)
        folders = (Path(self._loop.state.root), *workspace.template_folders, *toolchain.roots.values())
        roots = {str(folder): str(folder) for folder in folders}
        found = await to_thread.run_sync(_laid_out, known, kernel, roots)
        notes = (*((why_not,) if why_not else ()), *known.notes)
        answer = partial(_answer, found, kernel, notes)
        return await to_thread.run_sync(partial(answer, unit.key.unit, result.key, report, fresh=fresh))

    async def counted(
        self, unit: UnitState, launched: LaunchCounted, result: CompileFacts, *, lines: bool
    ) -> tuple[KernelProfile, ...]:
        """The profiles of the kernels of a launch; with `lines` it may take a compile. Raises CkwatchError as
        `listing`."""
        report = (await self._analyses.analysis(unit)).report
        compiler = self._tools.compiler
        path = result.products.get(ProductKind.CODE_OBJECT.value)
        if path is None or compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            raise CkwatchError(f"'{unit.key.unit}' no longer has a code object", "build it")
        found = []
        for counts in launched.kernels:
            kernel = next((one for one in report.kernels if one.resources.symbol == counts.symbol), None)
            if kernel is None:  # a helper of CK's
                continue
            known = await self._kernel(result.artifact, counts.symbol, Path(path), compiler.toolchain)
            why_not = await self._lines.add(known, unit, result, Path(path), compile_it=lines)
            profile = await to_thread.run_sync(_profiled, known, kernel, counts, report.arch)
            found.append(replace(profile, notes=(*((why_not,) if why_not else ()), *profile.notes)))
        return tuple(found)

    async def instructions(self, unit: UnitState) -> frozenset[str]:
        """The instructions of all kernels of the unit's artifact, as text. Raises CkwatchError as `listing`."""
        report = (await self._analyses.analysis(unit)).report
        result, compiler = unit.compile.result, self._tools.compiler
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None or compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            raise CkwatchError(f"'{unit.key.unit}' no longer has a code object", "build it")
        symbols = [kernel.resources.symbol for kernel in report.kernels]
        known = [await self._kernel(result.artifact, symbol, Path(path), compiler.toolchain) for symbol in symbols]
        return frozenset(one.text for kernel in known for one in kernel.function.instructions)

    async def placed(self, unit: UnitState, found: Verification) -> Verification:
        """A verification of the unit's artifact with the lines of its findings in the present text, as far as they are
        known; it may take a compile."""
        result, compiler = unit.compile.result, self._tools.compiler
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None or compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            return at_inputs(found, unit.unit.kernel)
        for symbol in dict.fromkeys(one.kernel for one in found.findings):
            known = await self._kernel(result.artifact, symbol, Path(path), compiler.toolchain)
            why_not = await self._lines.add(known, unit, result, Path(path), compile_it=True)
            if why_not:
                log.info("findings of %s stand at its instance: %s", unit.key, why_not)
            found = await to_thread.run_sync(_with_places, found, symbol, known)
        return at_inputs(found, unit.unit.kernel)

    async def kernel_lines(self, unit: UnitState, symbol: str, *, awaited: bool) -> LinedKernel | None:
        """A kernel of the unit's artifact with the source lines of its instructions; None where they are not known. It
        may take a compile, which makes way for others unless it is `awaited`."""
        result, compiler = unit.compile.result, self._tools.compiler
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None or compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            return None
        known = await self._kernel(result.artifact, symbol, Path(path), compiler.toolchain)
        why_not = await self._lines.add(known, unit, result, Path(path), compile_it=True, awaited=awaited)
        if why_not:
            log.info("scratch of %s has no lines: %s", unit.key, why_not)
        frames, _ = await to_thread.run_sync(known.lines)
        return None if frames is None else LinedKernel(known.function, frames)

    async def _kernel(self, artifact: str, symbol: str, path: Path, toolchain: Toolchain) -> KnownKernel:
        key = (artifact, symbol)
        known = self._known.pop(key, None)
        if known is None:
            await to_thread.run_sync(self._tools.load_product, path)
            known = KnownKernel(await disassemble(path, toolchain, symbol))
        self._known[key] = known
        if len(self._known) > KERNELS_KEPT:
            del self._known[next(iter(self._known))]
        return known


async def placed_once(
    found: Verification, unit: Unit, rendered: Rendered, workspace: Workspace, result: CompileFacts, tools: BuildTools
) -> Verification:
    """The verification of an artifact with the lines of its findings in the text that it was made from, as far as they
    are known, for a run that asks once. Raises nothing of its own."""
    path, compiler = result.products.get(ProductKind.CODE_OBJECT.value), tools.compiler
    lines = LineCompiles(tools)
    if path is not None and compiler is not None and not isinstance(compiler.toolchain, NvccToolchain):
        for symbol in dict.fromkeys(one.kernel for one in found.findings):
            try:
                known = KnownKernel(await disassemble(Path(path), compiler.toolchain, symbol), rendered=rendered)
                if not await lines.add(known, unit, workspace, result.artifact, Path(path)):
                    found = await to_thread.run_sync(_with_places, found, symbol, known)
            except (CkwatchError, OSError, ValueError) as error:
                log.info("findings of %s stand at its instance: %s", unit.id, error)
    return at_inputs(found, unit.kernel)


def _profiled(known: KnownKernel, kernel: KernelReport, counts: KernelCounts, arch: str) -> KernelProfile:
    frames, rendered = known.lines()
    return counted_profile(known.function, kernel, counts, arch, frames=frames, rendered=rendered)


def _with_places(found: Verification, symbol: str, known: KnownKernel) -> Verification:
    frames, rendered = known.lines()
    return found if frames is None else place_findings(found, symbol, frames, rendered)


def _chosen_kernel(report: CodeObjectReport, name: str | None, unit: str) -> KernelReport:
    main = main_kernel(report)
    if main is None:
        raise CkwatchError(f"'{unit}' has no kernel to show", "; ".join(report.notes) or None)
    if name is None:
        return main
    found = next((one for one in report.kernels if name in (one.resources.name, one.resources.symbol)), None)
    if found is None:
        there = ", ".join(one.resources.name for one in report.kernels)
        raise CkwatchError(f"'{unit}' has no kernel '{name}'", f"it has {there}")
    return found


def _laid_out(known: KnownKernel, kernel: KernelReport, roots: dict[str, str]) -> IsaView:
    frames, rendered = known.lines()
    name = kernel.resources.name
    listing = listing_of(known.function, name=name, main=kernel.loop, frames=frames, rendered=rendered)
    return isa_view(listing, rendered, roots)


def _answer(
    found: IsaView,
    kernel: KernelReport,
    notes: tuple[str, ...],
    unit: str,
    artifact_key: str,
    report: CodeObjectReport,
    *,
    fresh: bool,
) -> Isa:
    return Isa(
        unit=unit,
        artifact_key=artifact_key,
        fresh=fresh,
        kernel=kernel.resources.name,
        kernels=tuple(one.resources.name for one in report.kernels),
        **{one.name: getattr(found, one.name) for one in fields(IsaView)} | {"notes": (*notes, *found.notes)},
    )
