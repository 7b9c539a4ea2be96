"""`ckwatch baseline set|list|remove`: names for timings that later ones are compared with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.model.amounts import count, timestamp
from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from ckwatch.wire.benchmarks import Baseline

NAME_LENGTH_LIMIT = 120


async def set_(options: argparse.Namespace) -> int:
    """Let NAME mean the latest timings of units."""
    name = _checked(options.name)
    async with asking(options, options.words) as client:
        patterns = await asked_patterns(client, options.words)
        await client.sync()
        units = await client.set_baseline(name, *patterns)
    output = Output(options)
    output.answer(name=name, units=units)
    output.text(f"baseline '{name}' is set to the latest timings of {count(len(units), 'unit')}")
    return 0


async def list_(options: argparse.Namespace) -> int:
    """Print all baselines."""
    async with asking(options) as client:
        output = Output(options)
        baselines: list[Baseline] = await client.baselines()
    output.answer(baselines=baselines)
    if not baselines:
        output.text("no baselines; `ckwatch baseline set NAME` sets one to the latest timings")
    rows = [
        [one.name, timestamp(one.set_at), count(one.units, "unit"), count(one.timings, "timing")] for one in baselines
    ]
    output.table(rows, heading=("NAME", "SET", "UNITS", "TIMINGS"), indent="")
    return 0


async def remove(options: argparse.Namespace) -> int:
    """Let NAME mean nothing any more."""
    async with asking(options) as client:
        units = await client.remove_baseline(options.name)
    output = Output(options)
    output.answer(name=options.name, units=units)
    output.text(f"baseline '{options.name}' is removed; it had timings of {count(units, 'unit')}")
    return 0


def _checked(name: str) -> str:
    """The name, if it cannot be mistaken for something else. Raises CkwatchError."""
    if not name or name != name.strip() or {*":/"} & {*name} or not name.isprintable() or len(name) > NAME_LENGTH_LIMIT:
        raise CkwatchError(
            f"'{name.encode('utf-8', 'replace').decode()}' is not a valid baseline name",
            f"use 1 to {NAME_LENGTH_LIMIT} printable characters, no colon or slash, and no blanks at the ends",
        )
    return name
