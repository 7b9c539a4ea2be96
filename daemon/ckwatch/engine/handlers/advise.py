"""Advise: finds out why the kernels of a unit spill or have few waves, and publishes only what a compile has confirmed.

The device code of the rendered text is compiled with a changed declaration, beside the unit and with the niceness of
what no client waits for. Results are kept in the store by content; texts that do not compile are remembered. Units of a
kernel file whose kernel is declared alike have the same reason: one of them is looked into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from ckwatch.checks.device_code.declarations import KernelDeclaration
from ckwatch.checks.device_code.private_arrays import UNROLL
from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import DisassembledFunction
from ckwatch.codeobject.kernel_sources import BoundText, LimitedKernel, SourceTexts, bound_text, kernel_sources
from ckwatch.codeobject.limit_hints import (
    LdsLimit,
    Remedy,
    figures_sentence,
    is_better,
    lds_limit,
    remedies,
    spill_sentence,
)
from ckwatch.codeobject.metadata import read_metadata
from ckwatch.codeobject.occupancy import occupancy_of
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, KernelResources
from ckwatch.codeobject.report_diff import changed_figures
from ckwatch.codeobject.scratch_places import ScratchArray, ScratchUse, is_less_scratch, scratch_use, unroll_edits
from ckwatch.codeobject.source_lines import CallChain
from ckwatch.compile.line_tables import compile_device_code, find_device_code
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.work_folder import remove_work_folder
from ckwatch.core.effects import Advise
from ckwatch.core.events import AdviseFinished, ArtifactAdvice, CompileFacts, UnitKey
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.analyze import ReportCache
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language, language_of
from ckwatch.render.outcome import Rendered
from ckwatch.system.user_files import read_file

LAUNCH_BOUNDS = "performance/launch-bounds"
SCRATCH = "performance/scratch"
LDS_OCCUPANCY = "performance/lds-occupancy"

SHOWN_ARRAYS = 3

COMPILES = 3
"""Compiles of one unit's changes at most, each of one change of each kernel."""

HEADERS_LIMIT_BYTES = 1 << 20
"""Headers of a unit's own that are read for declarations."""

CODE_OBJECT_LIMIT_BYTES = 1 << 28

FAILED_KEPT = 1000
KINDS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class _Subject:
    """A unit's artifact with its report and texts."""

    unit: Unit
    arch: str
    request: CompileRequest
    report: CodeObjectReport
    texts: SourceTexts
    kernels: tuple[LimitedKernel, ...]

    def diagnostic(
        self, severity: Severity, code: str, message: str, place: tuple[int, int], **more: object
    ) -> Diagnostic:
        """A message at [start, end) of the texts; at the instance if nothing there has a place."""
        found = self.texts.place(*place)
        related = [Related("in this instance", self.unit.instance.span)]
        if found is not None:
            related += found.chain
        one = Diagnostic(
            *(severity, Source.PERFORMANCE, code, message),
            self.unit.instance.span if found is None else found.span,
            tuple(related),
            units=(self.unit.id,),
            unit_count=1,
            approximate=found is not None and found.approximate,
        )
        return replace(one, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class LinedKernel:
    """The instructions of a kernel, and the call chains of their source lines by their addresses."""

    function: DisassembledFunction
    frames: Mapping[int, CallChain]


class KernelLines(Protocol):
    """Finds the source lines of a kernel's instructions by its symbol; None where they are not known."""

    async def __call__(self, unit: UnitState, symbol: str, *, awaited: bool) -> LinedKernel | None: ...


@dataclass(eq=False)
class AdviceFinder:
    """Finds advice, for one unit at a time."""

    _state: State
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _reports: ReportCache
    _kernel_lines: KernelLines
    _failed: dict[str, None] = field(default_factory=dict, init=False)
    _looked_into: dict[tuple[str, ...], UnitKey] = field(default_factory=dict, init=False)

    async def advise(self, effect: Advise) -> AdviseFinished:
        """Advice on a unit's artifact; None where its text or the compiler is not there any more. Raises CkwatchError
        when the host cannot, LostArtifactError when the store lost the artifact."""
        unit = self._state.find(effect.work.key)
        compiler = self._tools.compiler
        if unit is None or compiler is None or language_of(effect.unit.kernel.template) is not Language.HIP:
            return AdviseFinished(effect.work, None)
        generation = unit.input.generation
        subject = await self._subject(unit, effect.result, compiler, awaited=effect.awaited)
        if subject is None:
            return AdviseFinished(effect.work, None)
        found = [one for source in subject.kernels for one in _lds_diagnostics(subject, source)]
        found += await self._scratch(subject, unit, compiler, awaited=effect.awaited)
        spilled = [
            one
            for one in subject.kernels
            if one.kernel.resources.vgpr_spills and not self._is_looked_into(unit, one, LAUNCH_BOUNDS)
        ]
        found += await self._spills(subject, spilled, compiler)
        advice = ArtifactAdvice(effect.result.artifact, effect.work.key, generation, tuple(found))
        return AdviseFinished(effect.work, advice)

    async def _subject(
        self, unit: UnitState, result: CompileFacts, compiler: CompilerWithStore, *, awaited: bool
    ) -> _Subject | None:
        rendered = (await self._renders.awaited(self._state, unit)).rendered
        if rendered is None or f"{rendered.symbol}:{rendered.token_key}" != result.tokens:
            return None
        path = Path(result.products[ProductKind.CODE_OBJECT.value])
        report = await self._reports.report(result.artifact, path, unit.unit.arch, unit.unit)
        workspace = self._view_loader.workspace(unit.key.scope)
        request = compile_request(workspace, unit.unit, rendered, awaited=awaited)
        roots = [str(root) for root in compiler.toolchain.roots.values() if root != workspace.root]
        present = {} if result.headers is None else result.headers.present
        own = [path for path in present if not any(path.startswith(f"{root}/") for root in roots)]
        make = partial(
            _make_subject, unit.unit, request, report, rendered, [one for one in own if _is_own(one, request)]
        )
        return await to_thread.run_sync(make)

    def _is_looked_into(self, unit: UnitState, source: LimitedKernel, why: str) -> bool:
        """Return True if another unit of the kernel file, whose kernel is declared alike, has advice; else this one
        is."""
        name, bounds = source.declared[0].name, [bound.arguments for bound in source.declared[0].bounds]
        kind = (why, unit.unit.kernel.name, unit.unit.arch, name, repr([[one.text for one in each] for each in bounds]))
        other = self._looked_into.get(kind, unit.key)
        known = None if other == unit.key else self._state.find(other)
        latest, result = (None, None) if known is None else (known.advice.latest, known.compile.result)
        if latest is not None and result is not None and latest.artifact == result.artifact:
            return True
        self._looked_into[kind] = unit.key
        if len(self._looked_into) > KINDS_KEPT:
            del self._looked_into[next(iter(self._looked_into))]
        return False

    async def _spills(
        self, subject: _Subject, spilled: Iterable[LimitedKernel], compiler: CompilerWithStore
    ) -> list[Diagnostic]:
        """The changes that a compile confirms. One compile tries a change of each kernel: they do not depend on each
        other."""
        left = {one.kernel.resources.symbol: _Trial.all_of(subject, one) for one in spilled}
        found: list[Diagnostic] = []
        for _ in range(COMPILES):
            left = {symbol: trials for symbol, trials in left.items() if trials}
            chosen = _together([trials[0] for trials in left.values()])
            request = _changed(subject, chosen)
            after = None if request is None else await self._compiled(request, compiler)
            if after is None and len(chosen) > 1:  # one of them does not compile
                chosen = chosen[:1]
                request = _changed(subject, chosen)
                after = None if request is None else await self._compiled(request, compiler)
            for trial in chosen:
                symbol = trial.source.kernel.resources.symbol
                made = (after or {}).get(symbol)
                left[symbol] = left[symbol][1:]
                if made is not None and is_better(trial.source.kernel.resources, made.resources, trial.remedy):
                    found.append(_spill_diagnostic(subject, trial, made))
                    left[symbol] = []
        return found

    async def _scratch(
        self, subject: _Subject, unit: UnitState, compiler: CompilerWithStore, *, awaited: bool
    ) -> list[Diagnostic]:
        """The arrays in the scratch of kernels that spill nothing."""
        found: list[Diagnostic] = []
        for source in subject.kernels:
            resources = source.kernel.resources
            if not resources.scratch_bytes or resources.vgpr_spills or len(found) >= SHOWN_ARRAYS:
                continue
            known = None
            if not self._is_looked_into(unit, source, SCRATCH):
                known = await self._kernel_lines(unit, resources.symbol, awaited=awaited)
            if known is not None:
                use = await to_thread.run_sync(scratch_use, known.function, known.frames, subject.texts)
                found += await self._scratch_of(subject, source, use, compiler)
        return found

    async def _scratch_of(
        self, subject: _Subject, source: LimitedKernel, use: ScratchUse, compiler: CompilerWithStore
    ) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        for array in use.arrays[:SHOWN_ARRAYS]:
            after = await self._unrolled(subject, array, compiler, source.kernel.resources)
            found.append(_array_diagnostic(subject, source, array, after))
        if not found and use.lines:
            text = f"{_scratch_words(source)}, which is accessed here"
            found.append(subject.diagnostic(Severity.INFORMATION, SCRATCH, text, use.lines[0]))
        called = (Related("the kernel calls a function that is not inlined", None),) if use.calls else ()
        return [replace(one, related=(*called, *one.related)) for one in found]

    async def _unrolled(
        self, subject: _Subject, array: ScratchArray, compiler: CompilerWithStore, before: KernelResources
    ) -> KernelReport | None:
        """The kernel with the loops unrolled that index an array, where a compile has confirmed that this helps."""
        edits = unroll_edits(array, subject.texts)
        source = subject.texts.edited(edits) if edits else None
        if source is None:
            return None
        made = await self._compiled(replace(subject.request, source=source), compiler) or {}
        after = made.get(before.symbol)
        return after if after is not None and is_less_scratch(before, after.resources) else None

    async def _compiled(
        self, request: CompileRequest, compiler: CompilerWithStore
    ) -> Mapping[str, KernelReport] | None:
        """The kernels of a changed request by their symbols; None where it does not compile."""
        toolchain, store = compiler.toolchain, self._tools.store
        identity = hashlib.sha256("\0".join((request.source, request.arch, *request.flags)).encode("utf-8", "replace"))
        key = identity.hexdigest()
        if store is None or not isinstance(toolchain, Toolchain) or key in self._failed:
            return None
        path = await to_thread.run_sync(find_device_code, request, toolchain, store)
        if path is not None:
            return await to_thread.run_sync(_kernels_in, path, request.arch)
        with anyio.CancelScope(shield=True):
            folder = await to_thread.run_sync(store.work_folder)
        # A flag that other code is made by fits no precompiled header.
        ladder = None if request.flags and request.flags[-1].startswith(_MOST_THREADS) else compiler.builder.ladder
        try:
            made = await compile_device_code(request, toolchain, store, ladder, folder)
            if made.code_object is not None:
                return await to_thread.run_sync(_kernels_in, made.code_object, request.arch)
        finally:
            await remove_work_folder(folder)
        if made.failure is None or made.failure.fault is None:
            self._failed[key] = None
            if len(self._failed) > FAILED_KEPT:
                del self._failed[next(iter(self._failed))]
        return None


_MOST_THREADS = "--gpu-max-threads-per-block="
"""clang's flag for kernels that say nothing of their threads."""


def _is_own(path: str, request: CompileRequest) -> bool:
    return any(path.startswith(f"{folder}/") for folder in request.include_folders)


def _make_subject(
    unit: Unit, request: CompileRequest, report: CodeObjectReport, rendered: Rendered, headers: Iterable[str]
) -> _Subject:
    """Read the headers and find the kernels. Blocks; call from a worker thread."""
    file = RenderedFile(request.language.source_name, rendered.source_map)
    texts = SourceTexts(file, dict(_read(headers)))
    return _Subject(
        unit, unit.arch.partition(":")[0], request, report, texts, tuple(kernel_sources(report.kernels, texts))
    )


def _read(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    left = HEADERS_LIMIT_BYTES
    for path in paths:
        with suppress(OSError):
            content = read_file(path, left)
            left -= len(content)
            yield path, content.decode("utf-8", "replace")


def _kernels_in(path: Path, arch: str) -> dict[str, KernelReport] | None:
    try:
        found = read_metadata(read_file(path, CODE_OBJECT_LIMIT_BYTES))
    except (OSError, ValueError):
        return None
    plain = arch.partition(":")[0]
    return {
        one.symbol: KernelReport(resources=one, occupancy=occupancy_of(one, plain, cu_mode=one.symbol in found.cu_mode))
        for one in found.kernels
    }


@dataclass(frozen=True, slots=True)
class _Trial:
    """A change of a kernel's declaration that may help; `most_threads` stands for it where it is in a header."""

    source: LimitedKernel
    declared: KernelDeclaration
    remedy: Remedy
    bound: BoundText | None
    most_threads: int | None

    @classmethod
    def all_of(cls, subject: _Subject, source: LimitedKernel) -> list[_Trial]:
        """Those that can be made, the likeliest first. In a header only a kernel without any bound can have another
        one: by a flag."""
        found = []
        for declared in source.declared:
            bound = None if source.size is None else bound_text(subject.texts, declared, source.size)
            threads = None if source.size is None else source.size.threads
            for remedy in remedies(source.kernel, declared, threads, None if bound is None else bound.compiled):
                here = subject.texts.edited(remedy.edits) is not None
                if here or (remedy.threads is not None and not declared.bounds):
                    found.append(cls(source, declared, remedy, bound, None if here else remedy.threads))
        return found


def _together(trials: Iterable[_Trial]) -> list[_Trial]:
    """Those that one compile can try: of other text each, and with one flag."""
    found: list[_Trial] = []
    for one in trials:
        edited = {edit for other in found if other.most_threads is None for edit in other.remedy.edits}
        flags = {other.most_threads for other in found} - {None}
        alike = one.most_threads in flags or not flags
        if alike if one.most_threads is not None else edited.isdisjoint(one.remedy.edits):
            found.append(one)
    return found


def _changed(subject: _Subject, trials: Iterable[_Trial]) -> CompileRequest | None:
    """The request with all of these changes; None without any."""
    chosen = list(trials)
    edits = [edit for one in chosen if one.most_threads is None for edit in one.remedy.edits]
    source = subject.texts.edited(edits)
    flags = {f"{_MOST_THREADS}{one.most_threads}" for one in chosen if one.most_threads is not None}
    if not chosen or source is None:
        return None
    return replace(subject.request, source=source, flags=(*subject.request.flags, *flags))


def _spill_diagnostic(subject: _Subject, trial: _Trial, after: KernelReport) -> Diagnostic:
    source, declared, remedy = trial.source, trial.declared, trial.remedy
    one = subject.diagnostic(
        Severity.INFORMATION,
        LAUNCH_BOUNDS,
        f"`{declared.name}`: {spill_sentence(source.kernel, after, remedy)}",
        (declared.start, declared.end),
        fixes=_fixes(subject, remedy, trial.bound),
        detail="\n".join((f"in {source.kernel.resources.name}", *changed_figures(source.kernel, after))),
    )
    return replace(one, related=(*_about_launches(subject, source, remedy), *one.related))


def _about_launches(subject: _Subject, source: LimitedKernel, remedy: Remedy) -> Iterator[Related]:
    if remedy.threads is None:
        return
    if source.size is None:
        text = (
            "how many threads its launches use is not known: the text says it in no constant; "
            f"launches of more than {remedy.threads:,} threads fail with this bound"
        )
        yield Related(text, None)
        return
    text = f"it is launched with {source.size.threads:,} threads per workgroup"
    place = None if source.size.block is None else subject.texts.place(*source.size.block)
    yield Related(text, None if place is None else place.span)


def _fixes(subject: _Subject, remedy: Remedy, bound: BoundText | None) -> tuple[Fix, ...]:
    """The edits of the template; none where they would be wrong for other instances or launches."""
    if remedy.threads is not None and bound is None:
        return ()
    found = []
    for edit in remedy.edits:
        fix = subject.texts.fix(edit)
        if fix is None:
            return ()
        text = fix.text if bound is None or remedy.threads is None else fix.text.replace(bound.compiled, bound.written)
        found.append(replace(fix, text=text))
    return tuple(found)


def _lds_diagnostics(subject: _Subject, source: LimitedKernel) -> Iterator[Diagnostic]:
    size = None if source.size is None else source.size.threads
    limit: LdsLimit | None = lds_limit(source.kernel, subject.arch, size)
    declared = source.declared[0]
    if limit is None or len(source.declared) > 1 or source.kernel.resources.vgpr_spills:
        return  # without its spills a kernel has other registers
    arrays = declared.shared
    place = (arrays[0].start, arrays[0].end) if len(arrays) == 1 else (declared.start, declared.end)
    yield subject.diagnostic(Severity.HINT, LDS_OCCUPANCY, f"`{declared.name}`: {limit}", place)


def _scratch_words(source: LimitedKernel) -> str:
    return f"`{source.declared[0].name}` has {source.kernel.resources.scratch_bytes:,} bytes of scratch per lane"


def _array_diagnostic(
    subject: _Subject, source: LimitedKernel, array: ScratchArray, after: KernelReport | None
) -> Diagnostic:
    """An array in scratch, at its declaration; `after` is the kernel with its loops unrolled, if that helps."""
    one = next((access for access in array.accesses if access.others), array.accesses[0])
    place = subject.texts.place(one.start, one.end)
    line = "" if place is None else f" (line {place.span.start.line + 1})"
    unknown = ", which is not known at compile time" if array.by_lane else ""
    why = f"lies in memory, indexed by `{one.index}`{unknown}{line}"
    text = f"{_scratch_words(source)}: `{one.name}` {why}"
    fixes: tuple[Fix, ...] = ()
    if after is not None:
        text += f"; compiled with `{UNROLL}` before {count(len(array.unrollable), 'loop')} that index it: "
        text += figures_sentence(source.kernel, after)
        found = [subject.texts.fix(edit) for edit in unroll_edits(array, subject.texts)]
        fixes = tuple(fix for fix in found if fix is not None) if None not in found else ()
    made = subject.diagnostic(*(Severity.INFORMATION, SCRATCH, text, (one.declared_at, one.declared_end)), fixes=fixes)
    related = () if place is None else (Related("it is indexed here", place.span),)
    return replace(made, related=(*related, *made.related))
