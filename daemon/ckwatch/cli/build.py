"""`ckwatch check` and `ckwatch build`."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from ckwatch.build.pipeline import Compiling, Pipeline
from ckwatch.build.report import BuildReport, UnitReport
from ckwatch.cli.output import JSON_SCHEMA, Output, read_line
from ckwatch.cli.session import Session, default_jobs, open_session
from ckwatch.cli.signals import stoppable
from ckwatch.diagnostics.json_form import to_json
from ckwatch.errors import CkwatchError
from ckwatch.model.outcome import Outcome
from ckwatch.render.process import RenderPool


def check(options: argparse.Namespace) -> int:
    """Everything that shows without a compiler."""
    return anyio.run(partial(_run, options, compiling=False))


def build(options: argparse.Namespace) -> int:
    """Compile, and copy products out where asked."""
    if (options.aot or options.runner) and not options.out:
        raise CkwatchError("--aot and --runner need a folder to write to", "add --out DIR")
    return anyio.run(partial(_run, options, compiling=True))


async def _run(options: argparse.Namespace, *, compiling: bool) -> int:
    async with stoppable():
        return await _run_units(options, compiling=compiling)


async def _run_units(options: argparse.Namespace, *, compiling: bool) -> int:
    session = open_session(options, options.words)
    output = Output(options, session.workspace.root)
    async with RenderPool(session.workspace.template_folders) as renderers:
        if session.units and not compiling:
            # A build may find every render in its cache and need no worker.
            await renderers.start()
        if compiling:
            from ckwatch.cli.compiling import open_compiling  # `check` needs no toolchain

            jobs = options.jobs or session.workspace.settings.compile.jobs or default_jobs()
            async with open_compiling(options, session, jobs) as (toolchain, how):
                report = await _build(session, renderers, output, how, rules=not options.no_rules)
                if options.out:
                    from ckwatch.cli.export import export

                    await export(options, renderers, toolchain, report, output)
        else:
            report = await _build(session, renderers, output, None)
    _finish(report, output)
    return report.exit_status


async def _build(
    session: Session, renderers: RenderPool, output: Output, how: Compiling | None, *, rules: bool = True
) -> BuildReport:
    pipeline = Pipeline(session.workspace, renderers, read_line, how, rules=rules)
    if output.json:
        output.line(event="start", schema=JSON_SCHEMA, units=[unit.id for unit in session.units])
        return await pipeline.run(
            session.units, lambda _unit, _phase: None, lambda report: output.line(event="unit", **unit_json(report))
        )
    from ckwatch.cli.progress import Progress

    with Progress(output, session.units) as progress:
        return await pipeline.run(session.units, progress.phase, progress.ended)


def unit_json(report: UnitReport) -> dict[str, object]:
    """A unit's result as JSON values."""
    return {
        "unit": report.unit.id,
        "kernel": report.unit.kernel.name,
        "instance": report.unit.instance.name,
        "arch": report.unit.arch,
        "outcome": report.outcome.value,
        "from_store": report.from_store,
        "seconds": round(report.seconds, 4),
        "symbol": report.rendered.symbol if report.rendered else None,
        "key": report.key or None,
        "products": products_of(report),
        "diagnostics": [to_json(diagnostic) for diagnostic in report.diagnostics],
    }


def products_of(report: UnitReport) -> dict[str, str]:
    """Where each product of a unit lies in the store."""
    artifact = report.artifact
    if artifact is None:
        return {}
    return {name: str(artifact.folder / file) for name, file in artifact.products.items()}


def _finish(report: BuildReport, output: Output) -> None:
    counts = {outcome.value: report.count(outcome) for outcome in Outcome}
    from_store = sum(unit.from_store for unit in report.units)
    if output.json:
        # Each unit's own diagnostics went with the unit; these are the workspace's.
        output.diagnostics(report.workspace_diagnostics)
        status = report.exit_status
        output.line(
            event="summary", units=len(report.units), **counts, from_store=from_store,
            seconds=round(report.seconds, 4), exit_status=status,
        )  # fmt: skip
        return
    output.diagnostics(report.diagnostics)
    told = [f"{count} {name}" for name, count in counts.items() if count]
    if from_store:
        told.append(f"{from_store} from the store")
    units = f"{len(report.units)} unit{'s' if len(report.units) != 1 else ''}"
    output.text(f"{units}: {', '.join(told) or 'nothing to do'} in {report.seconds:.2f} s")
