"""`ckwatch explain --time UNIT`: where the compile time of a unit goes, as tables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckwatch.wire.messages import PassTime, TemplateCost, TimeTrace

WIDTH = 100
SHOWN = 20
"""Templates of each pass; `--json` has more."""

FRONT_END = ("parsing", "template instantiation", "LLVM IR generation")
BACK_END = ("optimizer", "code generation")
_REST = "start, link, output"

Line = tuple[str, str]
"""A text and its style."""


def table(trace: TimeTrace) -> Iterator[Line]:
    """The lines of a trace that has passes."""
    yield from _stages(trace.passes)
    for one in trace.passes:
        yield "", ""
        yield from _templates(one)
    yield "", ""
    side_by_side = "the passes ran side by side, " if len(trace.passes) > 1 else ""
    yield f"Wall time; {side_by_side}without precompiled headers, and tracing takes its share.", "dim"
    least_ms = trace.granularity_us / 1000
    yield f"What took less than {least_ms:g} ms is counted with what needed it. λ is a lambda.", "dim"


def to_json(trace: TimeTrace) -> dict[str, Any]:
    """The passes as JSON values; seconds."""
    return {
        "granularity_us": trace.granularity_us,
        "trace": trace.path,
        "passes": [
            one.model_dump() | {"front_end": _sum(one, FRONT_END), "back_end": _sum(one, BACK_END)}
            for one in trace.passes
        ],
    }


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
    # What tells templates apart is at the end of their names.
    return numbers + (name if len(name) <= room else f"…{name[-(room - 1) :]}")
