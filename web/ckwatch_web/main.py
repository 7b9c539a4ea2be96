"""`ckwatch web`: the page, until Ctrl-C; or the same views written as files."""

from __future__ import annotations

import argparse
import getpass
import socket
import sys
import webbrowser
from functools import partial

import anyio
from anyio import to_thread

from ckwatch.cli.session import asking


def main(options: argparse.Namespace) -> int:
    """Serve the page, or export it."""
    if options.export is not None:
        from ckwatch_web.export import export

        return anyio.run(export, options)
    return anyio.run(_serve, options)


async def _serve(options: argparse.Namespace) -> int:
    from ckwatch_web.feed import Feed
    from ckwatch_web.server import listen, serve

    async with asking(options) as client:
        listener = listen(options.port)
        port = listener.getsockname()[1]

        def started(address: str) -> None:
            print(address, flush=True)
            if options.share:
                print(_how_to_share(port), file=sys.stderr, flush=True)
            if not options.no_open and not options.share:
                tasks.start_soon(partial(to_thread.run_sync, webbrowser.open, address))

        async with anyio.create_task_group() as tasks:
            await serve(Feed(client), listener, allow_changes=options.allow_changes, started=started)
    return 0


def _how_to_share(port: int) -> str:
    return (
        "On the other machine, with the same port on both sides:\n"
        f"    ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{socket.gethostname()}\n"
        "then open the address above in its browser. It is good once, for ten minutes."
    )
