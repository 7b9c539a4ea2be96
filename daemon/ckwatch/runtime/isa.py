"""The disassembly of a unit's kernels, for people to read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyio import TemporaryDirectory, to_thread

from ckwatch.analysis.disassembly import Function, functions
from ckwatch.analysis.isa import Shown, shown
from ckwatch.analysis.listing import listing_of
from ckwatch.analysis.prediction import main_kernel
from ckwatch.analysis.report import CodeObjectReport, KernelReport
from ckwatch.compile.processes import Verdict, run_process
from ckwatch.compile.request import ProductKind
from ckwatch.errors import CkwatchError
from ckwatch.machine.state import UnitState
from ckwatch.runtime.analyses import Analyses
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.shown import span_of
from ckwatch.runtime.tools import Tools
from ckwatch.toolchain import Toolchain
from ckwatch.wire.analysis import Isa, IsaFold, IsaLine

_TIME_LIMIT_S = 60.0
_OUTPUT_LIMIT_BYTES = 64 * 2**20


class Isas:
    """Listings of artifacts."""

    def __init__(self, runtime: Runtime, tools: Tools, analyses: Analyses) -> None:
        self._runtime = runtime
        self._tools = tools
        self._analyses = analyses

    async def of(self, unit: UnitState, symbol: str | None, *, lines: bool) -> Isa:
        """The listing of a kernel, by its name or symbol, the main one for None.

        Raises CkwatchError for a unit without a code object, and for a kernel that is not in it.
        """
        report = (await self._analyses.of(unit)).report
        kernel = _chosen(report, symbol, unit.key.unit)
        result, compiler = unit.result, self._tools.compiler
        assert result is not None  # noqa: S101  # there is a report
        assert compiler is not None  # noqa: S101
        assert isinstance(compiler.toolchain, Toolchain)  # noqa: S101
        path = Path(result.products[ProductKind.CODE_OBJECT.value])
        text = await _disassembly(path, compiler.toolchain, kernel.resources.symbol)
        laid_out = await to_thread.run_sync(partial(_laid_out, text, kernel))
        notes = ("source lines are not known",) if lines else ()
        return await to_thread.run_sync(partial(_wire, unit, report, kernel, laid_out, notes))


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


async def _disassembly(path: Path, toolchain: Toolchain, symbol: str) -> str:
    arguments = [str(toolchain.objdump), "-d", f"--disassemble-symbols={symbol}", str(path)]
    async with TemporaryDirectory(prefix="ckwatch-isa-") as folder:
        done = await run_process(
            arguments,
            environment=toolchain.environment,
            folder=Path(folder),
            timeout_s=_TIME_LIMIT_S,
            output_limit_bytes=_OUTPUT_LIMIT_BYTES,
        )
    if done.verdict is not Verdict.EXITED or done.exit_status != 0:
        said = done.stderr.strip().splitlines()[-1:] or [done.verdict.value]
        raise CkwatchError(f"llvm-objdump failed: {said[0]}")
    return done.stdout


def _laid_out(text: str, kernel: KernelReport) -> Shown:
    symbol = kernel.resources.symbol
    function = next(iter(functions(text, [symbol])), Function(symbol, 0, ()))
    return shown(listing_of(function, name=kernel.resources.name, main=kernel.loop))


def _wire(unit: UnitState, report: CodeObjectReport, kernel: KernelReport, found: Shown, notes: tuple[str, ...]) -> Isa:
    return Isa(
        unit=unit.key.unit,
        artifact_key="" if unit.result is None else unit.result.key,
        fresh=unit.fresh,
        kernel=kernel.resources.name,
        kernels=tuple(one.resources.name for one in report.kernels),
        text=found.text,
        lines=tuple(
            IsaLine(
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
            IsaFold.model_validate(
                {"start": one.start, "end": one.end, "kind": one.kind, "label": one.label, "main": one.main}
            )
            for one in found.folds
        ),
        mnemonics=dict(found.mnemonics),
        has_lines=found.has_lines,
        notes=notes,
    )
