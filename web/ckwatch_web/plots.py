"""Parts of plots: ECharts options that look alike, without colours of text and axes, which the page's theme adds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ckwatch_web.content import Function

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c8c8c")
"""Okabe and Ito's palette, which everybody can tell apart."""

HEAT_COLOURS = ("#d3efd2", "#c4e3a8", "#d9d780", "#ecc25d", "#e79c48", "#cf6b33", "#9c3a22", "#5c1616")
"""Those of the classes `heat-0` to `heat-7` of the style sheet, from good to bad, each darker than the one before: the
order is seen without a colour, too."""

NAME_TIP = {"trigger": "item", "confine": True, "renderMode": "richText", "formatter": "{b}"}
"""A tooltip with the name of what is pointed at, as text on the canvas, where HTML means nothing."""

Option = dict[str, Any]

TOOLTIP: Mapping[str, Any] = {
    "trigger": "item",
    "confine": True,
    ":formatter": Function(
        "p => { const box = document.createElement('div'); box.textContent = (p.data && p.data.text) || p.name;"
        " box.style.cssText = 'white-space: pre-wrap; overflow-wrap: anywhere; max-width: min(36rem, 80vw)';"
        " return box; }"
    ),
}
"""Shows the `text` of a point, as text: what comes from a workspace is not read as HTML."""


# Colours are light enough for dark text on both pages.
_FLAME_BOX = Function(
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
FLAME_COLOURS = 6
FLAME_ROW_PX = 18


TIME_LABEL = Function(
    "value => { const [part, unit] = value < 1e3 ? [1, ' µs'] : value < 1e6 ? [1e3, ' ms'] : [1e6, ' s'];"
    " return Number((value / part).toPrecision(4)) + unit; }"
)
"""Of an axis of µs."""


def base(**parts: Any) -> Option:
    """Return the options that all plots share."""
    return {
        "animation": False,
        "color": list(COLOURS),
        "grid": {"left": 12, "right": 24, "top": 40, "bottom": 34, "containLabel": True},
        "tooltip": {"trigger": "item", "confine": True},
        **parts,
    }


def flame_option(boxes: Sequence[Mapping[str, Any]], total: float, unit: str) -> Option:
    """A flame graph: extent to the right, what called what downwards. The `value` of a box is its begin, end, depth,
    the number of its colour and its label; its `text` is the tooltip."""
    return base(
        grid={"left": 8, "right": 8, "top": 8, "bottom": 78, "containLabel": False},
        xAxis=axis(unit, min=0, max=total, axisLabel={"showMaxLabel": False}),
        yAxis={"type": "value", "inverse": True, "min": -0.5, "max": _depth(boxes) - 0.5, "show": False},
        dataZoom=[
            {"type": "inside", "xAxisIndex": 0, "filterMode": "weakFilter"},
            {"type": "slider", "xAxisIndex": 0, "filterMode": "weakFilter", "height": 18, "bottom": 6,
             "showDataShadow": False, "brushSelect": False, "labelFormatter": ""},
        ],
        tooltip=TOOLTIP,
        series=[
            {"type": "custom", ":renderItem": _FLAME_BOX, "encode": {"x": [0, 1], "y": 2, "tooltip": []},
             "data": list(boxes), "clip": True}
        ],
    )  # fmt: skip


def flame_height_px(boxes: Sequence[Mapping[str, Any]]) -> int:
    return 90 + FLAME_ROW_PX * _depth(boxes)


def _depth(boxes: Sequence[Mapping[str, Any]]) -> int:
    return 1 + max((int(box["value"][2]) for box in boxes), default=0)


def axis(name: str, *, kind: str = "value", **more: Any) -> Option:
    """An axis with its name in the middle. `kind`: value, log, time or category."""
    return {"type": kind, "name": name, "nameLocation": "middle", "nameGap": 28, "scale": kind == "value", **more}


def log_axis(name: str, values: Iterable[float], **more: Any) -> Option:
    """A logarithmic axis of these positive values, at least one, with some room and with round numbers at its ticks."""
    known = list(values)
    room = max((max(known) / min(known)) ** 0.04, 1.002)
    low, high = (float(f"{end:.5g}") for end in (min(known) / room, max(known) * room))
    ticks = {"customValues": log_ticks(low, high)}
    labels = {**ticks, "hideOverlap": True}
    lines = {"show": False}
    return axis(name, kind="log", min=low, max=high, axisLabel=labels, axisTick=ticks, splitLine=lines, **more)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, both positive: about as far apart as eyes want them on a logarithmic axis."""
    if high / low < 4:
        least = (high - low) / 6
        decade = 10.0 ** math.floor(math.log10(least))
        step = next(part * decade for part in (1, 2, 5, 10) if part * decade >= least)
        return [round(at * step, 12) for at in range(math.ceil(low / step), math.floor(high / step) + 1)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [round(part * 10.0**decade, 12) for decade in decades for part in parts]
    return [tick for tick in ticks if low <= tick <= high]


def legend(names: Sequence[str]) -> Option:
    """A legend that scrolls where there are many names."""
    return {"type": "scroll", "top": 4, "data": list(names)}


def shortened(name: str, most: int) -> str:
    """A name without its middle where it is long."""
    half = most // 2
    return name if len(name) <= most else f"{name[: half - 1]}…{name[-half:]}"


def check_functions(option: Any) -> None:
    """Raises ValueError for a function that is none of this package's: NiceGUI would evaluate it."""
    if isinstance(option, Mapping):
        for key, value in option.items():
            if isinstance(key, str) and key.startswith(":") and not isinstance(value, Function):
                raise ValueError(f"'{key}' would be evaluated in the browser")
            check_functions(value)
    elif isinstance(option, (list, tuple)):
        for value in option:
            if isinstance(value, (Mapping, list, tuple)):
                check_functions(value)


def painted(option: Mapping[str, Any], *, dark: bool) -> Option:
    """The option with text and lines for a dark or a light page. Raises ValueError as `check_functions`."""
    check_functions(option)
    text, line = ("#e6e6e6", "#5a5a5a") if dark else ("#1c1c1c", "#c8c8c8")
    plain: Option = {"backgroundColor": "transparent", "textStyle": {"color": text}, **option}
    for key in ("xAxis", "yAxis", "parallelAxis"):
        if key in plain:
            many = plain[key]
            plain[key] = [_axis(one, text, line) for one in many] if isinstance(many, list) else _axis(many, text, line)
    for key in ("legend", "visualMap"):
        if key in plain:
            plain[key] = {**plain[key], "textStyle": {"color": text}}
    if "legend" in plain:
        plain["legend"] |= {"pageTextStyle": {"color": text}, "pageIconColor": text, "pageIconInactiveColor": line}
    if "parallel" in plain:
        default = plain["parallel"].get("parallelAxisDefault", {})
        plain["parallel"] = {**plain["parallel"], "parallelAxisDefault": _axis(default, text, line)}
    background = "#2a2d31" if dark else "#ffffff"
    tip = {"backgroundColor": background, "borderColor": line, "textStyle": {"color": text}}
    plain["tooltip"] = {**plain.get("tooltip", {}), **tip}
    return plain


def _axis(option: Mapping[str, Any], text: str, line: str) -> Option:
    return {
        **option,
        "axisLabel": {"color": text, **option.get("axisLabel", {})},
        "nameTextStyle": {"color": text, **option.get("nameTextStyle", {})},
        "axisLine": {"lineStyle": {"color": line}, **option.get("axisLine", {})},
        "splitLine": {"lineStyle": {"color": line, "opacity": 0.5}, **option.get("splitLine", {})},
    }
