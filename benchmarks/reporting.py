"""The form in which every benchmark reports, and the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

import ckwatch
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import ToolchainError

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One claim. `ours` and `reference` are medians in `unit`; `goal` says what was promised, as text.

    `met` is None where the goal is only reported.
    """

    name: str
    ours: float
    reference: float
    reference_name: str
    unit: str
    ratio: float
    goal: str
    met: bool | None
    runs: int


def row(
    name: str,
    ours: list[float],
    reference: list[float],
    *,
    reference_name: str,
    unit: str,
    goal: str,
    met: Callable[[float, float], bool] | None = None,
) -> Row:
    """Medians and their ratio; `met(ours, ratio)` decides whether the goal is reached."""
    mine, other = statistics.median(ours), statistics.median(reference)
    ratio = mine / other
    return Row(name, mine, other, reference_name, unit, ratio, goal, met(mine, ratio) if met else None, len(ours))


def paired(
    ours: Callable[[], object],
    reference: Callable[[], object],
    runs: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[float], list[float]]:
    """Time two functions `runs` times each, alternating which comes first; milliseconds of `clock`."""
    mine: list[float] = []
    others: list[float] = []
    for number in range(runs):
        order = [(ours, mine), (reference, others)]
        for function, times in order if number % 2 == 0 else reversed(order):
            start = clock()
            function()
            times.append((clock() - start) * 1e3)
    return mine, others


def machine() -> dict[str, str | int]:
    """What a reader needs to judge the figures."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    compiler = {}
    with suppress(ToolchainError):
        toolchain = discover()
        compiler = {"hip": toolchain.hip_version, "compiler": toolchain.clang_version}
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "ckwatch": ckwatch.__version__,
        **compiler,
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(rows: list[Row]) -> None:
    """Print the table and write `latest.json` and `latest.md`, replacing rows of the same name."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "latest.json"
    kept: dict[str, dict[str, object]] = {}
    if path.exists():
        kept = {entry["name"]: entry for entry in json.loads(path.read_text())["rows"]}
    kept.update({entry.name: asdict(entry) for entry in rows})
    path.write_text(json.dumps({"machine": machine(), "rows": list(kept.values())}, indent=1) + "\n")
    header = "| what | ckwatch | reference | ratio | goal | met | runs |\n|---|---|---|---|---|---|---|\n"
    lines = [
        f"| {entry['name']} | {entry['ours']:.4g} {entry['unit']} | {entry['reference']:.4g} {entry['unit']} "
        f"({entry['reference_name']}) | {entry['ratio']:.3g} | {entry['goal']} | "
        f"{ {True: 'yes', False: 'no', None: ''}[entry['met']] } | {entry['runs']} |\n"  # type: ignore[index]
        for entry in kept.values()
    ]
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    (RESULTS / "latest.md").write_text(f"# Benchmarks\n\nLast run: {about}.\n\n{header}{''.join(lines)}")
    show(rows)


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    table = Table("what", "ckwatch", "reference", "ratio", "goal", "met")
    for entry in rows:
        table.add_row(
            entry.name,
            f"{entry.ours:.4g} {entry.unit}",
            f"{entry.reference:.4g} {entry.unit} ({entry.reference_name})",
            f"{entry.ratio:.3g}",
            entry.goal,
            {True: "yes", False: "no", None: ""}[entry.met],
        )
    Console().print(table)
