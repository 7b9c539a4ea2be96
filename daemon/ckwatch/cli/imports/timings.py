"""`ckwatch import timings FILE…`: keeps what others measured, apart from what was measured here."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ckwatch.cli.command_words import is_private
from ckwatch.cli.output import Output
from ckwatch.cli.session import asking
from ckwatch.model.amounts import count, timestamp
from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from ckwatch.bench.imports.records import ImportedTimingsFile
    from ckwatch.client import Client
    from ckwatch.wire.imported_timings import TimingsImport

SHOWN = 10
"""Rows that were left out, of each file."""


async def run(options: argparse.Namespace) -> int:
    """Import files, or list or drop what was imported."""
    given = [name for name in ("format", "source", "kernel", "device") if getattr(options, name) is not None]
    if given and (options.list or options.remove):
        raise CkwatchError(f"--{given[0]} says how to read a file, and none is read")
    if options.list and options.files:
        raise CkwatchError("--list takes no files")
    if not options.list and not options.files:
        raise CkwatchError("name a file", "as aiter/configs/a8w8_tuned_gemm.csv of AITER; --list lists what there is")
    if is_private(options):
        raise CkwatchError("without the daemon nothing is kept", "leave out --no-daemon; the history is the daemon's")
    files = [os.path.abspath(file) for file in options.files]  # noqa: ASYNC240, PTH100  # no disk is read
    async with asking(options) as client:
        await client.sync()
        if options.list:
            _print_list(Output(options), await client.imported_files())
        elif options.remove:
            await _remove(options, client, files)
        else:
            await _import(options, client, files)
    return 0


async def _import(options: argparse.Namespace, client: Client, files: Sequence[str]) -> None:
    output = Output(options)
    reports: list[TimingsImport] = []
    for file in files:
        given = (options.format, options.source, options.kernel, options.device)
        reports.append(await client.import_timings(file, *given))
        _print_report(output, reports[-1])
    output.answer(imported=reports)


def _print_report(output: Output, report: TimingsImport) -> None:
    file = report.file
    devices = ", ".join(f"{number:,} on {device or 'an unknown device'}" for device, number in file.devices.items())
    output.text(f"{file.path}: {count(file.timings, 'timing')} of {file.source}, {devices}")
    for kernel, found in report.matches.items():
        output.text(f"  {kernel}: {found.timings:,} on its shapes, {found.instances:,} of them with its instances")
    if not report.matches:
        output.text("  no kernel here has this operation on such sizes; they are kept", "yellow")
    for how, number in report.failed.items():
        output.text(f"  {count(number, 'configuration')} failed there: {how}", "dim")
    for row in report.unused[:SHOWN]:
        output.text(f"  left out: {file.path}:{row.line}: {row.why}", "yellow")
    if report.unused_count > SHOWN:
        output.text(f"  and {report.unused_count - SHOWN:,} more", "yellow")


def _print_list(output: Output, files: Sequence[ImportedTimingsFile]) -> None:
    output.answer(files=files)
    if not files:
        output.text("no timings were imported; `ckwatch import timings FILE` imports some")
    rows = [
        [one.source, ", ".join(filter(None, one.devices)), f"{one.timings:,}", timestamp(one.imported_at), one.path]
        for one in files
    ]
    output.table(rows, frozenset({2}), ("SOURCE", "DEVICES", "TIMINGS", "IMPORTED", "FILE"), indent="")


async def _remove(options: argparse.Namespace, client: Client, files: Sequence[str]) -> None:
    output = Output(options)
    for file in files:
        await client.remove_imported(file)
        output.text(f"what was imported from {file} is dropped")
    output.answer(removed=files)
