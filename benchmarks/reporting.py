"""The form in which every benchmark reports: rows, and with them when, where and at which commit they were measured.

A program says in `MEASURED_CODE` which paths of the repository it measures. A row whose commit is older than the last
change of these is marked on the page.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import ckwatch
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import ToolchainError

REPOSITORY = Path(__file__).parent.parent
RESULTS = REPOSITORY / "benchmarks/results"

PROVEN = 5
"""Paired runs below which nothing is written to the results."""

EVERYTHING = ("daemon/ckwatch", "lsp/ckwatch_lsp", "templates")
"""Code that a program without `MEASURED_CODE` measures: paths in the repository, as git takes them."""

DAEMON_CODE = tuple(
    f"daemon/ckwatch/{room}"
    for room in ("checks", "client", "core", "engine", "model", "render", "server", "system", "wire", "workspace")
)
"""Code that programs measure which run a daemon with a compiler that takes no time."""

_ORIGIN = ("program", "date", "commit", "dirty", "cpu", "cores", "python", "ckwatch", "hip", "compiler")
MANY = 16
"""Cores from which on rows are kept beside those of a small machine, and shown in a column of their own."""

Verdict = Callable[[float, float], bool]
"""Decides by the median of ours and the ratio whether a goal is reached."""


def _at_most(highest: float) -> tuple[str, Verdict]:
    return f"at most {highest:.2f} ×", lambda _, ratio: ratio <= highest


_EDITED = "one edited instance: edit to artifact"
GOALS_ON_MANY: Mapping[str, tuple[str, Verdict]] = {
    _EDITED: _at_most(0.25),
    f"{_EDITED}, the same tile in another text": _at_most(0.25),
    f"{_EDITED}, from a save 2 s after the last keystroke": _at_most(0.25),
    "8 edited instances: edit to all artifacts": _at_most(0.35),
    "5,000 units built anew, a compiler that takes no time": (
        "at least 1,500 units/s",
        lambda rate, _: rate >= 1500,
    ),
}
"""Goals of the rows, by name, for which `MANY` cores promise more than few do."""

SHORT = 9
"""Characters of a commit that are shown."""

_HEAD = f"""\
# Benchmarks

Written by `python -m benchmarks --page` from `latest.json`. What a program measures: [the list](../README.md).
† marks what is no claim about today's code: the code that the program measures has changed since, or there were fewer
than {PROVEN} runs.
"""


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
    met: Verdict | None = None,
    alike: bool = False,
) -> Row:
    """Medians and their ratio; `met` decides whether the goal is reached. `GOALS_ON_MANY` goes before both.

    The runs are those of whichever was measured less often. `alike`: only the two of one run did the same, so that the
    ratio is the median of the runs' ratios.
    """
    mine, other = statistics.median(ours), statistics.median(reference)
    pairs = list(zip(ours, reference, strict=alike))
    ratio = statistics.median(one / another for one, another in pairs) if alike else mine / other
    runs = len(pairs)
    if len(os.sched_getaffinity(0)) >= MANY:
        goal, met = GOALS_ON_MANY.get(name, (goal, met))
    return Row(name, mine, other, reference_name, unit, ratio, goal, met(mine, ratio) if met else None, runs)


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
    """Facts that a reader needs to judge the figures."""
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
    }


def commit() -> str:
    """The one that is checked out."""
    return _git("rev-parse", "HEAD")


def code_of(program: str) -> tuple[str, ...]:
    """The files and folders that a program measures, and itself. Raises ModuleNotFoundError when there is none."""
    module = importlib.import_module(f"benchmarks.{program}")
    return (*getattr(module, "MEASURED_CODE", EVERYTHING), f"benchmarks/{program}.py")


def write(program: str, rows: list[Row]) -> None:
    """Replace the rows of this program in `latest.json`, of machines with many cores or few, and write the page."""
    path = RESULTS / "latest.json"
    origin = {
        "program": program,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "dirty": bool(_git("status", "--porcelain", "--", *code_of(program))),
        **machine(),
    }
    kept: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for entry in json.loads(path.read_text())["rows"]:
        kept.setdefault((entry["program"], _has_many_cores(entry)), []).append(entry)
    kept[program, _has_many_cores(origin)] = [asdict(entry) | origin for entry in rows]
    path.write_text(json.dumps({"rows": [entry for entries in kept.values() for entry in entries]}, indent=1) + "\n")
    write_page()


def write_page() -> None:
    """Write `latest.md` anew from what was measured, with marks of what is older than the code.

    Rows of programs that there are no more are left out of both files.
    """
    path = RESULTS / "latest.json"
    rows = json.loads(path.read_text())["rows"]
    programs = [name for name in dict.fromkeys(entry["program"] for entry in rows) if find_spec(f"benchmarks.{name}")]
    rows = [entry for entry in rows if entry["program"] in programs]
    path.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    few = {(entry["program"], entry["name"]) for entry in rows if not _has_many_cores(entry)}
    beside = {
        (entry["program"], entry["name"]): entry
        for entry in rows
        if _has_many_cores(entry) and (entry["program"], entry["name"]) in few
    }
    alone = [entry for entry in rows if entry not in beside.values()]
    parts = [_HEAD]
    for origin, entries in groupby(alone, lambda entry: {key: entry.get(key) for key in _ORIGIN}):
        group = list(entries)
        doubt, text = _doubt_and_origin(origin)
        parts.append(f"\n## {origin['program']}\n\n{text}")
        there = [found for entry in group if (found := beside.get((entry["program"], entry["name"])))]
        doubts, texts = zip(*map(_doubt_and_origin, there), strict=True) if there else ((), ())
        parts += [f"\nOn {MANY} cores or more: {told}" for told in dict.fromkeys(texts)]
        parts.append(
            f"\n| what | ckwatch | reference | ratio | {f'{MANY} cores | ' if there else ''}goal | met | runs |\n"
        )
        parts.append("|---" * (8 if there else 7) + "|\n")
        for entry in group:
            found = beside.get((entry["program"], entry["name"]))
            more = "" if found is None else _cell(found, entry, "†" if any(doubts) else "")
            parts.append(_line(entry, "†" if doubt or entry["runs"] < PROVEN else "", f"{more} | " if there else ""))
    (RESULTS / "latest.md").write_text("".join(parts))


def _cell(many: Mapping[str, Any], few: Mapping[str, Any], mark: str) -> str:
    """A cell of the column of many cores: ratio and figure, and verdict and goal where few cores have others."""
    same = many["goal"] == few["goal"]
    verdict = "" if same and many["met"] == few["met"] else ", met" if many["met"] else ", missed"
    verdict += "" if same else f": {many['goal']}"
    return f"{many['ratio']:.3g} ({many['ours']:.4g} {many['unit']}){verdict}{mark}"


def _has_many_cores(entry: Mapping[str, Any]) -> bool:
    return int(entry.get("cores") or 0) >= MANY


def _doubt_and_origin(origin: Mapping[str, Any]) -> tuple[str, str]:
    """The doubt that rows are of today's code, "" if there is none, and the line that says where they are from."""
    doubt = doubt_of(origin["commit"], code_of(origin["program"]), dirty=origin["dirty"])
    made = ", ".join(f"{key} {origin[key]}" for key in _ORIGIN[4:] if origin.get(key) is not None)
    line = f"{origin['date']}, commit {origin['commit'][:SHORT]}; {made}.\n"
    return doubt, line + (f"\n† {doubt}.\n" if doubt else "")


def doubt_of(measured_at: str, code: Sequence[str], *, dirty: bool = False) -> str:
    """Why figures that were measured at this commit are not those of today's code; nothing if they are."""
    try:
        changes = _git("log", "--format=%cs %H", f"{measured_at}..HEAD", "--", *code).splitlines()
    except subprocess.CalledProcessError:
        return "the commit is not in this repository's history"
    if changes:
        date, _, first = changes[-1].partition(" ")
        times = "once" if len(changes) == 1 else f"{len(changes)} times, first"
        return f"older than the code, which has changed since: {times} on {date} in {first[:SHORT]}"
    return "measured with changes that were not committed" if dirty else ""


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.strip()


def _line(entry: dict[str, Any], mark: str, beside: str) -> str:
    met = {True: "yes", False: "no", None: ""}[entry["met"]]
    behind = f"{beside}{entry['goal']} | {met}{mark} | {entry['runs']}"
    return (
        f"| {entry['name']} | {entry['ours']:.4g} {entry['unit']} | {entry['reference']:.4g} {entry['unit']} "
        f"({entry['reference_name']}) | {entry['ratio']:.3g} | {behind} |\n"
    )


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    table = Table("what", "ckwatch", "reference", "ratio", "goal", "met", "runs")
    for entry in rows:
        table.add_row(
            entry.name,
            f"{entry.ours:.4g} {entry.unit}",
            f"{entry.reference:.4g} {entry.unit} ({entry.reference_name})",
            f"{entry.ratio:.3g}",
            entry.goal,
            {True: "yes", False: "no", None: ""}[entry.met],
            str(entry.runs),
        )
    Console().print(table)
