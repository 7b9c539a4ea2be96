"""`ckwatch export`: a unit as a Python module, or timings as JSON or CSV for other programs."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from ckwatch.cli.command_words import dependency
from ckwatch.cli.output import SCHEMA, Output, fields_of, to_plain, write_file
from ckwatch.cli.session import asked_patterns, asking, unit_of
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError, UnknownUnitError

if TYPE_CHECKING:
    from ckwatch.model.timings import Timing
    from ckwatch.wire.benchmarks import TimingDetail

LIMIT = 10_000
"""Timings of one unit, the last ones; the history keeps fewer."""

TABLES = ("sizes", "runtime", "parameters")
"""Fields of a timing that are columns of their own, `sizes.M`."""

OMITTED = ("comparisons",)
"""Of a table: it says what was so when it was taken; `compare` says what is."""


Found = Sequence[tuple["Timing", "TimingDetail | None"]]


async def run(options: argparse.Namespace) -> int:
    """Write timings, or hand over to the export of a module."""
    wrong = _conflict(options)
    if wrong is not None:
        raise CkwatchError(*wrong)
    if options.timings is None:
        from ckwatch.cli.export.autotune import export_kernel
        from ckwatch.cli.export.python_module import export_module
        from ckwatch.exported.module_text import checked_name

        if options.name is not None:
            checked_name(options.name)
        async with asking(options) as client:
            export = export_kernel if options.autotune else dependency(options, "export_module", export_module)
            return await export(options, client, Output(options, client.root))
    found = await asked_timings(options)
    text = timings_json(found) if options.timings == "json" else timings_csv([timing for timing, _ in found])
    if options.out is None:
        sys.stdout.write(text)
        return 0
    write_file(options.out, text.encode(errors="replace"), folders=False)
    print(f"wrote {options.out.absolute()}")
    return 0


def _conflict(options: argparse.Namespace) -> tuple[str, str] | None:
    """Options that do not go together, and what to do."""
    if options.timings is None:
        if options.unit is None:
            return "no unit is given", "name a unit, or add --timings json or --timings csv"
        if options.samples:
            return "--samples needs --timings", "add --timings json"
        if (options.shape or options.device is not None) and not options.autotune:
            return (
                "--shape and --device are for choosing among instances",
                "add --autotune (or --timings)",
            )
    else:
        if options.name is not None or options.json:
            return "--name and --json cannot be used with --timings", "leave out --timings"
        if options.autotune or options.device is not None:
            return "--autotune and --device cannot be used with --timings", "leave out --timings"
        if options.samples and options.timings != "json":
            return "--samples cannot be written as CSV", "use --timings json"
    return None


async def asked_timings(options: argparse.Namespace) -> Found:
    """Timings by unit, oldest first, with their samples where these are asked for."""
    async with asking(options) as client:
        found: list[tuple[Timing, TimingDetail | None]] = []
        for unit in await _units(client, options.unit):
            asked = [await client.timings(unit, shape=shape, limit=LIMIT) for shape in options.shape or (None,)]
            timings = sorted((timing for found_on in asked for timing in found_on), key=_order)
            if not options.samples:
                found += [(timing, None) for timing in timings]
                continue
            details: dict[tuple[int, str], TimingDetail] = {}
            for number in dict.fromkeys(timing.id for timing in timings):
                details |= {(number, one.timing.cache): one for one in await client.timing(number)}
            found += [(timing, details.get((timing.id, timing.cache))) for timing in timings]
        return found


def _order(timing: Timing) -> tuple[int, str]:
    return timing.id, timing.cache


async def _units(client: Client, word: str | None) -> list[str]:
    """The units that a word means; without one all that there are."""
    patterns = await asked_patterns(client, () if word is None else (word,))
    await client.sync()
    try:
        return [unit.id for unit in await client.units(*patterns)]
    except UnknownUnitError:
        if word is None:
            return []
        return [await unit_of(client, word)]


def timings_json(found: Found) -> str:
    """One object, as `TimingExport` describes it."""
    rows = [
        fields_of(timing) | {name: value for name, value in fields_of(detail or {}).items() if name != "timing"}
        for timing, detail in found
    ]
    content = {"schema": SCHEMA, "timings": rows}
    return json.dumps(content, ensure_ascii=False, indent=1, default=to_plain) + "\n"


def timings_csv(timings: Sequence[Timing]) -> str:
    """A line for each timing. Columns for all sizes, runtime arguments and parameters that any of them has."""
    rows = [_flat(timing) for timing in timings]
    columns = _columns(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(timing: Timing) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in asdict(timing).items():
        if name in OMITTED:
            continue
        if name in TABLES:
            row |= {f"{name}.{key}": _cell(one) for key, one in value.items()}
        else:
            row[name] = _cell(value)
    return row


def _cell(value: Any) -> Any:
    """A value as it stands in a cell. A table of a spreadsheet takes what begins so for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return " ".join(str(one) for one in value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _columns(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Plain fields first, then those of `TABLES`, each in the order of their first appearance."""
    from ckwatch.model.timings import Timing

    every = dict.fromkeys(name for row in rows for name in row)
    plain = [one.name for one in fields(Timing) if one.name not in (*TABLES, *OMITTED)]
    return [*plain, *(name for table in TABLES for name in every if name.startswith(f"{table}."))]
