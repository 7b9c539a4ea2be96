"""`ckwatch list`: the units, and what is known of each."""

from __future__ import annotations

import argparse

from ckwatch.cli.mistakes import Mistakes, explained, report_mistakes
from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.model.amounts import count
from ckwatch.wire.figures_text import figures_words, state_of, timing_words, verification_words

HEADING = ("UNIT", "STATE", "TIME", "RESULTS", "CODE OBJECT")
STYLES = {"built": "green", "failed": "red", "faulted": "magenta"}


async def run(options: argparse.Namespace) -> int:
    """Print a line for each unit; nothing is rendered or compiled for it."""
    async with asking(options, options.words) as client:
        await client.sync()
        patterns = await asked_patterns(client, options.words)
        async with explained(client, *patterns):
            units = await client.units(*patterns)
        output = Output(options, client.root)
        mistakes = Mistakes((), 0) if units else await report_mistakes(client, output, patterns)
    status = int(mistakes.are_errors and not units)
    output.answer(units=units)
    if not units:
        why = mistakes.summary or "kernel files are called NAME.kernel.toml and have [[instance]] tables"
        output.text(f"no units: {why}")
        return status
    rows = [
        [unit.id, state_of(unit), timing_words(unit), verification_words(unit), figures_words(unit.figures)]
        for unit in units
    ]
    output.table(rows, heading=HEADING, indent="", styles=[STYLES.get(state_of(unit), "") for unit in units])
    kernels = len({unit.kernel for unit in units})
    output.text(f"{count(len(units), 'unit')} of {count(kernels, 'kernel')}", "dim")
    return 0
