"""`ckwatch init`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from pathlib import Path

from ckwatch.cli.output import Output
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.problems import did_you_mean
from ckwatch.workspace.starters import Starter, copy_starter, examples, instructions_for_agents, starters


def run(options: argparse.Namespace) -> int:
    """Write a workspace and say what to do with it, or list what it can begin with."""
    output = Output(options)
    if options.list:
        _list(output, starters(), "--{}")
        output.text("")
        _list(output, examples(), "--from {}")
        return 0
    if options.workspace is not None and options.folder is not None:
        raise CkwatchError("DIR and -C both say where to write the workspace", "give one of them")
    if options.agents:
        for path in copy_starter(instructions_for_agents(), options.workspace or options.folder or Path()):
            output.text(f"wrote {path}")
        output.text("next: let your assistant start `ckwatch mcp`; docs/agents.md says how")
        return 0
    starter = _chosen(options.starter, options.example)
    for path in copy_starter(starter, options.workspace or options.folder or Path()):
        output.text(f"wrote {path}")
    there = f"`cd {shlex.quote(str(options.folder))}`; " if options.folder not in (None, Path()) else ""
    output.text(f"next: {there}`ckwatch check` finds mistakes in milliseconds, `ckwatch watch` compiles what changes,")
    output.text("`ckwatch verify` executes kernels without a GPU and compares their results")
    return 0


def _list(output: Output, found: Iterable[Starter], option: str) -> None:
    for one in found:
        output.text(f"{option.format(one.name.replace('_', '-')):32}{one.about}")


def _chosen(starter: str | None, example: str | None) -> Starter:
    if example is None:
        return next(one for one in starters() if starter in (None, one.name))
    known = {one.name: one for one in examples()}
    wanted = example.replace("-", "_")
    if wanted not in known:
        message = f"no example is called `{example}`; {did_you_mean(wanted, known)}".rstrip("; ")
        raise CkwatchError(message, "`ckwatch init --list` shows all of them")
    return known[wanted]
