"""`ckwatch explain UNIT|CODE`: what a unit depends on, why it is in its state, and where compile time goes (`--time`);
or the documentation of a diagnostic's code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.code_documentation import documented, is_code
from ckwatch.cli.diagnostic_text import display_path
from ckwatch.cli.output import Output
from ckwatch.cli.render import shell_line
from ckwatch.cli.session import asking, one_unit
from ckwatch.compile.timetrace.summary import BACK_END, FRONT_END, TemplateCost
from ckwatch.model.amounts import clock, duration
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.state import OutcomeName, Phase

if TYPE_CHECKING:
    from ckwatch.model.figures import Figures
    from ckwatch.wire.messages import PassTime, TimeTrace, UnitDetail

WIDTH = 100
SHOWN = 20
"""Templates of each pass; `--json` has more."""

_REST = "start, link, output"

Line = tuple[str, str]
"""A text and its style."""


def compile_time_lines(trace: TimeTrace) -> Iterator[Line]:
    """The lines of a trace that has passes."""
    yield from _stages(trace.passes)
    for one in trace.passes:
        yield "", ""
        yield from _templates(one)
    yield "", ""
    side_by_side = "the passes ran side by side, " if len(trace.passes) > 1 else ""
    yield f"Wall time; {side_by_side}without precompiled headers, and tracing adds to it.", "dim"
    least_ms = trace.granularity_us / 1000
    yield f"What took less than {least_ms:g} ms is counted with what needed it. λ is a lambda.", "dim"


def _stages(passes: Sequence[PassTime]) -> Iterator[Line]:
    yield f"{'':<26}" + "".join(f"{one.name:>24}" for one in passes), "bold"
    for title, stages in (("front end", FRONT_END), ("back end", BACK_END)):
        yield _row(title, passes, [_sum(one, stages) for one in passes]), "bold"
        for stage in stages:
            yield _row(f"  {stage}", passes, [one.stages.get(stage, 0.0) for one in passes]), ""
    rest = [max(0.0, one.seconds - _sum(one, (*FRONT_END, *BACK_END))) for one in passes]
    yield _row(_REST, passes, rest), ""
    yield _row("in all", passes, [one.seconds for one in passes]), "bold"


def _row(title: str, passes: Sequence[PassTime], seconds: Sequence[float]) -> str:
    cells = (f"{own:>14.2f} s {_percent(own, one.seconds):>5} %" for one, own in zip(passes, seconds, strict=True))
    return f"{title:<26}" + "".join(cells)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}" if whole > 0 else "-"


def _sum(one: PassTime, stages: Sequence[str]) -> float:
    return sum(one.stages.get(stage, 0.0) for stage in stages)


def _templates(one: PassTime) -> Iterator[Line]:
    counts = f"{one.instantiation_count:,} instantiations of {one.template_count:,} templates"
    yield f"{one.name}: {counts}", "bold"
    if not one.templates:
        return
    yield f"{'own':>9}{'with all':>11}{'count':>8}  template", "bold"
    shown = one.templates[:SHOWN]
    yield from ((_template(cost), "") for cost in shown)
    left = one.template_count - len(shown)
    if left > 0:
        own = one.stages.get("template instantiation", 0.0) - sum(cost.self_s for cost in shown)
        yield f"{max(0.0, own):>7.2f} s{'':>19}  {left:,} others", ""


def _template(cost: TemplateCost) -> str:
    numbers = f"{cost.self_s:>7.2f} s{cost.inclusive_s:>9.2f} s{cost.count:>8,}  "
    room = WIDTH - len(numbers)
    name = cost.name.replace("(lambda)", "λ")
    # The ends of their names distinguish templates.
    return numbers + (name if len(name) <= room else f"…{name[-(room - 1) :]}")


@dataclass(frozen=True, slots=True)
class ExplainedState:
    """The state of a unit: `standing` in words. What a compile found out is null before the first one."""

    standing: str
    phase: Phase
    fresh: bool
    compiler: str | None = None
    key: str | None = None
    outcome: OutcomeName | None = None
    compiled_in_s: float | None = None
    peak_memory_bytes: int | None = None
    headers_read: int | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    products: Mapping[str, str] = field(default_factory=dict)


async def run(options: argparse.Namespace) -> int:
    """Print the story of one unit, or where its compile time goes, or what a code means; 1 when the unit has errors."""
    if is_code(options.unit):
        if options.time or options.trace or options.arch:
            raise CkwatchError(
                "--time, --trace and --arch are for a unit", f"'{options.unit[:80]}' is a diagnostic's code"
            )
        output = Output(options)
        text = await to_thread.run_sync(documented, options.unit)
        output.answer(code=options.unit, text=text)
        output.text(text)
        return 0
    target = None if options.trace is None else options.trace.absolute()
    async with asking(options) as client:
        unit = await one_unit(client, options.unit)
        await client.check(unit)
        output = Output(options, client.root)
        trace = None
        if options.time or target is not None:
            with output.working("compiling to see where the time goes"):
                trace = await client.time_trace(unit, target)
            if not options.json:
                return _print_time(output, trace)
        detail = await client.unit(unit)
        compiler = (await client.workspace()).toolchain
        call = shell_line(await client.rendered(unit))
    state = _state(detail, compiler)
    failed = detail.unit.outcome == "failed" or bool(detail.unit.errors)
    found = detail.diagnostics
    if options.json:
        if trace is not None:
            failed, found = not trace.passes, trace.diagnostics
        places = detail.parameter_places
        output.answer(
            unit=unit,
            by_hand=call,
            parameters={name: {"value": value, "span": places.get(name)} for name, value in detail.parameters.items()},
            state=state,
            templates=detail.reads,
            missed=detail.missed,
            symbol=detail.unit.symbol,
            figures=detail.unit.figures,
            cause=detail.cause,
            diagnostics=found,
            time=trace and {"granularity_us": trace.granularity_us, "trace": trace.path, "passes": trace.passes},
        )
    else:
        _print(output, detail, state, call)
    return 1 if failed else 0


def _print_time(output: Output, trace: TimeTrace) -> int:
    output.text(trace.unit, "bold")
    output.diagnostics(trace.diagnostics)
    if not trace.passes:
        output.text("it does not compile, so there are no times")
        return 1
    output.lines(compile_time_lines(trace))
    if trace.path is not None:
        output.text(f"wrote {trace.path}")
    return 0


def _state(detail: UnitDetail, compiler: str | None) -> ExplainedState:
    unit = detail.unit
    state = ExplainedState(standing=detail.standing, phase=unit.phase, fresh=unit.fresh, compiler=compiler)
    if unit.key is None:
        return state
    return replace(
        state,
        key=unit.key,
        outcome=unit.outcome,
        compiled_in_s=round(unit.seconds, 2),
        peak_memory_bytes=detail.peak_memory_bytes,
        headers_read=detail.headers,
        commands=detail.command,
        products=unit.products,
    )


def _figures(figures: Figures | None) -> list[str]:
    """The figures of the code object, and what changed."""
    if figures is None:
        return []
    stale = " (stale)" if figures.standing == "stale" else ""
    lines = [f"  figures    {figures.headline}{stale}"]
    rows = (
        ("next step", figures.next_step),
        ("against previous", ", ".join(figures.changes)),
        ("against baseline", ", ".join(figures.baseline_changes)),
    )
    return [*lines, *(f"    {name}: {text}" for name, text in rows if text)]


def _print(output: Output, detail: UnitDetail, state: ExplainedState, call: str) -> None:
    unit, root = detail.unit, output.root
    place = unit.place
    output.text(unit.id, "bold")
    output.text(f"  instance   {display_path(place.path, root)}:{place.start}")
    for name, value in detail.parameters.items():
        where = ""
        if name in detail.parameter_places:
            span = detail.parameter_places[name]
            where = f"  ({display_path(span.path, root)}:{span.start})"
        output.text(f"    {name} = {tuple(value) if isinstance(value, list) else value}{where}")
    output.text(f"  templates  {len(detail.reads)} files read")
    for path, digest in detail.reads.items():
        output.text(f"    {digest[:12]}  {display_path(path, root)}")
    for path in detail.missed:
        output.text(f"    would be read instead if it existed: {display_path(path, root)}")
    if unit.symbol:
        output.text(f"  symbol     {unit.symbol}")
    known = (
        ("compiler", state.compiler),
        ("key", state.key),
        ("outcome", state.outcome),
        ("headers", state.headers_read),
    )
    for title, found in known:
        if found is not None:
            output.text(f"  {title:<10} {found}")
    if unit.seconds:
        output.text(f"  {'compiled':<10} in {duration(unit.seconds)}")
    if call:
        output.text(f"  {'by hand':<10} {call}")
    for name, path in state.products.items():
        output.text(f"    {name}: {path}")
    for line in _figures(unit.figures):
        output.text(line)
    output.text(f"  state      {state.standing}", "bold")
    for index, cause in enumerate(detail.cause):
        when = clock(cause.at)
        output.text(f"  {'because' if index else 'why':<10} {when}  {cause.what}")
    output.diagnostics(detail.diagnostics)
