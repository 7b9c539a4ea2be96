"""`ckwatch rank KERNEL --shape S`: its compiled instances by predicted time, for those without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ckwatch.analysis.prediction import LEFT_OUT
from ckwatch.analysis.rank import Placed
from ckwatch.cli.columns import aligned
from ckwatch.cli.inspect import INDENT, Line, prediction_json
from ckwatch.cli.timing_words import time_of

_RIGHT = frozenset({0, 2, 3, 4, 5})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The instances of `kernel` on `shape`, compiled for `arch`; `measured_us` by instance, where there is a timing."""

    kernel: str
    shape: str
    arch: str
    part: str
    cache: str
    rows: tuple[Placed, ...]
    measured_us: dict[str, float]


def rank_lines(found: Ranking) -> list[Line]:
    """The ranking for a terminal: that it is a prediction stands above it, what it leaves out below."""
    title = (
        f"{found.kernel}, {found.shape}, {found.arch}: predicted for {found.part}, {found.cache} cache, not measured"
    )
    lines: list[Line] = [(title, "bold")]
    placed = [row for row in found.rows if row.place is not None]
    rest = [row for row in found.rows if row.place is None]
    if not found.rows:
        return [*lines, (f"{INDENT}there is no instance of it", "")]
    heads = ["", "instance", "predicted", "×", "TFLOP/s", "at best", "limited by"]
    if found.measured_us:
        heads.append("measured")
    if placed:
        head, *texts = aligned([heads, *(_cells(row, found) for row in placed)], _RIGHT)
        lines.append((INDENT + head, "dim"))
        for row, text in zip(placed, texts, strict=True):
            lines.append((INDENT + text, "bold green" if row.place == 1 else ""))
            if row.because:
                lines.append((f"{3 * INDENT}{row.because}", "dim"))
    if rest:
        lines.append((f"{INDENT}no prediction:", ""))
        lines += [(2 * INDENT + text, "dim") for text in aligned([_bound_cells(row) for row in rest])]
    return [*lines, (f"{INDENT}left out: {'; '.join(LEFT_OUT)}", "dim")]


def rank_json(found: Ranking) -> dict[str, Any]:
    """The same as values for JSON."""
    return {
        "kernel": found.kernel,
        "shape": found.shape,
        "arch": found.arch,
        "part": found.part,
        "cache": found.cache,
        "predicted": True,
        "ranked": [_row_json(row, found) for row in found.rows],
        "left_out": list(LEFT_OUT),
    }


def _row_json(row: Placed, found: Ranking) -> dict[str, Any]:
    return {
        "instance": row.name,
        "place": row.place,
        "ratio": row.ratio,
        "because": row.because,
        "prediction": prediction_json(row.prediction),
        "measured_us": found.measured_us.get(row.name),
    }


def _cells(row: Placed, found: Ranking) -> Sequence[str]:
    prediction, measured = row.prediction, found.measured_us.get(row.name)
    return [
        f"{row.place}",
        row.name,
        "" if prediction.time_us is None else time_of(prediction.time_us),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if prediction.tflops is None else f"{prediction.tflops:.4g}",
        "" if prediction.bound_us is None else time_of(prediction.bound_us),
        prediction.limited_by or "",
        "" if measured is None else time_of(measured),
    ]


def _bound_cells(row: Placed) -> list[str]:
    bound_us = row.prediction.bound_us
    return [row.name, "" if bound_us is None else f"at best {time_of(bound_us)}", row.because]
