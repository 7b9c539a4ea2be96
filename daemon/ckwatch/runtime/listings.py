"""The disassembly of a unit's kernels, for people to read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.analysis.isa import Shown, shown
from ckwatch.analysis.listing import listing_of
from ckwatch.analysis.prediction import main_kernel
from ckwatch.analysis.report import CodeObjectReport, KernelReport
from ckwatch.analyze.listing import function_of
from ckwatch.compile.request import ProductKind
from ckwatch.errors import CkwatchError
from ckwatch.machine.state import UnitState
from ckwatch.runtime.analyses import Analyses
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.shown import span_of
from ckwatch.runtime.source_lines import KnownKernel, SourceLines
from ckwatch.runtime.tools import Tools
from ckwatch.toolchain.nvcc import NvccToolchain
from ckwatch.wire.analysis import Isa, IsaFold, IsaLine

KEPT = 20
"""Kernels whose instructions are kept; each has some megabytes with its lines."""


class Listings:
    """Listings of artifacts."""

    def __init__(self, runtime: Runtime, tools: Tools, analyses: Analyses) -> None:
        self._runtime = runtime
        self._tools = tools
        self._analyses = analyses
        self._lines = SourceLines(runtime, tools)
        self._known: dict[tuple[str, str], KnownKernel] = {}

    async def of(self, unit: UnitState, name: str | None, *, lines: bool) -> Isa:
        """The listing of a kernel, by its name or symbol, the main one for None; with `lines` it may take a compile.

        Raises CkwatchError for a unit without a code object, and for a kernel that is not in it. Why there are no
        lines is told in a note.
        """
        result, fresh = unit.result, unit.fresh  # may change while the report is made
        report = (await self._analyses.of(unit)).report
        compiler = self._tools.compiler
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None:
            raise CkwatchError(f"'{unit.key.unit}' has no code object any more", "build it")
        if compiler is None or isinstance(compiler.toolchain, NvccToolchain):
            raise CkwatchError(self._tools.problem or "there is no ROCm here, whose tools read code objects")
        toolchain = compiler.toolchain
        kernel = _chosen(report, name, unit.key.unit)
        key = (result.artifact, kernel.resources.symbol)
        known = self._known.pop(key, None)
        if known is None:
            await to_thread.run_sync(self._tools.load_product, Path(path))
            known = KnownKernel(await function_of(Path(path), toolchain, key[1]))
        self._known[key] = known
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        why_not = await self._lines.add(known, unit, result, Path(path), compile_it=lines)
        workspace = self._runtime.workshop.loads.workspace(unit.key.scope)
        folders = (Path(self._runtime.state.root), *workspace.template_folders, *toolchain.roots.values())
        roots = {str(folder): str(folder) for folder in folders}
        found = await to_thread.run_sync(_laid_out, known, kernel, roots)
        notes = (*((why_not,) if why_not else ()), *known.notes)
        answer = partial(_answer, found, kernel, notes)
        return await to_thread.run_sync(partial(answer, unit.key.unit, result.key, report, fresh=fresh))


def _chosen(report: CodeObjectReport, name: str | None, unit: str) -> KernelReport:
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


def _laid_out(known: KnownKernel, kernel: KernelReport, roots: dict[str, str]) -> Shown:
    frames, rendered = known.lines()
    name = kernel.resources.name
    listing = listing_of(known.function, name=name, main=kernel.loop, frames=frames, rendered=rendered)
    return shown(listing, rendered, roots)


def _answer(
    found: Shown,
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
        text=found.text,
        lines=tuple(
            IsaLine.model_construct(
                line=one.line,
                rendered=one.rendered,
                span=None if one.span is None else span_of(one.span),
                header=one.header,
                mnemonic=one.mnemonic,
                explanation=one.explanation,
            )
            for one in found.lines
        ),
        folds=tuple(
            IsaFold(start=one.start, end=one.end, kind=one.kind, label=one.label, main=one.main) for one in found.folds
        ),
        mnemonics=dict(found.mnemonics),
        has_lines=found.has_lines,
        notes=(*notes, *found.notes),
    )
