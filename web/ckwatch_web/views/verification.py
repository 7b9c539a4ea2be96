"""*Verification*: what an emulator said of units, and of one of them all that was tried and found. Nothing is a time.

Showing it executes nothing: what is known is asked for, and the action sets the emulator to work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import count
from ckwatch.model.emulated_archs import emulated_device
from ckwatch_web.choices import choose
from ckwatch_web.content import (
    NO_UNITS,
    PLACE,
    UNIT,
    Action,
    Block,
    Choice,
    Column,
    Content,
    Facts,
    Note,
    Plot,
    Row,
    Table,
)
from ckwatch_web.places import name_of, place_in, place_of
from ckwatch_web.plots import TOOLTIP, axis, base, legend
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.model.verification import EmulatedFinding, Verification
    from ckwatch.wire.rows import UnitRow
    from ckwatch.wire.verification import UnitVerification
    from ckwatch_web.feed import Feed

LABEL = "Emulated on this machine's processor: no GPU was used, and nothing here is a time."

NONE, STALE, RUNNING = "none", "stale", "verifying"
STATES = ("failed", RUNNING, "not verified", STALE, "verified", NONE)
"""In the order of the table; `none`: no emulator was asked."""

_COLOURS = {
    "failed": "#D55E00", RUNNING: "#56B4E9", "not verified": "#E69F00", STALE: "#CC79A7", "verified": "#009E73",
    NONE: "#8c8c8c",
}  # fmt: skip

DRAWN = 40
"""Kernels in the picture, those with most units that are not verified."""


def state_of(row: UnitRow) -> str:
    """One of `STATES`."""
    if row.verifying:
        return RUNNING
    if not row.verification_outcome:
        return NONE
    return row.verification_outcome if row.verification_fresh else STALE


def units_table(rows: Iterable[UnitRow]) -> Table:
    """All units, those that are wrong first."""
    found: list[Row] = [
        {"id": row.id, UNIT: row.id, PLACE: row.place, "unit": row.id, "state": state_of(row),
         "summary": row.verification, "arch": row.arch}
        for row in rows
    ]  # fmt: skip
    found.sort(key=lambda one: STATES.index(str(one["state"])))
    columns = (
        Column(key="unit", title="unit", width=380, pinned=True),
        Column(key="state", title="emulated", width=130),
        Column(key="summary", title="summary", width=560),
        Column(key="arch", title="arch", width=110),
    )
    return Table(key="units", title="Units, emulated", columns=columns, rows=tuple(found), empty="no units")


def outcomes(rows: Iterable[UnitRow]) -> Facts:
    """How many units there are of each state."""
    counts = Counter(map(state_of, rows))
    facts = tuple((name, str(counts[name])) for name in STATES if counts[name])
    return Facts(key="outcomes", title="Units by outcome, emulated", facts=facts)


def outcome_plot(rows: Iterable[UnitRow]) -> Plot | None:
    """Units by state for each kernel; None without any verification."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.kernel, Counter())[state_of(row)] += 1
    if not any(name != NONE for own in counts.values() for name in own):
        return None
    shown = sorted(counts, key=lambda kernel: -(counts[kernel].total() - counts[kernel]["verified"]))[:DRAWN]
    series: list[dict[str, Any]] = []
    for name in STATES:
        if any(counts[kernel][name] for kernel in shown):
            bars = [
                {"value": counts[kernel][name], "text": f"{kernel}\n{name} (emulated): {counts[kernel][name]}"}
                for kernel in reversed(shown)
            ]
            series.append({"name": name, "type": "bar", "stack": "all", "data": bars, "barMaxWidth": 18,
                           "itemStyle": {"color": _COLOURS[name]}})  # fmt: skip
    option = base(
        xAxis=axis("units", minInterval=1, min=0),
        yAxis={"type": "category", "data": shown[::-1],
               "axisLabel": {"width": 200, "overflow": "truncate", "interval": 0}},
        legend=legend([one["name"] for one in series]),
        tooltip=TOOLTIP,
        series=series,
    )  # fmt: skip
    total = sum(map(Counter.total, counts.values()))
    words = ", ".join(f"{number} {name}" for name in STATES if (number := sum(own[name] for own in counts.values())))
    part = f" {DRAWN} of {len(counts)} kernels are drawn." if len(counts) > DRAWN else ""
    summary = f"Emulated: of {count(total, 'unit')} {words}.{part}"
    height = 110 + 26 * len(shown)
    return Plot(key="outcomes", title="Outcomes by kernel, emulated", option=option, summary=summary, height_px=height)


def problems(found: Verification) -> Table:
    """All shapes that were tried, those that went wrong first."""
    order = {"wrong": 0, "not verified": 1, "not compared": 2, "not tried": 3, "refused": 4, "right": 5}
    rows: list[Row] = [
        {"id": f"{at}", "name": one.name, "shape": one.shape, "outcome": str(one.outcome),
         "wrong": one.outcome == "wrong", "message": one.message or "", "share": round(100 * one.share, 1)}
        for at, one in sorted(enumerate(found.problems), key=lambda pair: order.get(str(pair[1].outcome), 0))
    ]  # fmt: skip
    columns = (
        Column(key="name", title="tries", width=260, mark="wrong"),
        Column(key="shape", title="shape", width=260),
        Column(key="outcome", title="emulated", width=130, mark="wrong"),
        Column(key="share", title="computed, %", kind="number", width=130, note="of the workgroups of the output"),
        Column(key="message", title="message", width=680),
    )
    title = f"Shapes that were tried on {found.device}"
    return Table(key="problems", title=title, columns=columns, rows=tuple(rows), empty="none was tried")


def findings(found: Verification, unit: str) -> Table:
    """All mistakes, each at the line of the template or header whose code it is in."""
    rows = [_finding(at, one, unit) for at, one in enumerate(found.findings)]
    columns = (
        Column(key="kind", title="kind", width=180),
        Column(key="message", title="message", width=460),
        Column(key="where", title="where", width=200),
        Column(key="problem", title="on", width=160),
        Column(key="count", title="times", kind="number", width=90),
        Column(key="who", title="workgroup, wave, lane", width=220),
        Column(key="instruction", title="instruction", kind="code", width=420),
        Column(
            key="other", title="the other side", kind="code", width=460, note="of a race, or where a value came from"
        ),
        Column(key="note", title="note", width=300),
    )
    return Table(key="findings", title="Findings, emulated", columns=columns, rows=tuple(rows), empty="none")


def _finding(at: int, one: EmulatedFinding, unit: str) -> Row:
    place = place_of(one.place)
    return {
        "id": str(at), UNIT: unit, PLACE: None if place is None else place.text, "kind": str(one.kind),
        "message": one.message, "problem": one.problem, "count": one.count,
        "who": _who(one), "instruction": _instruction(one.instruction, one.code_address),
        "where": name_of(place), "other": _other(one), "note": one.note,
    }  # fmt: skip


def _who(one: EmulatedFinding) -> str:
    if one.workgroup is None:
        return "not executed"
    words = [f"workgroup {', '.join(map(str, one.workgroup))}", f"wave {one.wave}"]
    return "; ".join(words if one.lane is None else [*words, f"lane {one.lane}"])


def _instruction(text: str | None, address: int | None) -> str:
    return " ".join(part for part in ("" if address is None else f"{address:06x}", text) if part)


def _other(one: EmulatedFinding) -> str:
    parts = [
        _instruction(one.other_instruction, one.other_code_address),
        "" if one.other_wave is None else f"wave {one.other_wave}",
        "" if one.other_lane is None else f"lane {one.other_lane}",
        name_of(place_of(one.other_place)),
    ]
    return ", ".join(filter(None, parts))


def unit_blocks(known: UnitVerification, row: UnitRow) -> list[Block]:
    """Draw the verification of one unit."""
    found = known.verification
    facts = [("unit", row.id), ("emulated", known.outcome), ("summary", known.summary)]
    if found is not None:
        depth = "" if found.depth is None else f", {found.depth}"
        facts += [("on", found.device), ("tried", f"{count(len(found.problems), 'shape')}{depth}")]
        facts.append(("findings", str(len(found.findings) or "none")))
        if not found.checked:
            facts.append(("checked", "results only: memory, races and waits were not checked"))
    blocks: list[Block] = [Facts(key="unit", title="Emulated", facts=tuple(facts), place=place_in(row.place))]
    if row.verification_outcome and not row.verification_fresh:
        text = f"Of an earlier build, and stale: {row.verification}"
        blocks.append(Note(key="stale", text=text, kind="warning"))
    if found is not None:
        blocks += [findings(found, row.id)] if found.findings else []
        blocks.append(problems(found))
        if found.not_modelled:
            text = f"A GPU may differ where this matters, which is not modelled: {'; '.join(found.not_modelled)}."
            blocks.append(Note(key="limits", text=text, kind="hint"))
    return blocks


def _unit(feed: Feed, query: Query) -> str:
    """The unit of the address, also if it is gone; else the first that is wrong, else one that was verified."""
    if named := query.get("unit", ""):
        return named
    rows = feed.units.values()
    first = min(rows, key=lambda row: (STATES.index(state_of(row)), emulated_device(row.arch) is None), default=None)
    return "" if first is None else first.id


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    rows = list(feed.units.values())
    choice: Choice = choose("unit", "Unit", sorted(feed.units), query, _unit(feed, query))
    if not rows:
        return NO_UNITS
    row = feed.units[choice.value]
    blocks: list[Block] = [choice, Action(key="verify", label="Verify the unit", enabled=not row.verifying)]
    blocks.append(Note(key="emulated", text=LABEL))
    blocks += await to_thread.run_sync(unit_blocks, await feed.client.verification(row.id), row)
    picture = outcome_plot(rows)
    blocks.append(outcomes(rows))
    blocks += [] if picture is None else [picture]
    blocks.append(await to_thread.run_sync(units_table, rows))
    return Content(title=f"{row.id} (emulated)", blocks=tuple(blocks))


async def verify(feed: Feed, query: Query) -> str:
    """Build the unit and have it executed, unless that is known."""
    unit = _unit(feed, query)
    if unit not in feed.units:
        raise CkwatchError("there is no such unit")
    found = await feed.client.verify(unit)
    return "; ".join(f"{one.unit}: {one.summary}" for one in found)


def depends(feed: Feed, query: Query) -> Hashable:
    """The verifications of all units, and the place of the one that is chosen."""
    row = feed.units.get(_unit(feed, query))
    states = tuple((one.id, one.verifying, one.verification, one.verification_fresh) for one in feed.units.values())
    return row and (row.id, row.place, row.artifact), states


ACTIONS = {"verify": verify}
