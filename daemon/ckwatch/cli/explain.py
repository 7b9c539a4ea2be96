"""`ckwatch explain UNIT`: what a unit depends on, and why it is in its state."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ckwatch.build.pipeline import Pipeline
from ckwatch.build.report import UnitReport
from ckwatch.cli.output import JSON_SCHEMA, Output, read_line
from ckwatch.cli.session import one_unit
from ckwatch.compile.builder import Builder
from ckwatch.config.workspace import Workspace, find_workspace, load_workspace
from ckwatch.diagnostics.json_form import span_to_json, to_json
from ckwatch.diagnostics.terminal import shown_path
from ckwatch.model.kernel import Unit
from ckwatch.render.process import RenderPool
from ckwatch.store import Artifact, ArtifactStore, Roots, default_folder
from ckwatch.toolchain import discover

HEADERS_SHOWN = 5


def run(options: argparse.Namespace) -> int:
    """Print the story of one unit; nothing is compiled. 1 when the unit has errors."""
    workspace = load_workspace(find_workspace(options.workspace or Path.cwd()))
    unit = one_unit(options, workspace)
    output = Output(options, workspace.root)
    report, state = anyio.run(partial(_examine, workspace, unit))
    if options.json:
        output.line(schema=JSON_SCHEMA, unit=unit.id, parameters=_parameters(unit), state=state,
                    templates=dict(report.reads or {}), missed=sorted(report.missed),
                    symbol=report.rendered.symbol if report.rendered else None,
                    diagnostics=[to_json(d) for d in report.diagnostics])  # fmt: skip
    else:
        _print(output, workspace, report, state)
    return 1 if report.failed or state.get("outcome") == "failed" else 0


async def _examine(workspace: Workspace, unit: Unit) -> tuple[UnitReport, dict[str, Any]]:
    async with RenderPool(workspace.template_folders) as renderers:
        pipeline = Pipeline(workspace, renderers, read_line)
        report = await pipeline.check(unit)
        if report.rendered is None:
            return report, {"standing": "not rendered: the template has errors"}
        if report.failed:
            return report, {"standing": "rendered, and refused before any compiler ran"}
        return report, await _standing(workspace, pipeline, report)


async def _standing(workspace: Workspace, pipeline: Pipeline, report: UnitReport) -> dict[str, Any]:
    """What the store knows of the unit as it is now."""
    assert report.rendered is not None  # noqa: S101  # the caller has looked
    settings = workspace.settings
    toolchain = discover(settings.toolchain, os.environ)
    with ArtifactStore(settings.store.folder or default_folder(), settings.store.size_limit_bytes) as store:
        builder = Builder(toolchain, store)
        key = await builder.key(pipeline.request(report.unit, report.rendered))
        roots = Roots(toolchain.roots)
        state: dict[str, Any] = {
            "key": key,
            "compiler": f"clang {toolchain.clang_version}, HIP {toolchain.hip_version}",
        }
        look = builder.look()
        changed = store.changed_headers(key, roots, look)
        artifact = store.lookup(key, roots, look)
        if artifact is not None:
            return state | _stored(artifact, len(headers.present) if (headers := store.headers_of(artifact)) else 0)
        if changed:
            return state | {"standing": "must be compiled: headers have changed", "changed_headers": changed[0]}
        why = "never compiled with these tokens, flags, arch, compiler and include folders"
        return state | {"standing": f"must be compiled: {why}"}


def _stored(artifact: Artifact, headers: int) -> dict[str, Any]:
    record = artifact.record
    return {
        "standing": "in the store: nothing to do",
        "outcome": "built" if artifact.ok else "failed",
        "compiled_in_s": round(record.duration_s, 2),
        "peak_memory_bytes": record.peak_memory_bytes,
        "headers_read": headers,
        "exports": list(record.exports),
        "commands": [list(command.arguments) for command in record.commands],
        "products": {name: str(artifact.folder / file) for name, file in artifact.products.items()},
    }


def _parameters(unit: Unit) -> dict[str, Any]:
    spans = unit.instance.spans
    return {
        name: {"value": value, "span": span_to_json(spans[name]) if name in spans else None}
        for name, value in unit.instance.parameters.items()
    }


def _print(output: Output, workspace: Workspace, report: UnitReport, state: dict[str, Any]) -> None:
    unit = report.unit
    root = str(workspace.root)
    output.text(unit.id, "bold")
    output.text(f"  instance   {shown_path(unit.instance.span.path, root)}:{unit.instance.span.start}")
    for name, value in unit.instance.parameters.items():
        span = unit.instance.spans.get(name)
        place = f"  ({shown_path(span.path, root)}:{span.start})" if span else ""
        output.text(f"    {name} = {value}{place}")
    output.text(f"  templates  {len(report.reads or {})} files read")
    for path, digest in (report.reads or {}).items():
        output.text(f"    {digest[:12]}  {shown_path(path, root)}")
    for path in sorted(report.missed):
        output.text(f"    would be read instead if it existed: {shown_path(path, root)}")
    if report.rendered:
        output.text(f"  symbol     {report.rendered.symbol}")
        output.text(f"  tokens     {report.rendered.token_key[:12]}")
    for name in ("compiler", "key", "outcome", "compiled_in_s", "headers_read"):
        if name in state:
            output.text(f"  {name:<10} {state[name]}")
    for name, path in state.get("products", {}).items():
        output.text(f"    {name}: {path}")
    changed = state.get("changed_headers", [])
    for path in changed[:HEADERS_SHOWN]:
        output.text(f"    changed: {path}")
    if len(changed) > HEADERS_SHOWN:
        output.text(f"    and {len(changed) - HEADERS_SHOWN} more")
    output.text(f"  state      {state['standing']}", "bold")
    output.diagnostics(report.diagnostics)
