"""`ckwatch explain UNIT`: what a unit depends on, and why it is in its state; `--time`: where its compile time goes."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from ckwatch.cli import compile_time
from ckwatch.cli.connecting import connected, one_unit, start_of
from ckwatch.cli.from_wire import diagnostic_of, span_of
from ckwatch.cli.output import JSON_SCHEMA, Output
from ckwatch.cli.signals import stoppable
from ckwatch.client import Client
from ckwatch.diagnostics.json_form import span_to_json, to_json
from ckwatch.diagnostics.terminal import shown_path

if TYPE_CHECKING:
    from ckwatch.wire.messages import TimeTrace, UnitDetail
    from ckwatch.wire.values import Figures


def run(options: argparse.Namespace) -> int:
    """Print the story of one unit, or where its compile time goes; 1 when the unit has errors."""
    return anyio.run(partial(_run, options))


async def _run(options: argparse.Namespace) -> int:
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, ())
        target = None if options.trace is None else await to_thread.run_sync(options.trace.absolute)
        async with connected(options, start) as client:
            unit = await one_unit(client, options.unit)
            await client.check(unit)
            output = Output(options, client.root)
            trace = None
            if options.time or target is not None:
                trace = await _trace(client, unit, target, output)
                if not options.json:
                    return _print_time(output, trace)
            detail = await client.unit(unit)
            compiler = (await client.workspace()).toolchain
    state = _state(detail, compiler)
    failed = detail.unit.outcome == "failed" or bool(detail.unit.errors)
    found = detail.diagnostics
    if options.json:
        more = {}
        if trace is not None:
            failed, found = not trace.passes, trace.diagnostics
            more["time"] = compile_time.to_json(trace)
        output.line(schema=JSON_SCHEMA, unit=unit, parameters=_parameters(detail), state=state,
                    templates=detail.reads, missed=list(detail.missed), symbol=detail.unit.symbol,
                    figures=None if detail.unit.figures is None else detail.unit.figures.model_dump(mode="json"),
                    cause=[{"what": cause.what, "at": cause.at} for cause in detail.cause],
                    diagnostics=[to_json(diagnostic_of(one)) for one in found], **more)  # fmt: skip
    else:
        _print(output, detail, state)
    return 1 if failed else 0


async def _trace(client: Client, unit: str, target: Path | None, output: Output) -> TimeTrace:
    if output.json or not sys.stdout.isatty():
        return await client.time_trace(unit, target)
    with output.console.status("compiling, to see where the time goes"):
        return await client.time_trace(unit, target)


def _print_time(output: Output, trace: TimeTrace) -> int:
    output.text(trace.unit, "bold")
    output.diagnostics([diagnostic_of(found) for found in trace.diagnostics])
    if not trace.passes:
        output.text("does not compile, so there is no time to tell of")
        return 1
    for line, style in compile_time.table(trace):
        output.text(line, style)
    if trace.path is not None:
        output.text(f"wrote {trace.path}")
    return 0


def _state(detail: UnitDetail, compiler: str | None) -> dict[str, Any]:
    unit = detail.unit
    state: dict[str, Any] = {"standing": detail.standing, "phase": unit.phase, "fresh": unit.fresh}
    if compiler is not None:
        state["compiler"] = compiler
    if unit.key is not None:
        state |= {
            "key": unit.key,
            "outcome": unit.outcome,
            "compiled_in_s": round(unit.seconds, 2),
            "peak_memory_bytes": detail.peak_memory_bytes,
            "headers_read": detail.headers,
            "commands": [list(command) for command in detail.command],
            "products": dict(unit.products),
        }
    return state


def _figures(figures: Figures | None) -> list[str]:
    """What the code object tells, and against what was before."""
    if figures is None:
        return []
    stale = " (stale)" if figures.standing == "stale" else ""
    lines = [f"  figures    {figures.headline}{stale}"]
    told = (
        ("next step", figures.next_step),
        ("against previous", ", ".join(figures.changes)),
        ("against baseline", ", ".join(figures.baseline_changes)),
    )
    return [*lines, *(f"    {name}: {text}" for name, text in told if text)]


def _parameters(detail: UnitDetail) -> dict[str, Any]:
    places = detail.parameter_places
    return {
        name: {"value": value, "span": span_to_json(span_of(places[name])) if name in places else None}
        for name, value in detail.parameters.items()
    }


def _print(output: Output, detail: UnitDetail, state: dict[str, Any]) -> None:
    unit, root = detail.unit, output.root
    place = span_of(unit.place)
    output.text(unit.id, "bold")
    output.text(f"  instance   {shown_path(place.path, root)}:{place.start}")
    for name, value in detail.parameters.items():
        where = ""
        if name in detail.parameter_places:
            span = span_of(detail.parameter_places[name])
            where = f"  ({shown_path(span.path, root)}:{span.start})"
        output.text(f"    {name} = {tuple(value) if isinstance(value, list) else value}{where}")
    output.text(f"  templates  {len(detail.reads)} files read")
    for path, digest in detail.reads.items():
        output.text(f"    {digest[:12]}  {shown_path(path, root)}")
    for path in detail.missed:
        output.text(f"    would be read instead if it existed: {shown_path(path, root)}")
    if unit.symbol:
        output.text(f"  symbol     {unit.symbol}")
    for name in ("compiler", "key", "outcome", "compiled_in_s", "headers_read"):
        if name in state:
            output.text(f"  {name:<10} {state[name]}")
    for name, path in state.get("products", {}).items():
        output.text(f"    {name}: {path}")
    for line in _figures(unit.figures):
        output.text(line)
    output.text(f"  state      {state['standing']}", "bold")
    for index, cause in enumerate(detail.cause):
        when = time.strftime("%H:%M:%S", time.localtime(cause.at))
        output.text(f"  {'because' if index else 'why':<10} {when}  {cause.what}")
    output.diagnostics([diagnostic_of(found) for found in detail.diagnostics])
