"""Parts of plots: ECharts options that look alike, without colours of text and axes, which the page's theme adds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ckwatch_web.content import Function

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c8c8c")
"""Okabe and Ito's palette, which everybody can tell apart."""

HEAT_COLOURS = ("#0b6e4f", "#4c9a6a", "#a3cfa0", "#e9e4a6", "#f3c46b", "#e08a3c", "#a8431c")
"""Those of the classes `heat-0` to `heat-6` of the style sheet, from good to bad."""

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


def base(**parts: Any) -> Option:
    """Return the options that all plots share."""
    return {
        "animation": False,
        "color": list(COLOURS),
        "grid": {"left": 12, "right": 24, "top": 40, "bottom": 34, "containLabel": True},
        "tooltip": {"trigger": "item", "confine": True},
        **parts,
    }


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
