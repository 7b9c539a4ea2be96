"""`ckwatch mcp`: serve the workspace on standard input and output until the assistant leaves."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec

from anyio import to_thread

from ckwatch.cli.command_words import dependency
from ckwatch.cli.session import asking
from ckwatch.model.errors import CkwatchError
from ckwatch.system.installation import command_for_extra


async def run(options: argparse.Namespace) -> int:
    """Serve until standard input ends. Raises CkwatchError without the SDK of the protocol."""
    if dependency(options, "find_spec", find_spec)("mcp") is None:
        raise CkwatchError("assistants need the package mcp, which is not installed", command_for_extra("mcp"))
    async with asking(options) as client:
        budget = import_module("ckwatch.cli.mcp.budget").SessionBudget(
            options.compiles, options.verifications, options.time
        )
        server = await to_thread.run_sync(import_module, "ckwatch.cli.mcp.server")
        await server.serve(client, budget, allow_changes=options.allow_changes)
    return 0
