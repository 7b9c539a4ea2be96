"""A tuning run as one HTML file: inline SVG, no script, nothing loaded from elsewhere, for light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from ckwatch.model.amounts import count, duration, time_of
from ckwatch.tuning import importance
from ckwatch.tuning.results import TuningRecord
from ckwatch.tuning.space import SpaceCoverage

WIDTH, HEIGHT, MARGIN = 860, 260, 56
MOST_LINES = 400
"""Lines of parallel coordinates: the fastest; more would only cover each other."""

MOST_LABELS = 12
"""Values of an axis that have a label."""

MOST_REASONS = 50

BEST_TEXT = "Interval: 95 % of the median. Confidence: the probability that no other measured instance is faster."

STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --faint: #767676; --line: #d0d0d0; --page: #fff; --mark: #0072b2 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --faint: #9a9a9a; --line: #444; --page: #16181b; --mark: #56b4e9 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 900px;
  margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .9em; overflow-wrap: anywhere }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--faint);
  stroke: var(--page); stroke-width: 3px; paint-order: stroke }
.axis { stroke: var(--line) } .step { stroke: var(--mark); fill: none; stroke-width: 2 } .bar { fill: var(--mark) }
.instance { fill: none; stroke-width: 1.2; stroke-opacity: .7 }
p.note { color: var(--faint) }
"""


def html_report(record: TuningRecord) -> str:
    """The whole page. All that comes from the record is escaped."""
    title = f"{record.run.kernel} on {record.run.arch}"
    parts = [
        f"<h1>Tuning {escape(title)}</h1>",
        _summary(record),
        "<h2>Best for each shape</h2>",
        _best(record),
        "<h2>Parameter importance</h2>",
        _importance(record),
    ]
    for shape in record.run.shapes:
        if record.best(shape) is None:
            continue
        parts += [f"<h2>{escape(shape)}</h2>", _progress(record, shape), _parallel(record, shape)]
    parts += ["<h2>Search space</h2>", _coverage(record), "<h2>Failures</h2>", _failures(record)]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def importance_text(found: Sequence[importance.ParameterImportance]) -> str:
    """Explain the shares; `found` is not empty."""
    return (
        "The share of the variance of the logarithm of the time that each parameter explains alone, from "
        f"{count(found[0].points, 'timing')}. Interactions count for none, and what the search avoided counts less."
    )


def coverage_text(found: SpaceCoverage) -> str:
    """How large a space is, how much of it is allowed, and how that is known."""
    how = "all were tried" if found.is_exact else f"estimated from {found.looked_at:,} random points"
    return f"{found.size:,} points, {100 * found.allowed_share:.3g} % of them allowed; {how}."


def _summary(record: TuningRecord) -> str:
    run = record.run
    devices = sorted({point.device for point in record.points if point.device})
    facts = [
        f"{count(len(record.points), 'instance')} of {record.coverage.size:,} evaluated in {duration(run.seconds)}",
        f"strategy {run.strategy}, seed {run.seed}",
    ]
    if run.budget_s is not None:
        facts.append(f"budget {duration(run.budget_s)}")
    if devices:
        facts.append(", ".join(devices))
    facts.append(f"ended: {run.ended}" if run.ended else "not finished")
    return f"<p>{escape('; '.join(facts))}.</p>"


def _best(record: TuningRecord) -> str:
    rows = []
    for shape in record.run.shapes:
        best = record.best(shape)
        if best is None:
            rows.append([shape, "nothing was measured", "", "", "", ""])
            continue
        interval = f"{time_of(best.low_us)} – {time_of(best.high_us)}"
        sure = "the only one" if best.confidence is None else f"{100 * best.confidence:.0f} %"
        next_one = (
            ""
            if best.runner_up is None or best.runner_up_us is None
            else f"{best.runner_up} ({time_of(best.runner_up_us)})"
        )
        rows.append([shape, best.instance, time_of(best.median_us), interval, sure, next_one])
    heads = ["shape", "instance", "median", "interval", "confidence", "runner-up"]
    return _rows(heads, rows, numbers=(2, 3, 4)) + f'<p class="note">{BEST_TEXT}</p>'


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if at in numbers else ''}>{escape(text)}</{tag}>" for at, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _svg(body: str, label: str, height: float = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">{body}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _importance(record: TuningRecord) -> str:
    found = importance.importance_of(record)
    if not found:
        return "<p>Too few instances were timed.</p>"
    row, left, room = 22, 200, WIDTH - 200 - 90
    body = "".join(
        _text(left - 8, at * row + 15, one.parameter, "end")
        + f'<rect class="bar" x="{left}" y="{at * row + 4}" width="{room * one.share:.1f}" height="14"/>'
        + _text(left + room * one.share + 6, at * row + 15, f"{100 * one.share:.0f} %", "start")
        for at, one in enumerate(found)
    )
    note = f'<p class="note">{importance_text(found)}</p>'
    return _svg(body, "Parameter importance", row * len(found) + 6) + note


def _progress(record: TuningRecord, shape: str) -> str:
    steps = importance.best_so_far(record, shape)
    last_order = max(point.order for point in record.points)
    last_seconds = max(record.run.seconds, *(point.seconds for point in record.points), 0.0)
    by_order = _steps([(step.order, step.median_us) for step in steps], 0, last_order)
    by_time = _steps([(step.seconds, step.median_us) for step in steps], 0, last_seconds)
    return _svg(
        by_order + _text(WIDTH / 2, HEIGHT - 6, f"evaluations, to {last_order}"), f"Best so far, {shape}"
    ) + _svg(by_time + _text(WIDTH / 2, HEIGHT - 6, f"time, to {duration(last_seconds)}"), f"Best over time, {shape}")


def _steps(points: Sequence[tuple[float, float]], first: float, last: float) -> str:
    """A falling staircase; the vertical axis is logarithmic."""
    times = [time for _, time in points]
    low, high = math.log(min(times)), math.log(max(times))
    across = (WIDTH - 2 * MARGIN) / ((last - first) or 1.0)

    def place(at: float, time: float) -> tuple[float, float]:
        down = (high - math.log(time)) / (high - low) if high > low else 0.5
        return MARGIN + (at - first) * across, 16 + down * (HEIGHT - 60)

    path = ""
    for index, (at, time) in enumerate(points):
        x, y = place(at, time)
        path += f"M{x:.1f} {y:.1f}" if index == 0 else f"H{x:.1f}V{y:.1f}"
    path += f"H{place(last, times[-1])[0]:.1f}"
    labels = {time_of(time): place(first, time)[1] for time in (times[0], times[-1])}
    return (
        f'<line class="axis" x1="{MARGIN}" y1="{HEIGHT - 34}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - 34}"/>'
        f'<path class="step" d="{path}"/>'
        + "".join(_text(MARGIN - 4, y + 4, text, "end") for text, y in labels.items())
    )


def _parallel(record: TuningRecord, shape: str) -> str:
    data = importance.parallel_coordinates(record, shape)
    if not data.axes or not data.lines:
        return ""
    lines = data.lines[:MOST_LINES]
    height, top, bottom = 340, 34, 300
    gap = (WIDTH - 2 * MARGIN) / max(len(data.axes) - 1, 1)
    low, high = math.log(lines[0].median_us), math.log(lines[-1].median_us)

    def place(axis: int, position: int) -> tuple[float, float]:
        last = max(len(data.axes[axis].values) - 1, 1)
        return MARGIN + axis * gap, bottom - (bottom - top) * position / last

    body = ""
    for line in reversed(lines):  # the fastest lie on top
        places = [place(axis, position) for axis, position in enumerate(line.positions)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        slow = (math.log(line.median_us) - low) / (high - low) if high > low else 0.0
        tip = f"<title>{escape(line.instance)}: {escape(time_of(line.median_us))}</title>"
        body += f'<path class="instance" stroke="{_colour(slow)}" d="{path}">{tip}</path>'
    for at, axis in enumerate(data.axes):
        x = MARGIN + at * gap
        body += f'<line class="axis" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
        body += _text(x, 14 + 12 * (at % 2), axis.parameter)
        stride = math.ceil(len(axis.values) / MOST_LABELS)
        body += "".join(
            _text(x + 4, place(at, position)[1] + 4, "absent" if value is None else str(value), "start")
            for position, value in enumerate(axis.values)
            if position % stride == 0
        )
    left_out = f" The fastest {len(lines)} of {len(data.lines)} are drawn." if len(lines) < len(data.lines) else ""
    note = (
        f'<p class="note">Each line is a timed instance, from fast (blue, {escape(time_of(lines[0].median_us))}) to '
        f"slow (orange, {escape(time_of(lines[-1].median_us))}).{left_out}</p>"
    )
    return _svg(body, f"Parallel coordinates, {shape}", height) + note


def _colour(slow: float) -> str:
    """From blue to orange of Okabe and Ito's palette, which everybody can tell apart."""
    fast_rgb, slow_rgb = (0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00)
    return "#" + "".join(f"{round(a + (b - a) * slow):02x}" for a, b in zip(fast_rgb, slow_rgb, strict=True))


def _coverage(record: TuningRecord) -> str:
    found = record.coverage
    text = f"<p>{coverage_text(found)}</p>"
    if found.refused:
        rows = [[one.rule, f"{100 * one.share:.3g} %", one.example] for one in found.refused]
        text += _rows(["refused by", "share", "for example"], rows, numbers=(1,))
    if found.gone:
        rows = [
            [one.parameter, str(one.value), one.rule, "" if one.is_certain else "none was found in a search"]
            for one in found.gone
        ]
        text += "<h3>Values that no allowed point has</h3>" + _rows(["parameter", "value", "most refused by", ""], rows)
    return text


def _failures(record: TuningRecord) -> str:
    reasons = importance.failure_reasons(record)
    if not reasons:
        return "<p>None.</p>"
    rows = [[one.status.value, str(one.times), one.reason, one.instance] for one in reasons[:MOST_REASONS]]
    more = f"<p>{count(len(reasons) - len(rows), 'more reason')}.</p>" if len(rows) < len(reasons) else ""
    return _rows(["what", "times", "reason", "for example"], rows, numbers=(1,)) + more
