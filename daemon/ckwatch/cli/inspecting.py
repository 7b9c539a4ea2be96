"""`ckwatch inspect` and `ckwatch rank`: what compiled code objects tell without a GPU."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ckwatch.cli.inspect import Inspected, OnShape, calibrated_lines, calibration_json, inspect_json, inspect_lines
from ckwatch.cli.isa import isa_lines
from ckwatch.cli.output import JSON_SCHEMA, Output
from ckwatch.cli.rank import Ranking, rank_json, rank_lines
from ckwatch.cli.timing_units import asking
from ckwatch.errors import CkwatchError

if TYPE_CHECKING:
    from ckwatch.analysis.report import CodeObjectReport
    from ckwatch.wire.analysis import Analysis, Calibrated, Isa, PredictedRanking


def inspect(options: argparse.Namespace) -> int:
    """Print what a unit's code object tells, its instructions, or how far predictions were off.

    A unit is built if it was not. Raises CkwatchError for options that do not go together.
    """
    if options.calibration:
        if options.unit is not None or options.isa:
            raise CkwatchError("--calibration is of all units", "leave out the unit and --isa")
        return _calibrate(options)
    if options.unit is None:
        raise CkwatchError("which unit?", "`ckwatch inspect UNIT`; --calibration needs none")
    if options.isa or options.kernel is not None or options.whole or options.no_lines:
        return _show(options)
    found = anyio.run(partial(_analysis, options))
    inspected = Inspected(
        unit=found.unit,
        report=found.report,
        artifact_key=found.artifact_key,
        shapes=tuple(
            OnShape(shape=one.shape, prediction=one.prediction, measured_us=one.measured_us, device=one.device)
            for one in found.shapes
        ),
        earlier=_earlier(found),
        lds_limit_bytes=found.lds_limit_bytes,
    )
    output = Output(options)
    if output.json:
        output.line(schema=JSON_SCHEMA, fresh=found.fresh, **inspect_json(inspected))
    else:
        for text, style in inspect_lines(inspected):
            output.text(text, style)
    return 0


def _earlier(found: Analysis) -> tuple[tuple[str, CodeObjectReport], ...]:
    """What the artifact is compared with, by what it is called. The one before comes first: warnings are against it."""
    others = (("previous", found.previous), (f"baseline {found.baseline_name}", found.baseline))
    return tuple((name, report) for name, report in others if report is not None)


def _show(options: argparse.Namespace) -> int:
    found = anyio.run(partial(_isa, options))
    output = Output(options)
    if output.json:
        output.line(schema=JSON_SCHEMA, **found.model_dump(mode="json"))
    else:
        for text, style in isa_lines(found, whole=options.whole):
            output.text(text, style)
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    found = anyio.run(partial(_calibration, options))
    output = Output(options)
    if output.json:
        more = {"timed": found.timed, "notes": list(found.notes)}
        output.line(schema=JSON_SCHEMA, **calibration_json(found.calibration), **more)
    else:
        for text, style in calibrated_lines(found.calibration, found.timed, found.notes):
            output.text(text, style)
    return 0


def rank(options: argparse.Namespace) -> int:
    """Print the compiled instances of a kernel by predicted time."""
    found = anyio.run(partial(_ranking, options))
    ranking = Ranking(
        kernel=found.kernel,
        shape=found.shape,
        arch=found.arch,
        part=found.part,
        cache=found.cache,
        rows=found.rows,
        measured_us=found.measured_us,
    )
    output = Output(options)
    if output.json:
        output.line(schema=JSON_SCHEMA, **rank_json(ranking))
    else:
        for text, style in rank_lines(ranking):
            output.text(text, style)
    return 0


async def _analysis(options: argparse.Namespace) -> Analysis:
    from ckwatch.cli.connecting import one_unit

    async with asking(options) as client:
        unit = await one_unit(client, options.unit)
        await client.build(unit)
        return await client.analysis(unit)


async def _isa(options: argparse.Namespace) -> Isa:
    from ckwatch.cli.connecting import one_unit

    async with asking(options) as client:
        unit = await one_unit(client, options.unit)
        await client.build(unit)
        asked = partial(client.isa, unit, options.kernel, lines=not options.no_lines)
        output = Output(options)
        if output.json or not sys.stdout.isatty():
            return await asked()
        with output.console.status("compiling the device code once more, for its source lines"):
            return await asked()


async def _calibration(options: argparse.Namespace) -> Calibrated:
    async with asking(options) as client:
        return await client.calibration()


async def _ranking(options: argparse.Namespace) -> PredictedRanking:
    async with asking(options) as client:
        return await client.predicted(options.kernel, options.shape, arch=options.of_arch, part=options.part)
