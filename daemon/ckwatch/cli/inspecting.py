"""`ckwatch inspect` and `ckwatch rank`: what compiled code objects tell without a GPU."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ckwatch.cli.inspect import Inspected, OnShape, inspect_json, inspect_lines
from ckwatch.cli.output import JSON_SCHEMA, Output
from ckwatch.cli.rank import Ranking, rank_json, rank_lines
from ckwatch.cli.timing_units import asking

if TYPE_CHECKING:
    from ckwatch.wire.analysis import Analysis, PredictedRanking


def inspect(options: argparse.Namespace) -> int:
    """Print resources, occupancy, main loop and predictions of a unit, which is built if it was not."""
    found = anyio.run(partial(_analysis, options))
    inspected = Inspected(
        unit=found.unit,
        report=found.report,
        artifact_key=found.artifact_key,
        shapes=tuple(
            OnShape(shape=one.shape, prediction=one.prediction, measured_us=one.measured_us, device=one.device)
            for one in found.shapes
        ),
        earlier=(("previous", found.previous),) if found.previous is not None else (),
        lds_limit_bytes=found.lds_limit_bytes,
    )
    output = Output(options)
    if output.json:
        output.line(schema=JSON_SCHEMA, fresh=found.fresh, **inspect_json(inspected))
    else:
        for text, style in inspect_lines(inspected):
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


async def _ranking(options: argparse.Namespace) -> PredictedRanking:
    async with asking(options) as client:
        return await client.predicted(options.kernel, options.shape, arch=options.of_arch, part=options.part)
