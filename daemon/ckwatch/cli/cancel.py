"""`ckwatch cancel`: ends what the daemon is at work on."""

from __future__ import annotations

import argparse
from contextlib import suppress

from anyio import to_thread

from ckwatch.cli.command_words import start_of
from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns
from ckwatch.cli.signals import stoppable
from ckwatch.client import DaemonGoneError, connect
from ckwatch.model.amounts import count
from ckwatch.wire.endpoint import endpoint_of, owner
from ckwatch.workspace.discovery import find_workspace


async def run(options: argparse.Namespace) -> int:
    """Cancel what the daemon compiles and times, and what waits for it."""
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, options.words)
        root = await to_thread.run_sync(find_workspace, start)
        output = Output(options, root)
        cancelled: list[str] | None = None
        if await to_thread.run_sync(owner, endpoint_of(root)) is not None:
            with suppress(DaemonGoneError):
                async with connect(root, start=False, client_name="cancel") as client:
                    cancelled = await client.cancel(*await asked_patterns(client, options.words))
    output.answer(running=cancelled is not None, cancelled=cancelled or ())
    for unit in cancelled or ():
        output.text(f"cancelled  {unit}")
    if cancelled:
        output.text(f"{count(len(cancelled), 'unit')} cancelled; an edit or `ckwatch build` starts again")
    else:
        output.text("the daemon is not running" if cancelled is None else "nothing to cancel")
    return 0
