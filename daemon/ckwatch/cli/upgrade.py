"""`ckwatch upgrade --to TOOLCHAIN`: what another toolchain or Composable Kernel would change."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.cli.change_report import markdown_report, print_changes
from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.model.toolchain_names import is_toolchain_name, toolchain_parts

if TYPE_CHECKING:  # the wire types load pydantic
    from collections.abc import AsyncIterator

    from ckwatch.wire.unit_changes import UnitChange, UpgradeLine

WARM = "What was built and verified is in the store: after the upgrade it is found there."
TITLE = "What this upgrade would change"


async def run(options: argparse.Namespace) -> int:
    """Compare units: 1 if one of them certainly gets worse, 2 if one cannot be compared here."""
    to = _absolute(options.to)
    async with asking(options, options.words) as client:
        patterns = await asked_patterns(client, options.words)
        output = Output(options, client.root)
        comparing = client.upgrading(*patterns, to=to, verify=not options.no_verify)
        async with explained(client, *patterns), comparing as lines:
            before, after, found = await _followed(lines, output)
        names = [unit.id for unit in await client.units(*patterns)]
    from ckwatch.wire.unit_changes import change_summary

    changes = [found[name] for name in names if name in found]
    summary = change_summary(changes)
    faulted = any("faulted" in (one.before.outcome, one.after.outcome) for one in changes)
    status = 1 if summary.is_certainly_worse else 2 if faulted else 0
    output.event("summary", summary, exit_status=status)
    if output.json:
        return status
    if options.markdown:
        facts = [f"from {before}", f"to {after}"]
        output.text(markdown_report(TITLE, facts, changes, summary, root=str(client.root)).rstrip("\n"))
    else:
        output.text(f"from {before}")
        output.text(f"to   {after}")
        print_changes(output, changes, summary)
        if changes:
            output.text(WARM)
    return status


def _absolute(text: str) -> str:
    """The name of a toolchain whose folders do not depend on where the command runs."""
    parts = toolchain_parts(text)
    return "+".join(one if is_toolchain_name(one) else str(Path(one).expanduser().absolute()) for one in parts)


async def _followed(lines: AsyncIterator[UpgradeLine], output: Output) -> tuple[str, str, dict[str, UnitChange]]:
    """The names of both toolchains, and the change of each unit, which JSON has as soon as it is known."""
    before = after = ""
    total = 0
    found: dict[str, UnitChange] = {}
    with output.working("building") as show:
        async for line in lines:
            if line.event == "start":
                before, after, total = line.before, line.after, line.units
                output.answer(event="start", units=total, before=before, after=after)
            elif line.event == "stage":
                show(f"{len(found)} of {total}  {line.unit}  {line.text}")
                output.event("stage", unit=line.unit, text=line.text)
            elif line.change is not None:
                found[line.change.unit] = line.change
                output.event("unit", line.change)
    return before, after, found
