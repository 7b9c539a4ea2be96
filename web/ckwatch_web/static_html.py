"""A view as one static HTML file, which opens from a disk, too. Its plots take `echarts.js` beside it, or in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from ckwatch.model.amounts import tflops, time_of
from ckwatch.system.user_files import read_file
from ckwatch_web.content import (
    HEADLINE_MARKS,
    PLACE,
    Action,
    Block,
    Cell,
    Choice,
    Column,
    Content,
    Facts,
    Headlines,
    Note,
    Plot,
    Row,
    Table,
    changes,
    csv_text,
    spans,
    without_marks,
)
from ckwatch_web.grid import HEAT_STEPS, SHARE_STEPS, UNSURE, verdict_marks
from ckwatch_web.places import TextPlace, place_in
from ckwatch_web.plots import painted

MOST_ROWS = 1000
"""Of a table in a page; the CSV beside it has all."""

FUNCTION = "$function"
"""Stands in an option for a JavaScript function of this package, by its number."""

SCRIPT_FILE = "echarts.js"
STYLE_FILE = Path(__file__).parent / "assets" / "style.css"

_SCRIPT = """
const functions = [FUNCTIONS];
const revived = value => Array.isArray(value) ? value.map(revived)
  : value && typeof value === "object"
    ? "$function" in value ? functions[value.$function]
      : Object.fromEntries(Object.entries(value).map(([key, one]) => [key, revived(one)]))
    : value;
(async () => {
  const url = URL.createObjectURL(new Blob([ECHARTS_SOURCE], { type: "text/javascript" }));
  const echarts = (await import(url))[ECHARTS_NAME];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.body.classList.toggle("body--dark", dark.matches);
  for (const element of document.querySelectorAll("[data-plot]")) {
    const plot = JSON.parse(document.getElementById(element.dataset.plot).textContent);
    const chart = echarts.init(element);
    chart.setOption(revived(dark.matches ? { ...plot.option, ...plot.dark } : plot.option));
    new ResizeObserver(() => chart.resize()).observe(element);
  }
})();
"""


def echarts_script(dist: Path) -> str:
    """A classic script that holds ECharts as NiceGUI ships it in `dist`: browsers load no modules from a disk."""
    index = read_file(dist / "index.js").decode()
    found = re.search(r'import\{(\w+) as (\w+),.*?\}from"\./([\w.-]+)";export\{\2 as echarts', index)
    if found is None:
        raise ValueError("NiceGUI's ECharts is packed differently than expected")
    source = read_file(dist / found[3]).decode()
    return f"const ECHARTS_NAME = {_json(found[1])};\nconst ECHARTS_SOURCE = {_json(source)};\n"


def page(
    content: Content,
    title: str,
    *,
    menu: Sequence[tuple[str, str]],
    others: Sequence[tuple[str, str]] = (),
    csv_of: Mapping[str, str] = MappingProxyType({}),
    library: str = "",
) -> str:
    """The file's text. `menu` are names and files of the views, `others` those of the same view, and `csv_of` is the
    CSV file of each table; `library` is the text of `echarts_script`, if the file is to need no other."""
    plots: list[str] = []
    functions: list[str] = []
    kept = (block for block in content.blocks if not changes(block) and not (isinstance(block, Plot) and block.live))
    body = "".join(_block(block, plots, functions, csv_of) for block in kept)
    heading = f"{title}: {content.title}" if content.title else title
    links = _links(menu, "")
    more = f"<details><summary>{len(others)} pages</summary>{_links(others, '<br>')}</details>" if others[1:] else ""
    script = _SCRIPT.replace("FUNCTIONS", ",\n".join(f"({one})" for one in functions)) if plots else ""
    digests = " ".join(_digest(one) for one in (library, script) if one)
    policy = (
        f"default-src 'none'; script-src 'self' file: blob: {digests}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    library = f"<script>{library}</script>" if library else f'<script src="{SCRIPT_FILE}"></script>'
    scripts = f"{''.join(plots)}{library}<script>{script}</script>" if plots else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(heading)} – ckwatch</title><style>{_style()}</style></head>"
        f'<body class="static"><div class="nicegui-content"><nav class="top" aria-label="Views">{links}</nav>'
        f"<main><h1>{escape(heading)}</h1>{more}{body}</main></div>{scripts}</body></html>\n"
    )


@cache
def _style() -> str:
    return read_file(STYLE_FILE).decode()


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _links(links: Sequence[tuple[str, str]], separator: str) -> str:
    return separator.join(f'<a href="{escape(quote(file))}">{escape(name)}</a>' for name, file in links)


def _block(block: Block, plots: list[str], functions: list[str], csv_of: Mapping[str, str]) -> str:
    if isinstance(block, Note):
        return f'<p class="note note-{block.kind}">{_marked(block.text)}{_ways(block.place)}</p>'
    if isinstance(block, Facts):
        return _section(block.title, _facts(block) + _ways(block.place))
    if isinstance(block, Headlines):
        return f'<section class="part" aria-label="{escape(block.title)}">{_headlines(block)}</section>'
    if isinstance(block, Plot):
        return _section(block.title, _plot(block, plots, functions))
    if isinstance(block, Table):
        return _section(f"{block.title} ({len(block.rows):,})", _table(block, csv_of.get(block.key, "")))
    if isinstance(block, Choice):
        return f"<p class=status>{escape(block.label)}: {escape(block.options.get(block.value, block.value))}</p>"
    assert isinstance(block, Action)  # noqa: S101  # what is done is for a page that is live
    return ""


def _section(title: str, body: str) -> str:
    return f'<section class="part" aria-label="{escape(title)}"><h2>{escape(title)}</h2>{body}</section>'


def _facts(block: Facts) -> str:
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{_marked(value)}</dd></div>" for name, value in block.facts)
    return f'<dl class="facts">{pairs}</dl>'


def _marked(text: str) -> str:
    return "".join(f"<code>{escape(part)}</code>" if code else escape(part) for part, code in spans(text))


def _headlines(block: Headlines) -> str:
    lines = []
    for line in block.lines:
        mark, word = HEADLINE_MARKS[line.kind]
        lines.append(
            f'<li class="headline-{line.kind}"><span class="mark" role="img" aria-label="{word}">{mark}</span> '
            f"<span>{_marked(line.text)}</span></li>"
        )
    return f'<ul class="headlines">{"".join(lines)}</ul>'


def _ways(place: TextPlace | None) -> str:
    return "" if place is None else f' <a href="{escape(place.vscode_url)}">{escape(place.text)}</a>'


def _plot(block: Plot, plots: list[str], functions: list[str]) -> str:
    light, dark = (_without_functions(painted(block.option, dark=one), functions) for one in (False, True))
    data = {"option": light, "dark": {key: value for key, value in dark.items() if value != light.get(key)}}
    name = f"plot-{len(plots)}"
    plots.append(f'<script type="application/json" id="{name}">{_json(data)}</script>')
    label = escape(without_marks(f"{block.title}. {block.summary}"))
    return (
        f'<div class="plot" data-plot="{name}" style="height:{block.height_px}px" role="img" aria-label="{label}">'
        f"</div>"
        f'<p class="note note-hint">{_marked(block.summary)}</p>{_elsewhere(block.links)}'
    )


def _elsewhere(links: Sequence[tuple[str, str]]) -> str:
    """Links to other servers."""
    found = " ".join(f'<a rel="noreferrer" href="{escape(address)}">{escape(text)}</a>' for text, address in links)
    return f'<p class="place">{found}</p>' if found else ""


def _without_functions(value: Any, functions: list[str]) -> Any:
    """An option in which each function stands for its number."""
    if isinstance(value, Mapping):
        found = {}
        for key, one in value.items():
            if isinstance(key, str) and key.startswith(":"):
                if one not in functions:
                    functions.append(one)
                found[key[1:]] = {FUNCTION: functions.index(one)}
            else:
                found[key] = _without_functions(one, functions)
        return found
    if isinstance(value, (list, tuple)):
        return [_without_functions(one, functions) for one in value]
    return value


def _table(block: Table, csv_file: str) -> str:
    if not block.rows:
        return f"<p>{_marked(block.empty)}</p>"
    places = any(row.get(PLACE) for row in block.rows)
    heads = "".join(f"<th scope=col{_number_class(column)}>{escape(column.title)}</th>" for column in block.columns) + (
        "<th scope=col>place</th>" if places else ""
    )
    rows = "".join(_row(block, row, places=places) for row in block.rows[:MOST_ROWS])
    left_out = f"The first {MOST_ROWS:,} of {len(block.rows):,} rows; " if len(block.rows) > MOST_ROWS else ""
    link = (
        f'<p class=note>{left_out}<a href="{escape(quote(csv_file))}" download>CSV of all rows</a></p>'
        if csv_file
        else ""
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'{link}<div class="scroll" tabindex="0">{table}</div>'


def _number_class(column: Column) -> str:
    return " class=number" if column.is_number else ""


def _row(block: Table, row: Row, *, places: bool) -> str:
    cells = "".join(_cell(column, row) for column in block.columns)
    return f"<tr>{cells}{f'<td>{_ways(place_in(row.get(PLACE)))}</td>' if places else ''}</tr>"


def _cell(column: Column, row: Row) -> str:
    value = row.get(column.key)
    classes = ["number"] if column.is_number else []
    if column.kind == "code":
        classes.append("code-cell")
    if column.mark and row.get(column.mark):
        classes.append("differs")
    text = without_marks(shown(value)) if column.kind == "text" else shown(value)
    if column.kind == "heat" and isinstance(value, (int, float)):
        classes.append(f"heat-{sum(value > step for step in HEAT_STEPS)}")
        verdict = str(row.get(f"{column.key}_verdict") or "")
        classes += ["unsure"] if UNSURE in verdict else []
        text = f"{value:.3f} {verdict_marks(verdict)}".strip()
    if column.kind in ("time", "rate") and isinstance(value, (int, float)):
        text = time_of(value) if column.kind == "time" else tflops(value)
    if column.kind == "share" and isinstance(value, (int, float)):
        classes.append(f"share-{sum(value >= step for step in SHARE_STEPS)}")
    names = f' class="{" ".join(classes)}"' if classes else ""
    return f"<td{names}>{escape(text)}</td>"


def shown(value: Cell) -> str:
    """A cell as text: numbers with four digits, as the grid shows them."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else str(value)


def _json(value: Any) -> str:
    """JSON that may stand in a script: nothing in it ends one or begins a comment."""
    return (
        json.dumps(value, ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def csv_files(stem: str, tables: Sequence[Table]) -> dict[str, tuple[str, str]]:
    """Of each table by its key: its file's name, and its text."""
    return {table.key: (f"{stem}-{table.key}.csv", csv_text(table)) for table in tables if table.rows}
