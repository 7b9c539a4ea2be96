"""Tables as options of the grid. The functions below are all the JavaScript that a table needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from ckwatch_web.content import ID, Column, Row, Table

ROW_PX, LINE_PX, HEAD_PX = 30, 18, 52
MOST_PX = 480
CHARACTER_PX, PADDING_PX = 7, 22
NARROW_PX = 220
MOST_WRAPPED = 500
"""Rows of a table in which long text has several lines; more would be slow to lay out."""

_ID = "params => params.data.id"
_NUMBER = "p => p.value == null ? '' : typeof p.value === 'number' ? String(Number(p.value.toPrecision(4))) : p.value"
_DIGITS = "const digits = v => v.toFixed(v < 9.9995 ? 3 : v < 99.995 ? 2 : v < 999.95 ? 1 : 0);"
_TIME = (
    f"p => {{ {_DIGITS} const v = p.value; if (typeof v !== 'number') return v ?? '';"
    " return v < 999.95 ? digits(v) + ' µs' : v < 999950 ? digits(v / 1e3) + ' ms' : digits(v / 1e6) + ' s'; }"
)
"""As `amounts.time_of`."""
_RATE = (
    f"p => {{ {_DIGITS} const v = p.value; if (typeof v !== 'number') return v ?? '';"
    " return v >= 0.99995 ? digits(v) + ' TFLOP/s' : digits(v * 1e3) + ' GFLOP/s'; }"
)
"""As `amounts.tflops`."""
MARKS = {"FAST": "▲", "SLOW": "▼", "SAME": "=", "UNSURE": "?"}
"""Of verdicts; other words beside a number are shown as they are."""
_PLAIN = "p => typeof p.value === 'string' ? p.value.replace(/`([^`]*)`/g, '$1') : p.value"
"""As `content.without_marks`."""
_WITH_VERDICT = (
    "p => { if (typeof p.value !== 'number') return p.value ?? '';"
    " const words = p.data[p.colDef.field + '_verdict']; const number = p.value.toFixed(p.value < 10 ? 3 : 1);"
    f" const marks = {json.dumps(MARKS)};"
    " return words ? number + ' ' + words.split(', ').map(word => marks[word] ?? word).join(' ') : number; }"
)
HEAT_STEPS = (1.005, 1.02, 1.05, 1.1, 1.25, 2.0, 4.0)
"""Ratios above which the colour changes, each darker than the one before."""
UNSURE = "UNSURE"
"""A verdict whose cell is hollow: its colour is an outline."""
_HEAT = (
    "p => typeof p.value !== 'number' ? '' : "
    f"'ag-right-aligned-cell heat-' + {list(HEAT_STEPS)}.filter(step => p.value > step).length"
    f" + ((p.data[p.colDef.field + '_verdict'] ?? '').includes('{UNSURE}') ? ' unsure' : '')"
)
SHARE_STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Percentages from which on the colour changes."""
_SHARE = (
    "p => typeof p.value !== 'number' ? '' : "
    f"'ag-right-aligned-cell share-' + {list(SHARE_STEPS)}.filter(step => p.value >= step).length"
)
_LINKED = "p => Boolean(p.data._linked)"
LINK = (
    "(api, links) => { const wanted = links.split(' ').filter(Boolean), changed = []; let count = 0, best, first;"
    " api.forEachNode(node => { const own = (node.data._links ?? '').split(' ');"
    " const at = wanted.findIndex(link => own.includes(link));"
    " if (at >= 0) { count += 1; if (best === undefined || at < best) { best = at; first = node; } }"
    " if ((at >= 0) !== Boolean(node.data._linked)) { node.data._linked = at >= 0; changed.push(node); } });"
    " if (changed.length) api.redrawRows({ rowNodes: changed }); if (first) api.ensureNodeVisible(first, 'middle');"
    " return count; }"
)
"""Marks the rows of a grid that have one of these links, scrolls to one that has the first of them, and returns how
many there are."""
_MARKED = "p => p.data[p.colDef.context.mark] ? 'differs' : ''"
_CODE = "p => p.data[p.colDef.context.mark] ? 'code-cell differs' : 'code-cell'"
_NOT_SEARCHED = "() => ''"


def verdict_marks(words: str) -> str:
    """Return the marks beside a number: `▲ stale` for `FAST, stale`."""
    return " ".join(MARKS.get(word, word) for word in words.split(", "))


def column_options(column: Column, *, narrow: bool = False, wraps: bool = False) -> dict[str, Any]:
    """A column, whose long text has several lines if it `wraps`. On a `narrow` page none is pinned: it would leave no
    room for others."""
    options: dict[str, Any] = {
        "field": column.key,
        "headerName": column.title,
        "width": _width_px(column, narrow=narrow),
        "context": {"mark": column.mark},
    }
    if column.note:
        options["headerTooltip"] = column.note
    if column.pinned and not narrow:
        options["lockPinned"] = True
        options["pinned"] = "left"
    if column.is_number:
        options |= {
            "type": "rightAligned",
            "filter": "agNumberColumnFilter",
            ":getQuickFilterText": _NOT_SEARCHED,
            ":valueFormatter": {"heat": _WITH_VERDICT, "time": _TIME, "rate": _RATE}.get(column.kind, _NUMBER),
        }
    else:
        options["filter"] = "agTextColumnFilter"
        if column.kind == "text" and not column.pinned:  # what is pinned are names
            options[":valueFormatter"] = _PLAIN
        if column.kind == "text":
            options |= {"wrapText": wraps, "autoHeight": wraps, "tooltipField": column.key}
    if column.kind == "heat":
        options[":cellClass"] = _HEAT
    elif column.kind == "share":
        options[":cellClass"] = _SHARE
    elif column.kind == "code":
        options[":cellClass"] = _CODE
    elif column.mark:
        options[":cellClass"] = _MARKED
    return options


def grid_options(table: Table, *, narrow: bool) -> dict[str, Any]:
    """The whole grid, without rows."""
    columns = [column_options(column, narrow=narrow, wraps=_wraps(table)) for column in table.columns]
    linked = {"rowClassRules": {":linked": _LINKED}} if table.beside else {}
    return {
        **linked,
        "columnDefs": columns,
        "rowData": [],
        ":getRowId": _ID,
        "defaultColDef": {"sortable": True, "resizable": True, "suppressHeaderMenuButton": False},
        "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
        "suppressFieldDotNotation": True,
        "ensureDomOrder": True,
        "animateRows": False,
        "cacheQuickFilter": True,
        "rowHeight": ROW_PX,
        "tooltipShowDelay": 300,
        "suppressNoRowsOverlay": True,
    }


def height_px(table: Table, *, narrow: bool = False) -> int:
    """How high the grid is: its rows, about, up to what fits a screen."""
    height, most = HEAD_PX + ROW_PX * max(len(table.rows), 1) + 4, table.height_px or MOST_PX
    if _wraps(table) and height < most:
        fits = [
            (one.key, (_width_px(one, narrow=narrow) - PADDING_PX) // CHARACTER_PX)
            for one in table.columns
            if one.kind == "text"
        ]
        lines = (max((_line_count(str(row.get(key) or ""), fit) for key, fit in fits), default=1) for row in table.rows)
        height += LINE_PX * (sum(lines) - len(table.rows))
    return min(height, most)


def _line_count(text: str, fit: int) -> int:
    """Lines of `fit` characters that a text takes whose words stay whole where they fit."""
    count, used = 1, 0
    for word in text.split():
        if used and used + 1 + len(word) > fit:
            count, used = count + 1, 0
        used += bool(used) + len(word)
        full = (used - 1) // fit
        count, used = count + full, used - full * fit
    return count


def _wraps(table: Table) -> bool:
    return not table.beside and len(table.rows) <= MOST_WRAPPED


def _width_px(column: Column, *, narrow: bool) -> int:
    return min(column.width or 140, NARROW_PX if narrow else sys.maxsize)


def transaction(before: Sequence[Row], after: Sequence[Row]) -> dict[str, list[Any]] | None:
    """Return the changes from some rows to others; None if there are none and the rows are to be set anew: their order
    differs, or most of them do."""
    old = {row[ID]: row for row in before}
    new = {row[ID]: row for row in after}
    kept = [key for key in old if key in new]
    added = [row for key, row in new.items() if key not in old]
    if [key for key in new if key in old] != kept or (added and list(new)[-len(added) :] != [row[ID] for row in added]):
        return None
    removed = [{ID: key} for key in old if key not in new]
    updated = [new[key] for key in kept if new[key] != old[key]]
    if len(added) + len(removed) > max(50, len(new) // 2):
        return None
    return {"add": added, "remove": removed, "update": updated}
