"""*Profile*: where a unit's work goes, by instructions that an emulator executed and counted: no times.

A launch takes seconds, and source lines a compile, so a profile is made when somebody asks for it, and kept for all
windows with the texts as they were then.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import timestamp
from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file
from ckwatch_web.choices import choose, chosen_unit, unit_choice
from ckwatch_web.content import (
    LINKS,
    NO_UNITS,
    PLACE,
    UNIT,
    Action,
    Block,
    Cell,
    Column,
    Content,
    Facts,
    Note,
    Plot,
    Row,
    Table,
)
from ckwatch_web.places import TextPlace, name_of
from ckwatch_web.plots import FLAME_COLOURS, flame_height_px, flame_option, shortened
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.model.profiles import KernelProfile, ProfiledLine, ProfiledStack, ProfileFigures
    from ckwatch.wire.analysis import UnitProfile
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

KEPT = "profiles"
MOST_KEPT = 8
"""Profiles, those that were asked for last."""

USUAL, NOTHING, HOTTEST = "usual", "nothing", "hottest"
"""The shape that a unit is profiled on unless one is named; nothing to compare with; lines of all files."""

PREVIOUS, BASELINE = "previous", "baseline"

MOST_FILES = 12
"""Texts that can be chosen, those with the most issues."""

LEAST_SHARE = 0.002
"""Of the kernel's issues; functions with less are not drawn."""

MOST_DEPTH = 60
NO_LINE = "no source line"

_Key = tuple[str, str, str]
"""A unit, a shape, and what it is compared with."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profile with the lines of the texts that it names, of which generation of the unit it is, and when it was made
    (Unix seconds)."""

    profile: UnitProfile
    texts: Mapping[str, Sequence[str]]
    generation: int
    at: float


def kept_profiles(feed: Feed) -> dict[_Key, Profiled]:
    """Those of all windows, the one that was made last at the end."""
    return cast("dict[_Key, Profiled]", feed.kept.setdefault(KEPT, {}))


def _percent(part: float | None) -> float | None:
    return None if part is None else round(100 * part, 2)


def _figures(kernel: KernelProfile, figures: ProfileFigures) -> dict[str, Cell]:
    per, least, ways = figures.lines_per_request, figures.least_lines_per_request, figures.conflict_ways
    return {
        "share": _percent(kernel.share(figures)),
        "cycles": _percent(kernel.cycle_share(None if figures.cycles is None else figures.cycles.total)),
        "issued": figures.counts.issued,
        "lanes": _percent(figures.lanes_at_work(kernel.wave_lanes)),
        "lines": per,
        "least": least,
        "ways": ways,
        "matrix": figures.mix.get("mfma") or None,
        "waits": ", ".join(figures.waits if figures.cycles is None else figures.cycles.waits_for),
    }


_SHARE = Column(key="share", title="share, %", kind="share", width=112, note="of the instructions that were issued")
_COUNTED = (
    Column(
        key="cycles", title="cycles (estimate), %", kind="number", width=170, note="estimated of the waves, not timed"
    ),
    Column(key="lanes", title="lanes, %", kind="number", width=112, note="that are active in vector instructions"),
    Column(key="lines", title="cache lines", kind="number", width=128, note="that a request of memory touches"),
    Column(key="least", title="least", kind="number", width=96, note="cache lines that would hold what it wants"),
    Column(key="ways", title="LDS ways", kind="number", width=116, note="turns of LDS; 1 is without conflicts"),
)


def shown_figures(line: ProfiledLine) -> ProfileFigures:
    """Of a template's line with all that it calls, of a header's by itself."""
    return line.total if line.in_template else line.own


def files(kernel: KernelProfile) -> dict[str, int]:
    """Paths with the issues of their lines: those of templates first, then those with the most."""
    issued: dict[str, int] = {}
    templates = {line.path for line in kernel.lines if line.in_template}
    for line in kernel.lines:
        issued[line.path] = issued.get(line.path, 0) + line.own.counts.issued
    order = sorted(issued, key=lambda path: (path not in templates, -issued[path], path))
    return {path: issued[path] for path in order if issued[path] or path in templates}


def source_table(kernel: KernelProfile, unit: str, texts: Mapping[str, Sequence[str]], path: str) -> Table:
    """All lines of a text with what was counted at them; for `HOTTEST` those of all texts that have something."""
    numbered = [(at, line) for at, line in enumerate(kernel.lines) if shown_figures(line).counts.issued]
    if path == HOTTEST:
        numbered.sort(key=lambda one: (not one[1].in_template, -shown_figures(one[1]).counts.issued))
        rows = [_source_row(kernel, unit, texts, TextPlace(line.path, line.line), (at, line)) for at, line in numbered]
    else:
        own = {line.line: (at, line) for at, line in numbered if line.path == path}
        length = max([len(texts.get(path, ())), *(line + 1 for line in own)])
        rows = [_source_row(kernel, unit, texts, TextPlace(path, number), own.get(number)) for number in range(length)]
    columns = (
        _SHARE,
        Column(key="line", title="line", width=84),
        Column(key="text", title="source", kind="code", width=380),
        *_COUNTED,
        Column(key="matrix", title="matrix instructions", kind="number", width=170),
        Column(key="waits", title="waits for", width=150),
        Column(key="issued", title="issued", kind="number", width=112),
        Column(key="file", title="file", width=180),
        Column(key="function", title="function", width=240),
    )
    title = "Lines by share" if path == HOTTEST else f"Lines of {Path(path).name}"
    return Table(key="source", title=title, columns=columns, rows=tuple(rows), empty="no source lines",
                 height_px=640, beside="instructions")  # fmt: skip


def _source_row(
    kernel: KernelProfile,
    unit: str,
    texts: Mapping[str, Sequence[str]],
    place: TextPlace,
    found: tuple[int, ProfiledLine] | None,
) -> Row:
    text = texts.get(place.path, ())
    row: dict[str, Cell] = {
        "id": place.text, PLACE: place.text, UNIT: unit, "line": str(place.line + 1), "file": Path(place.path).name,
        "text": text[place.line] if place.line < len(text) else "",
    }  # fmt: skip
    if found is not None:
        at, line = found
        row |= {LINKS: str(at), "function": line.function, **_figures(kernel, shown_figures(line))}
    return row


def instruction_table(kernel: KernelProfile, unit: str) -> Table:
    """All instructions in their order, each with the line that it came from."""
    issued = max(1, kernel.total.counts.issued)
    rows: list[Row] = []
    for one in kernel.instructions:
        counts, line = one.counts, None if one.at is None else kernel.lines[one.at]
        chain = () if one.chain is None else kernel.chains[one.chain]
        links = dict.fromkeys((*(() if one.at is None else (one.at,)), *chain))
        place = None if line is None else TextPlace(line.path, line.line)
        on_lanes = counts.issued and not one.text.startswith("s_")
        rows.append({
            "id": f"{one.address:x}", UNIT: unit, PLACE: None if place is None else place.text,
            LINKS: " ".join(map(str, links)), "address": f"{one.address:x}", "text": one.text,
            "share": _percent(counts.issued / issued),
            "cycles": _percent(kernel.cycle_share(None if one.cycles is None else one.cycles.total)),
            "issued": counts.issued,
            "lanes": _percent(counts.lanes / (counts.issued * kernel.wave_lanes)) if on_lanes else None,
            "lines": counts.cache_lines / counts.requests if counts.requests else None,
            "least": counts.least_lines / counts.requests if counts.requests else None,
            "ways": counts.turns / counts.phases if counts.phases else None,
            "where": name_of(place), "loop": None if one.loop is None else one.loop + 1,
        })  # fmt: skip
    columns = (
        _SHARE,
        Column(key="address", title="address", kind="code", width=112),
        Column(key="text", title="instruction", kind="code", width=380),
        *_COUNTED,
        Column(key="where", title="from", width=180),
        Column(key="loop", title="loop", kind="number", width=90),
        Column(key="issued", title="issued", kind="number", width=112),
    )
    return Table(key="instructions", title="Instructions", columns=columns, rows=tuple(rows), empty="none",
                 height_px=640, beside="source")  # fmt: skip


@dataclass(slots=True)
class _Call:
    """A function within others, with the issues there; `issued` counts those of the functions within, too."""

    issued: int = 0
    within: dict[str, _Call] = field(default_factory=dict)


def flame_plot(kernel: KernelProfile) -> Plot:
    """Issues to the right, what was inlined into what downwards."""
    total = max(1, sum(stack.issued for stack in kernel.stacks))
    boxes = list(_boxes(_called(kernel.stacks), 0, 0, total))
    most = max(kernel.stacks, key=lambda stack: stack.issued, default=None)
    words = "" if most is None else f" Most by itself: {most.functions[-1]}, {100 * most.issued / total:.1f} %."
    return Plot(
        key="flame",
        title="Functions that were inlined into each other, by issued instructions",
        option=flame_option(boxes, total, "instructions"),
        summary=(
            f"Counted: {total:,} instructions; functions with less than {100 * LEAST_SHARE:g} % are not drawn."
            f"{words} Scroll or drag the bar to zoom."
        ),
        height_px=flame_height_px(boxes),
    )


def _called(stacks: Sequence[ProfiledStack]) -> _Call:
    root = _Call()
    for stack in stacks:
        call = root
        for function in stack.functions[:MOST_DEPTH]:
            call = call.within.setdefault(function, _Call())
            call.issued += stack.issued
    return root


def _boxes(around: _Call, begin: int, depth: int, total: int) -> Iterator[dict[str, Any]]:
    for function, call in sorted(around.within.items(), key=lambda one: -one[1].issued):
        if call.issued < LEAST_SHARE * total:
            return
        own = call.issued - sum(one.issued for one in call.within.values())
        colour = FLAME_COLOURS - 1 if function == NO_LINE else crc32(function.encode()) % (FLAME_COLOURS - 1)
        yield {
            "value": [begin, begin + call.issued, depth, colour, shortened(function, 200)],
            "text": f"{shortened(function, 600)}\n{call.issued:,} instructions"
            f" ({100 * call.issued / total:.1f} %), {own:,} of them its own",
        }
        yield from _boxes(call, begin, depth + 1, total)
        begin += call.issued


def lost(found: UnitProfile) -> Table:
    """The clear losses, the largest losses first."""
    rows: list[Row] = []
    for at, hint in enumerate(found.hints):
        place = TextPlace(hint.path, hint.line)
        rows.append({"id": str(at), PLACE: place.text, UNIT: found.unit, "where": name_of(place), "text": hint.text,
                     "loss": _percent(hint.loss), "message": hint.message, "pattern": hint.pattern})  # fmt: skip
    columns = (
        Column(key="where", title="where", width=200),
        Column(key="text", title="lost", width=300),
        Column(
            key="loss", title="loss, %", kind="share", width=90, note="of issues, further turns of LDS and cache lines"
        ),
        Column(key="pattern", title="for example", width=420),
        Column(key="message", title="meaning", width=760),
    )
    return Table(key="lost", title="What is lost", columns=columns, rows=tuple(rows), empty="nothing that is clear")


def changes_table(found: UnitProfile, asked: str) -> Table:
    """The lines at which a profile differs from another one."""
    rows: list[Row] = []
    for at, one in enumerate(found.changes):
        place = TextPlace(one.path, one.line)
        rows.append({"id": str(at), PLACE: None if one.gone else place.text, UNIT: found.unit, "where": name_of(place),
                     "text": ", ".join(one.texts), "worse": one.worse})  # fmt: skip
    columns = (
        Column(key="where", title="where", width=200),
        Column(key="text", title="what changed; marked where it costs more", width=900, mark="worse"),
    )
    empty = "the same" if found.against else "that was not profiled on this shape"
    return Table(key="changes", title=f"Against {asked}", columns=columns, rows=tuple(rows), empty=empty)


def kernel_facts(found: UnitProfile, kernel: KernelProfile) -> Facts:
    """The sums of a kernel."""
    counted = _figures(kernel, kernel.total)
    facts = [
        ("shape", found.shape if found.shape_name in ("", found.shape) else f"{found.shape_name} ({found.shape})"),
        ("executed", f"{kernel.workgroups:,} of {kernel.all_workgroups:,} workgroups"),
        ("instructions", f"{kernel.total.counts.issued:,}"),
        ("active lanes", f"{counted['lanes']:.0f} %" if counted["lanes"] is not None else ""),
        ("cache lines per request", _of_least(kernel.total)),
        ("LDS ways", f"{counted['ways']:.3g}" if counted["ways"] is not None else ""),
        ("matrix instructions", f"{counted['matrix']:,}" if counted["matrix"] else ""),
    ]
    title = shortened(f"{kernel.name}, {words_of(found)}", 160)
    return Facts(key="kernel", title=title, facts=tuple(one for one in facts if one[1]))


def _of_least(figures: ProfileFigures) -> str:
    per, least = figures.lines_per_request, figures.least_lines_per_request
    return "" if per is None else f"{per:.3g}, at least {least:.3g}"


def words_of(found: UnitProfile) -> str:
    """`counted (emulated gfx942)`."""
    return f"counted ({found.device.replace(':', ' ', 1)})"


def profile_blocks(profiled: Profiled, asked: str, row: UnitRow, query: Query) -> list[Block]:
    """Draw a profile, which was compared with what is `asked`: its choices, then all else."""
    found = profiled.profile
    kernels = {str(at): shortened(one.name, 80) for at, one in enumerate(found.kernels)}
    largest = max(kernels, key=lambda at: found.kernels[int(at)].total.counts.issued)
    chosen = choose("part", "Kernel", kernels, query, largest)
    kernel = found.kernels[int(chosen.value)]
    paths = list(files(kernel))[:MOST_FILES]
    names = {path: f"{Path(path).name} ({100 * files(kernel)[path] / max(1, kernel.total.counts.issued):.1f} %)"
             for path in paths}  # fmt: skip
    source = choose("text", "Source", {**names, HOTTEST: "lines of all files by share"}, query)
    blocks: list[Block] = [chosen] if len(kernels) > 1 else []
    if kernel.lines:
        blocks.append(source)
    text = f"{words_of(found)}: counts are exact for what was executed, and no times. Made {timestamp(profiled.at)}."
    blocks.append(Note(key="counted", text=text[0].upper() + text[1:]))
    if profiled.generation != row.generation or profiled.at < row.profiled_at:
        news = "the unit has changed" if profiled.generation != row.generation else "there is a profile from a device"
        text = f"This profile is out of date: {news} since. Profile it again."
        blocks.append(Note(key="old", text=text, kind="warning"))
    if found.failure:
        text = f"The launch did not end as it should: {found.failure}"
        blocks.append(Note(key="failure", text=text, kind="warning"))
    blocks += [kernel_facts(found, kernel), lost(found)]
    if asked != NOTHING:
        blocks.append(changes_table(found, asked))
    if kernel.lines:
        blocks.append(source_table(kernel, found.unit, profiled.texts, source.value))
    blocks.append(instruction_table(kernel, found.unit))
    if kernel.lines:
        blocks.append(flame_plot(kernel))
    if kernel.notes:
        blocks.append(Note(key="notes", text="; ".join(kernel.notes), kind="hint"))
    if kernel.cycle_notes:
        text = f"Cycles are an estimate, and no timing: {'; '.join(kernel.cycle_notes)}"
        blocks.append(Note(key="cycles", text=text, kind="hint"))
    return blocks


async def _shapes(feed: Feed, unit: str) -> dict[str, str]:
    """Shapes of the kernel file, as far as they are known."""
    try:
        known = (await feed.client.analysis(unit)).shapes
    except CkwatchError:
        known = ()
    return {USUAL: "the first that fits", **{one.shape: one.shape for one in known}}


def _others(feed: Feed, unit: str) -> dict[str, str]:
    earlier = {NOTHING: "nothing", PREVIOUS: "the previous build", BASELINE: "the baseline"}
    return earlier | {one.id: one.id for one in feed.units.values() if one.id != unit and emulated_device(one.arch)}


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    choice = unit_choice(feed, query, _has_counts)
    row = feed.units.get(choice.value)
    if row is None:
        return NO_UNITS
    asked = dict(query)
    if asked.get("against") == row.id:  # which is there, and says nothing beside itself
        del asked["against"]
    shapes = await _shapes(feed, row.id)
    if "=" in asked.get("shape", ""):  # sizes, which the kernel file need not have
        shapes.setdefault(asked["shape"], asked["shape"])
    shape = choose("shape", "Shape", shapes, asked)
    other = choose("against", "Against", _others(feed, row.id), asked)
    profiled = kept_profiles(feed).get((row.id, shape.value, other.value))
    label = "Profile the unit" if profiled is None else "Profile again"
    blocks: list[Block] = [choice, shape, other, Action(key="profile", label=label, changes=False)]
    if not _has_counts(row):
        text = f"Profiles are counted on an emulator, and {row.arch} is not emulated."
        blocks = [choice, Note(key="not", text=text, kind="hint")]
    elif profiled is None:
        text = (
            "“Profile the unit” has the emulator execute some workgroups of a launch, counts what each instruction"
            " does, and compiles the device code once more for its source lines. It takes seconds to a minute."
        )
        if emulated_device(row.arch) is None:
            text = "“Profile the unit” shows what ncu counted: `ckwatch profile --device` has it take a profile."
        blocks.append(Note(key="how", text=text, kind="hint"))
    else:
        blocks += await to_thread.run_sync(profile_blocks, profiled, other.value, row, asked)
    return Content(title=row.id, blocks=tuple(blocks))


def _has_counts(row: UnitRow) -> bool:
    """Return True if an emulator, or ncu on a device, may count its instructions."""
    return emulated_device(row.arch) is not None or row.arch.startswith("sm_")


async def profile(feed: Feed, query: Query) -> str:
    """Have the unit, and one that it is compared with, executed and counted, and keep what comes of it."""
    row = feed.units.get(chosen_unit(feed, query, _has_counts))
    if row is None:
        raise CkwatchError("there is no such unit")
    if not _has_counts(row):
        return f"{row.id} is not profiled: {row.arch} is not emulated"
    shape, against = query.get("shape") or USUAL, query.get("against") or NOTHING
    found = await feed.client.profile(
        row.id, None if shape == USUAL else shape, against=None if against in (NOTHING, row.id) else against
    )
    if not found.kernels:
        return f"{row.id} is not profiled: its profile from a device has no counts"
    texts = await to_thread.run_sync(_texts, found)
    profiles, key = kept_profiles(feed), (row.id, shape, against)
    profiles.pop(key, None)
    profiles[key] = Profiled(found, texts, row.generation, time.time())
    while len(profiles) > MOST_KEPT:
        del profiles[next(iter(profiles))]
    return f"{row.id}: {found.executed:,} instructions, {words_of(found)}"


def _texts(found: UnitProfile) -> dict[str, list[str]]:
    """The texts of a profile as far as they can be read."""
    texts = {}
    for path in {path for kernel in found.kernels for path in list(files(kernel))[:MOST_FILES]}:
        try:
            texts[path] = read_file(path).decode("utf-8", "replace").split("\n")
        except OSError:
            continue
    return texts


def depends(feed: Feed, query: Query) -> Hashable:
    """The unit, its artifact and its profiles."""
    unit = chosen_unit(feed, query, _has_counts)
    row = feed.units.get(unit)
    kept = tuple((key, one.at) for key, one in kept_profiles(feed).items())
    return unit, row and (row.generation, row.artifact, row.place, row.profiled_at), kept, tuple(feed.units)


ACTIONS = {"profile": profile}
