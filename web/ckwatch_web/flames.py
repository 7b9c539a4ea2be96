"""A compile's time as a flame graph: clang's time trace nested, and drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ckwatch.model.amounts import duration
from ckwatch_web.content import Function, Plot
from ckwatch_web.plots import TOOLTIP, axis, base

LEAST_SHARE = 0.002
"""Of the pass; what took less is not drawn."""

MOST_FRAMES, MOST_DEPTH = 1500, 40
ROW_PX = 18

MOST_TEXT = 600
"""Code points of a name in a tooltip: names of templates have thousands."""

KINDS = ("parsing", "template instantiation", "LLVM IR generation", "optimizer", "code generation", "other")

_KIND_OF = {
    "Frontend": 0, "Source": 0, "InstantiateClass": 1, "InstantiateFunction": 1, "PerformPendingInstantiations": 1,
    "CodeGen Function": 2, "DebugType": 2, "DebugFunction": 2, "DebugGlobalVariable": 2, "Backend": 3, "Optimizer": 3,
    "OptFunction": 3, "OptModule": 3, "RunPass": 3, "CodeGenPasses": 4, "ExecuteCompiler": 5,
}  # fmt: skip

# Light enough for dark text on both pages.
_RENDER = Function(
    "(params, api) => { const from = api.coord([api.value(0), api.value(2)]), to = api.coord([api.value(1),"
    " api.value(2)]); const area = params.coordSys, left = Math.max(from[0], area.x), right = Math.min(to[0],"
    " area.x + area.width), width = right - left; if (width < 0.3) return null; const height = api.size([0, 1])[1];"
    " const colours = ['#a6cee3', '#fdbf6f', '#b2df8a', '#fb9a99', '#cab2d6', '#d9d9d9'];"
    " return { type: 'rect', transition: [], shape: { x: left, y: from[1] - height / 2,"
    " width: Math.max(width - 0.5, 0.3), height: height - 1 }, style: { fill: colours[api.value(3)] },"
    " emphasis: { style: { stroke: '#000', lineWidth: 1 } }, textConfig: { position: 'insideLeft', inside: true },"
    " textContent: width < 24 ? undefined : { type: 'text', style: { text: api.value(4), width: width - 8,"
    " overflow: 'truncate', ellipsis: '…', fill: '#111', fontSize: 11 } } }; }"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of work of the compiler and what it was about; times in µs since the pass began, `own_us` without the
    frames within. `kind` is an index of `KINDS`, `depth` counts the frames around it."""

    name: str
    detail: str
    begin_us: int
    duration_us: int
    own_us: int
    depth: int
    kind: int


@dataclass(frozen=True, slots=True)
class Flame:
    """The frames of one pass, from left to right and from outer to inner ones; `left_out` are too short to draw."""

    name: str
    total_us: int
    frames: tuple[Frame, ...]
    left_out: int


_Event = tuple[int, int, str, str]


def flames(lines: Iterable[str]) -> tuple[Flame, ...]:
    """The passes of a trace in the order of their numbers; a line of the file holds an event. For a thread, which it
    does not hold up others in: no line is long. Raises ValueError for what is no such trace."""
    names: dict[int, str] = {}
    events: dict[int, list[_Event]] = {}
    for line in lines:
        text = line.strip().rstrip(",")
        if not text.startswith("{") or not text.endswith("}"):
            continue
        event = json.loads(text)
        try:
            process, arguments = int(event["pid"]), event.get("args") or {}
            if event["ph"] == "M" and event["name"] == "process_name":
                names[process] = str(arguments["name"])
            elif event["ph"] == "X":
                begin = int(event["ts"])
                detail = str(arguments.get("detail", ""))
                events.setdefault(process, []).append((begin, begin + int(event["dur"]), event["name"], detail))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"an event is malformed: {text[:80]}") from error
    return tuple(_flame(names.get(process, f"pass {process}"), events[process]) for process in sorted(events))


def _flame(name: str, events: list[_Event]) -> Flame:
    frames = list(_nested(events))
    start = min(frame.begin_us for frame in frames)
    total = max(frame.begin_us + frame.duration_us for frame in frames) - start
    seen = [one for one in frames if one.duration_us >= LEAST_SHARE * total and one.depth < MOST_DEPTH]
    # a frame is at least as long as those within, and comes before them: none is kept without those around it
    kept = sorted(sorted(seen, key=lambda one: (-one.duration_us, one.depth))[:MOST_FRAMES], key=_from_left)
    moved = (
        Frame(one.name, one.detail, one.begin_us - start, one.duration_us, one.own_us, one.depth, one.kind)
        for one in kept
    )
    return Flame(name, total, tuple(moved), len(frames) - len(kept))


def _from_left(frame: Frame) -> tuple[int, int]:
    return frame.begin_us, frame.depth


def _nested(events: list[_Event]) -> Iterator[Frame]:
    """Clang writes an event when it ends: of two with the same extent the later one is around the other."""
    ordered = events[::-1]
    ordered.sort(key=lambda one: (one[0], -one[1]))
    stack: list[tuple[_Event, int, int]] = []
    within: list[int] = []
    for event in ordered:
        while stack and stack[-1][0][1] <= event[0]:
            yield _ended(stack, within)
        begin, end = event[0], event[1]
        if stack:
            end = min(end, stack[-1][0][1])  # both are rounded
            within[-1] += end - begin
        kind = _kind_of(event[2], stack[-1][2] if stack else len(KINDS) - 1)
        stack.append(((begin, end, event[2], event[3]), len(stack), kind))
        within.append(0)
    while stack:
        yield _ended(stack, within)


def _ended(stack: list[tuple[_Event, int, int]], within: list[int]) -> Frame:
    (begin, end, name, detail), depth, kind = stack.pop()
    return Frame(name, detail, begin, end - begin, end - begin - within.pop(), depth, kind)


def _kind_of(name: str, around: int) -> int:
    """Return the stage of an event; one without a stage belongs to the one around it."""
    found = _KIND_OF.get(name)
    return found if found is not None else 0 if name.startswith("Parse") else around


def flame_plot(flame: Flame, key: str) -> Plot:
    """Time to the right, what called what downwards."""
    total = max(flame.total_us, 1)
    data = [
        {
            "value": [frame.begin_us / 1e6, (frame.begin_us + frame.duration_us) / 1e6, frame.depth, frame.kind,
                      _label(frame)],
            "text": _about(frame, total),
        }
        for frame in flame.frames
    ]  # fmt: skip
    depth = 1 + max((frame.depth for frame in flame.frames), default=0)
    option = base(
        grid={"left": 8, "right": 8, "top": 8, "bottom": 78, "containLabel": False},
        xAxis=axis("s", min=0, max=total / 1e6, axisLabel={"showMaxLabel": False}),
        yAxis={"type": "value", "inverse": True, "min": -0.5, "max": depth - 0.5, "show": False},
        dataZoom=[
            {"type": "inside", "xAxisIndex": 0, "filterMode": "weakFilter"},
            {"type": "slider", "xAxisIndex": 0, "filterMode": "weakFilter", "height": 18, "bottom": 6,
             "showDataShadow": False, "brushSelect": False, "labelFormatter": ""},
        ],
        tooltip=TOOLTIP,
        series=[
            {"type": "custom", ":renderItem": _RENDER, "encode": {"x": [0, 1], "y": 2, "tooltip": []}, "data": data,
             "clip": True}
        ],
    )  # fmt: skip
    longest = max((one for one in flame.frames if one.own_us), key=lambda one: one.own_us, default=None)
    most = "" if longest is None else f" The most own time of one piece: {_label(longest)}, {_ms(longest.own_us)}."
    summary = (
        f"{flame.name}: {duration(flame.total_us / 1e6)} in all; {len(flame.frames):,} pieces are drawn,"
        f" {flame.left_out:,} shorter or deeper ones are not.{most} Scroll or drag the bar to zoom."
    )
    return Plot(
        key=key, title=f"Flame graph, {flame.name}", option=option, summary=summary, height_px=90 + ROW_PX * depth
    )


def _label(frame: Frame) -> str:
    detail = frame.detail
    if detail.startswith("/"):
        detail = detail.rpartition("/")[2]
    return (detail or frame.name)[:200]


def _about(frame: Frame, total_us: int) -> str:
    detail = frame.detail if len(frame.detail) <= MOST_TEXT else f"{frame.detail[:MOST_TEXT]} …"
    times = (
        f"{_ms(frame.duration_us)} ({100 * frame.duration_us / total_us:.1f} % of the pass), own {_ms(frame.own_us)}"
    )
    return "\n".join(filter(None, (f"{frame.name}: {KINDS[frame.kind]}", detail, times)))


def _ms(microseconds: int) -> str:
    return f"{microseconds / 1000:.1f} ms"
