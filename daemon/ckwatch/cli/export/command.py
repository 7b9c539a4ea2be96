"""`ckwatch export`: checks the options, and exports a Python module or timings."""

from __future__ import annotations

import argparse
import sys
from functools import partial

import anyio

from ckwatch.cli.export.timings import asked_timings, timings_csv, timings_json, write_file
from ckwatch.model.errors import CkwatchError


def run(options: argparse.Namespace) -> int:
    """Write timings, or hand over to the export of a module."""
    wrong = _conflict(options)
    if wrong is not None:
        raise CkwatchError(*wrong)
    if options.timings is None:
        from ckwatch.cli.export import python_module

        return python_module.export_module(options)
    found = anyio.run(partial(asked_timings, options))
    text = timings_json(found) if options.timings == "json" else timings_csv([timing for timing, _ in found])
    if options.out is None:
        sys.stdout.write(text)
        return 0
    write_file(options.out, text)
    print(f"wrote {options.out.absolute()}")
    return 0


def _conflict(options: argparse.Namespace) -> tuple[str, str] | None:
    """Options that do not go together, and what to do."""
    if options.timings is None:
        if options.unit is None:
            return "which unit is to be exported?", "name one, or ask for timings by --timings json or --timings csv"
        if options.samples or options.shape is not None:
            return "--samples and --shape are of --timings", "add --timings json"
    else:
        if options.name is not None or options.json:
            return "--name and --json are of the export of a module", "leave out --timings"
        if options.samples and options.timings != "json":
            return "raw samples do not fit into a table", "use --timings json"
    return None
