"""*Compare*: a unit against another, its previous build or a baseline: parameters, figures, timings, instructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, cast

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import change, count, timestamp
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.analysis import compared_figures
from ckwatch.wire.figures_text import how_compared
from ckwatch_web.alignment import AlignedPair, align
from ckwatch_web.choices import choose, chosen_unit, unit_choice
from ckwatch_web.content import (
    NO_UNITS,
    PLACE,
    UNIT,
    Block,
    Column,
    Content,
    Facts,
    Headline,
    Headlines,
    Note,
    Plot,
    Row,
    Table,
)
from ckwatch_web.places import TextPlace, name_of, place_in, place_of
from ckwatch_web.plots import COLOURS, TOOLTIP, axis, base, legend, shortened
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.model.text import Span
    from ckwatch.wire.analysis import Analysis, CodeObjectReport, Isa, ShapePrediction
    from ckwatch.wire.benchmarks import Compared
    from ckwatch.wire.messages import UnitDetail
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

PREVIOUS, BASELINE = "previous", "baseline"
MAIN_LOOP, WHOLE = "main loop", "whole kernel"
PARTS = {MAIN_LOOP: "main loop", WHOLE: "whole kernel"}

DRAWN = 40
"""Shapes in the picture, with each cache state."""

RATIOS = (0.9, 0.8, 0.5, 0.2, 0.1, 0.01)
"""Possible starts of the picture's axis; it ends at the reciprocal of one."""

SURE = ("FAST", "SLOW")
"""Verdicts of differences that are significant."""

MARK = "differs"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what it is called, its parameters and where they stand, and its code object's report."""

    name: str
    parameters: Mapping[str, Any]
    places: Mapping[str, Span]
    report: CodeObjectReport | None


def parameters(ours: Side, theirs: Side) -> Table:
    """All parameters of both, those first that differ; a row's place is that of ours, else of theirs. Without any of
    theirs nothing is said to differ."""
    rows: list[Row] = []
    known = bool(theirs.parameters)
    for name in dict.fromkeys((*ours.parameters, *theirs.parameters)):
        first, second = _value(ours.parameters, name), _value(theirs.parameters, name)
        place, other = place_of(ours.places.get(name)), place_of(theirs.places.get(name))
        shown = place or other
        rows.append({
            "id": name, "name": name, "ours": first, "theirs": second, MARK: known and first != second,
            "where": name_of(place), "other": name_of(other), PLACE: None if shown is None else shown.text,
            UNIT: ours.name if place is not None else theirs.name,
        })  # fmt: skip
    columns = (
        Column(key="name", title="parameter", width=330, pinned=True, mark=MARK),
        Column(key="ours", title="A", kind="code", width=220, mark=MARK),
        Column(key="theirs", title="B", kind="code", width=220, mark=MARK),
        Column(key="where", title="A stands at", width=220),
        Column(key="other", title="B stands at", width=220),
    )
    rows.sort(key=lambda row: not row[MARK])
    differing = sum(1 for row in rows if row[MARK])
    words = f"{differing} different" if differing else "all equal" if known else "those of B are not known"
    title = f"Parameters, {words}"
    return Table(key="parameters", title=title, columns=columns, rows=tuple(rows), empty="none is known")


def _value(values: Mapping[str, Any], name: str) -> str:
    """As a kernel file has it."""
    return _toml(values[name]) if name in values else ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value)


def figures(ours: Side, theirs: Side, answer: Answer = "unsure") -> Table:
    """Registers, LDS, occupancy, and the main loop's instructions and predictions; which of them explain the answer,
    and which there are in spite of it."""
    slower = {"slower": True, "faster": False}.get(answer)
    both = ours.report is not None and theirs.report is not None
    rows: list[Row] = [
        {
            "id": one.name, "name": one.name, "ours": one.now, "theirs": one.before,
            MARK: both and one.before != one.now,
            "worse": "" if None in (one.worse, slower) else "explains" if one.worse == slower else "in spite of",
            UNIT: ours.name,
        }
        for one in compared_figures(theirs.report, ours.report)
    ]  # fmt: skip
    columns = (
        Column(key="name", title="figure", width=260, pinned=True, mark=MARK),
        Column(key="ours", title="A", width=160, mark=MARK),
        Column(key="theirs", title="B", width=160, mark=MARK),
        Column(key="worse", title="the verdict", width=140, note="Which way the figure points, beside the verdict"),
    )
    title = "Code objects; what is called predicted was not measured"
    return Table(key="figures", title=title, columns=columns, rows=tuple(rows), empty="none was analysed")


def timings(compared: Iterable[Compared]) -> Table:
    """Measured medians on each shape and cache state, and the verdict."""
    rows: list[Row] = []
    for one in compared:
        timing, found = one.timing, one.comparison
        device = timing or one.other
        rows.append({
            "id": f"{one.shape}\n{one.cache}", UNIT: one.ours, "shape": one.shape, "cache": one.cache,
            "ours": None if timing is None or timing.failure else timing.median_us,
            "theirs": found.other_median_us if found else None if one.other is None else one.other.median_us or None,
            "ratio": None if found is None else found.ratio,
            "verdict": found.verdict if found else one.why_not,
            "how": "" if found is None else how_compared(found).removeprefix(", "),
            "device": "" if device is None else device.device_description,
            "standing": "" if timing is None or timing.standing == "fresh" else f"A is {timing.standing}",
            "at": "" if timing is None else timestamp(timing.taken_at),
        })  # fmt: skip
    columns = (
        Column(key="shape", title="shape", width=160, pinned=True),
        Column(key="cache", title="cache", width=90),
        Column(key="ours", title="A", kind="time", width=110),
        Column(key="theirs", title="B", kind="time", width=110),
        Column(key="ratio", title="A / B", kind="number", width=100, note="of the medians; below 1 A is faster"),
        Column(key="verdict", title="verdict of A", width=200, note="FAST and SLOW are significant"),
        Column(key="how", title="timed", width=100),
        Column(key="standing", title="standing", width=110),
        Column(key="device", title="device", width=240),
        Column(key="at", title="taken", width=170),
    )
    empty = "none was timed; `ckwatch bench` takes timings"
    return Table(key="timings", title="Measured on each shape", columns=columns, rows=tuple(rows), empty=empty)


Answer = Literal["faster", "slower", "calm", "unsure"]
"""Of A against B; `calm`: they are as fast as each other."""


def verdict(compared: Iterable[Compared], ours: Analysis | None = None, theirs: Analysis | None = None) -> Headline:
    """The answer in one sentence: what was measured, if anything was, else what is predicted."""
    ratios: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for one in compared:
        if (found := one.comparison) is not None:
            ratios[found.verdict].append((found.ratio, f"{one.shape}, {one.cache}"))
    known = sum(map(len, ratios.values()))
    if not known:
        return _predicted_verdict(_predicted(ours), _predicted(theirs))
    fast, slow = sorted(ratios["FAST"]), sorted(ratios["SLOW"], reverse=True)
    parts = [
        f"{word} on {len(some)} of {known}: {change(some[0][0])} on {some[0][1]}"
        for word, some in (("faster", fast), ("slower", slow))
        if some
    ]
    if parts:
        if len(slow) > len(fast):
            parts.reverse()
        kind: Answer = "unsure" if len(fast) == len(slow) else "faster" if len(fast) > len(slow) else "slower"
        rest = known - len(fast) - len(slow)
        left = f" ({rest} of them not decided, or equal)" if rest and not parts[1:] else ""
        text = f"A is {'; it is '.join(parts)}{left}"
        return Headline(kind=kind, text=text, address="#timings")
    if unsure := sorted(ratios["UNSURE"]):
        span = change(unsure[0][0]) + (f" to {change(unsure[-1][0])}" if unsure[1:] else "")
        text = f"not decided on {len(unsure)} of {known}: A takes {span}, which the samples cannot tell from noise"
        return Headline(kind="unsure", text=text, address="#timings")
    text = f"A and B are as fast as each other on {'all ' if known > 1 else ''}{known}, as far as was measured"
    return Headline(kind="calm", text=text, address="#timings")


def _predicted(analysis: Analysis | None) -> dict[str, ShapePrediction]:
    return {} if analysis is None else {one.shape: one for one in analysis.shapes}


def _predicted_verdict(ours: Mapping[str, ShapePrediction], theirs: Mapping[str, ShapePrediction]) -> Headline:
    """The answer by predictions alone; intervals that overlap decide nothing."""
    both = [(ours[shape].prediction, theirs[shape].prediction, shape) for shape in ours if shape in theirs]
    ratios = sorted((one.time_us / other.time_us, shape) for one, other, shape in both if one.time_us and other.time_us)
    if not ratios:
        return Headline(kind="unsure", text="neither measured nor predicted: `ckwatch bench` takes timings")
    (low, at), (high, to) = ratios[0], ratios[-1]
    apart = all(
        (one.high_us or inf) < (other.low_us or 0.0) or (other.high_us or inf) < (one.low_us or 0.0)
        for one, other, _ in both
    )
    kind: Answer = "unsure" if not apart or low <= 1 <= high else "faster" if high < 1 else "slower"
    word = "may be as fast as B" if kind == "unsure" else f"is {kind} than B"
    span = f"{change(low)} on {at}" + (f" to {change(high)} on {to}" if len(ratios) > 1 else "")
    return Headline(kind=kind, text=f"predicted, not measured: A {word}, and takes {span}")


def ratio_plot(compared: Sequence[Compared]) -> Plot | None:
    """Measured ratios by shape, one series for each cache state; None without any."""
    known = [one for one in compared if one.comparison is not None]
    if not known:
        return None
    shapes = list(dict.fromkeys(one.shape for one in known))
    shown = shapes[:DRAWN]
    places = {shape: at for at, shape in enumerate(shown)}
    caches = list(dict.fromkeys(one.cache for one in known))
    series: list[dict[str, Any]] = [
        {
            "name": f"{cache} cache", "type": "bar", "itemStyle": {"color": COLOURS[at]},
            "data": [_bar(one, places[one.shape], COLOURS[at]) for one in known
                     if one.cache == cache and one.shape in places],
        }
        for at, cache in enumerate(caches)
    ]  # fmt: skip
    series[0]["markLine"] = {"symbol": "none", "silent": True, "data": [{"yAxis": 1}], "label": {"show": False}}
    low, high = _range([one.comparison.ratio for one in known if one.comparison is not None])
    option = base(
        xAxis=axis(
            "", kind="category", data=[shortened(shape, 16) for shape in shown], axisLabel={"hideOverlap": True}
        ),
        yAxis=axis("A / B", kind="log", min=low, max=high, logBase=2, nameGap=64),
        legend=legend([f"{cache} cache" for cache in caches]),
        tooltip=TOOLTIP,
        series=series,
    )
    verdicts = [one.comparison.verdict for one in known if one.comparison is not None]
    words = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    part = f" The first {DRAWN} of {len(shapes)} shapes are drawn." if len(shapes) > DRAWN else ""
    summary = f"Measured: A against B is {words}. Below 1 A is faster.{part}"
    return Plot(key="ratios", title="Time of A over that of B", option=option, summary=summary, height_px=260)


def _bar(one: Compared, at: int, colour: str) -> dict[str, Any]:
    """The ratio of the shape at this place, hollow unless the difference is sure."""
    found = one.comparison
    ratio = 1.0 if found is None else found.ratio
    verdict = "" if found is None else found.verdict + how_compared(found)
    hollow = {} if found is not None and found.verdict in SURE else {"itemStyle": _hollow(colour)}
    text = f"{one.shape}, {one.cache} cache\nA / B = {ratio:.3f}, {verdict}"
    return {"value": [at, ratio], "text": text, **hollow}


def _hollow(colour: str) -> dict[str, Any]:
    return {"color": "transparent", "borderColor": colour, "borderWidth": 2}


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    """Around 1, at least a tenth to each side."""
    low = next((step for step in RATIOS if step <= min(ratios)), min(ratios))
    high = next((1 / step for step in RATIOS if 1 / step >= max(ratios)), max(ratios))
    return low, round(high, 2)


@dataclass(frozen=True, slots=True)
class Instructions:
    """A stretch of a listing: each instruction's address and text, and where it came from, as far as that is known."""

    addresses: Sequence[str]
    texts: Sequence[str]
    places: Sequence[TextPlace | None]


def instructions(listing: Isa, part: str) -> Instructions:
    """The instructions of the main loop, or of the whole kernel; of all where there is no main loop."""
    loops = [fold for fold in listing.folds if fold.main and fold.kind == "loop"] if part == MAIN_LOOP else []
    text = listing.text.split("\n")
    addresses, texts, places = [], [], []
    for line in listing.lines:
        if loops and not any(fold.start <= line.line <= fold.end for fold in loops):
            continue
        address, _, instruction = text[line.line].strip().partition("  ")
        addresses.append(address)
        texts.append(instruction.partition(";")[0].rstrip())
        places.append(place_of(line.span))
    return Instructions(addresses, texts, places)


def listing_table(ours: Instructions, theirs: Instructions, part: str, names: tuple[str, str]) -> Table:
    """The two stretches side by side. Blocks; call from a worker thread: some ten thousand instructions take a
    second."""
    pairs = align(ours.texts, theirs.texts)
    rows = tuple(_isa_row(at, pair, ours, theirs, names) for at, pair in enumerate(pairs))
    alike = sum(1 for pair in pairs if not pair.change)
    columns = (
        Column(key="from", title="A at", kind="code", width=90),
        Column(key="ours", title="A", kind="code", width=520, mark=MARK),
        Column(key="change", title="≠", width=60, note="≠ differs, − only in A, + only in B; registers do not count"),
        Column(key="theirs", title="B", kind="code", width=520, mark=MARK),
        Column(key="to", title="B at", kind="code", width=90),
    )
    title = f"Instructions of the {part}, {alike} alike but for registers"
    return Table(key="isa", title=title, columns=columns, rows=rows, empty="no instructions", height_px=640)


def _isa_row(at: int, pair: AlignedPair, ours: Instructions, theirs: Instructions, names: tuple[str, str]) -> Row:
    i, j = pair.ours, pair.theirs
    mine, other = (None if i is None else ours.places[i]), (None if j is None else theirs.places[j])
    place = mine or other
    return {
        "id": str(at), "change": pair.change, MARK: bool(pair.change),
        "from": "" if i is None else ours.addresses[i], "ours": "" if i is None else ours.texts[i],
        "to": "" if j is None else theirs.addresses[j], "theirs": "" if j is None else theirs.texts[j],
        PLACE: None if place is None else place.text, UNIT: names[0] if i is not None else names[1],
    }  # fmt: skip


def default_against(feed: Feed, unit: str) -> str:
    """Another unit of the same kernel and arch, the first; else what it was before."""
    row = feed.units.get(unit)
    alike = (
        one.id
        for one in feed.units.values()
        if row is not None and one.kernel == row.kernel and one.arch == row.arch and one is not row
    )
    return next(alike, PREVIOUS)


def _about(row: UnitRow, label: str) -> Facts:
    state = row.state if row.fresh or row.phase != "done" else f"{row.state}, stale"
    facts = (("unit", row.id), ("state", state), ("code object", row.headline), ("verified", row.verification))
    return Facts(key=label, title=label, facts=tuple(one for one in facts if one[1]), place=place_in(row.place))


def earlier(against: str, analysis: Analysis | None, compared: Sequence[Compared]) -> Side:
    """The previous build or a baseline, as far as it is kept: its parameters are those that it was timed with."""
    known = next((one.other.parameters for one in compared if one.other is not None), {})
    report = None
    if analysis is not None and against == PREVIOUS:
        report = analysis.previous
    elif analysis is not None and against in (BASELINE, f"{BASELINE}:{analysis.baseline_name}"):
        report = analysis.baseline
    return Side(against, known, {}, report)


async def _side(feed: Feed, unit: str, notes: list[Note]) -> tuple[Side, Analysis | None]:
    detail: UnitDetail = await feed.client.unit(unit)
    analysis = None
    try:
        analysis = await feed.client.analysis(unit)
    except CkwatchError as error:
        notes.append(Note(key=f"analysis-{unit}", text=_with_hint(error), kind="hint"))
    report = None if analysis is None else analysis.report
    return Side(unit, detail.parameters, detail.parameter_places, report), analysis


def _with_hint(error: CkwatchError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message


async def _listing(feed: Feed, unit: str, notes: list[Note]) -> Isa | None:
    try:
        return await feed.client.isa(unit, lines=False)
    except CkwatchError as error:
        text = _with_hint(error)
        if not any(text == note.text for note in notes):
            notes.append(Note(key=f"isa-{unit}", text=text, kind="hint"))
        return None


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    choice = unit_choice(feed, query, label="A")
    unit = choice.value
    if not unit:
        return NO_UNITS
    row = feed.units[unit]
    baselines = await feed.client.baselines()
    others = {PREVIOUS: "previous build", **{f"{BASELINE}:{one.name}": f"baseline {one.name}" for one in baselines}}
    options = others | {one: one for one in sorted(feed.units) if one != unit}
    asked = dict(query)
    if asked.get("against") == BASELINE and baselines:
        asked["against"] = f"{BASELINE}:{baselines[0].name}"
    if asked.get("against") == unit:  # which is there, and says nothing beside itself
        del asked["against"]
    other = choose("against", "B", options, asked, default_against(feed, unit))
    part = choose("part", "Instructions", PARTS, query)
    against, notes = other.value, list[Note]()
    ours, analysis = await _side(feed, unit, notes)
    compared: Sequence[Compared] = ()
    try:
        compared = await feed.client.compare(unit, against)
    except CkwatchError as error:
        notes.append(Note(key="compare", text=_with_hint(error), kind="hint"))
    other_analysis = None
    if against in feed.units:
        theirs, other_analysis = await _side(feed, against, notes)
    else:
        theirs = earlier(against, analysis, compared)
    blocks: list[Block] = [choice, other, part, _about(row, "A")]
    if against in feed.units:
        blocks.append(_about(feed.units[against], "B"))
    answer = verdict(compared, analysis, other_analysis)
    blocks.insert(3, Headlines(key="verdict", title="Verdict", lines=(answer,)))
    picture = ratio_plot(compared)
    blocks += [] if picture is None else [picture]
    if compared:
        blocks.append(timings(compared))
    blocks.append(parameters(ours, theirs))
    if ours.report is not None or theirs.report is not None:
        blocks.append(figures(ours, theirs, cast("Answer", answer.kind)))
        blocks += await _isa(feed, unit, against, part.value, notes)
    return Content(title=f"{unit} and {options[against]}", blocks=(*blocks, *notes))


async def _isa(feed: Feed, unit: str, against: str, part: str, notes: list[Note]) -> list[Block]:
    if against not in feed.units:
        text = "Of an earlier build the figures are kept, not the instructions: two units have them side by side."
        return [Note(key="no-isa", text=text, kind="hint")]
    mine, other = await _listing(feed, unit, notes), await _listing(feed, against, notes)
    if mine is None or other is None:
        return []

    def table() -> Table:
        return listing_table(instructions(mine, part), instructions(other, part), part, (unit, against))

    blocks: list[Block] = [await to_thread.run_sync(table)]
    stale = [one.unit for one in (mine, other) if not one.fresh]
    if stale:
        text = f"Of an earlier input: the instructions of {' and '.join(stale)}."
        blocks.append(Note(key="stale-isa", text=text, kind="warning"))
    for one in (mine, other):
        if len(one.kernels) > 1:
            text = f"{one.unit} has {count(len(one.kernels), 'kernel')}; this is {one.kernel}."
            blocks.append(Note(key=f"kernels-{one.unit}", text=text, kind="hint"))
    return blocks


def depends(feed: Feed, query: Query) -> Hashable:
    """Return the known state of both, and the units that there are."""
    unit = chosen_unit(feed, query)
    against = query.get("against") or default_against(feed, unit)
    return tuple(feed.units), *(_known(feed.units.get(name)) for name in (unit, against))


def _known(row: UnitRow | None) -> Hashable:
    if row is None:
        return None
    return row.id, row.place, row.generation, row.artifact, row.fresh, row.outcome, row.timings, row.verification
