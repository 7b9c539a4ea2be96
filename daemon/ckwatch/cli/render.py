"""`ckwatch render`: a unit's C++ text, or where each piece of it came from."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ckwatch.cli.output import JSON_SCHEMA, Output
from ckwatch.cli.session import one_unit
from ckwatch.config.workspace import find_workspace, load_workspace
from ckwatch.diagnostics.json_form import span_to_json, to_json
from ckwatch.diagnostics.terminal import shown_path
from ckwatch.model.kernel import Unit
from ckwatch.render.outcome import RenderLimits, RenderOutcome
from ckwatch.render.process import RenderPool
from ckwatch.sourcemap import Segment, SourceMap


def run(options: argparse.Namespace) -> int:
    """Print the text, the map, or both as JSON. 1 when the template has errors."""
    workspace = load_workspace(find_workspace(options.workspace or Path.cwd()))
    output = Output(options, workspace.root)
    unit = one_unit(options, workspace)
    settings = workspace.settings.render
    limits = RenderLimits(settings.time_limit_s, settings.output_limit_bytes)
    outcome = anyio.run(partial(_render, workspace.template_folders, unit, limits))
    if options.json:
        output.line(schema=JSON_SCHEMA, unit=unit.id, **_json(outcome))
    elif outcome.rendered is None:
        output.diagnostics(outcome.diagnostics)
    elif options.map:
        _print_map(outcome.rendered.source_map, str(workspace.root))
    else:
        sys.stdout.write(outcome.rendered.text)
    return 0 if outcome.rendered else 1


async def _render(folders: tuple[Path, ...], unit: Unit, limits: RenderLimits) -> RenderOutcome:
    async with RenderPool(folders) as pool:
        return await pool.render(unit, limits)


def _print_map(source_map: SourceMap, root: str) -> None:
    """One line per segment: `rendered-line:column  text  ->  file:line:column  <- chain`, counted from one."""
    for segment in source_map.segments:
        text = source_map.text[segment.start : segment.end]
        position = source_map.lines.position(segment.start)
        shown = repr(text if len(text) <= 40 else text[:37] + "…")[1:-1]
        place = f"{shown_path(segment.site.span.path, root)}:{segment.position}"
        kind = "" if segment.verbatim else f" {segment.site.label!r}"
        doubt = "" if segment.exact else " (approximate)"
        links = []
        for link in source_map.chain(segment.frame):
            round_number = f" round {link.iteration + 1}" if link.iteration >= 0 else ""
            links.append(
                f"{link.site.label!r}{round_number} at {shown_path(link.site.span.path, root)}:{link.site.span.start}"
            )
        chain = "".join(f"\n{'':12}<- {link}" for link in links)
        sys.stdout.write(f"{position!s:>10}  {shown:<42} -> {place}{kind}{doubt}{chain}\n")


def _json(outcome: RenderOutcome) -> dict[str, Any]:
    common: dict[str, Any] = {
        "diagnostics": [to_json(diagnostic) for diagnostic in outcome.diagnostics],
        "read": dict(outcome.read),
        "missed": sorted(outcome.missed),
    }
    rendered = outcome.rendered
    if rendered is None:
        return common | {"text": None}
    return common | {
        "text": rendered.text,
        "symbol": rendered.symbol,
        "token_key": rendered.token_key,
        "map": [_segment(rendered.source_map, segment) for segment in rendered.source_map.segments],
    }


def _segment(source_map: SourceMap, segment: Segment) -> dict[str, Any]:
    return {
        "start": segment.start,
        "end": segment.end,
        "verbatim": segment.verbatim,
        "exact": segment.exact,
        "position": {"line": segment.position.line, "column": segment.position.column},
        "span": span_to_json(segment.site.span),
        "label": segment.site.label,
        "chain": [
            {
                "kind": link.site.kind.value,
                "label": link.site.label,
                "iteration": link.iteration if link.iteration >= 0 else None,
                "span": span_to_json(link.site.span),
            }
            for link in source_map.chain(segment.frame)
        ],
    }
