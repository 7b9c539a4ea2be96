"""`ckwatch web`: the page of the workspace, until Ctrl-C; or the same views written as files."""

from __future__ import annotations

import argparse
import getpass
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from ckwatch.cli.command_words import dependency
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.system.garbage_collection import collect_when_idle, young_only
from ckwatch.system.installation import command_for_extra
from ckwatch.wire.endpoint import endpoint_of, prepare_folder

if TYPE_CHECKING:
    from ckwatch.client import Client


SNAPS = Path("/var/lib/snapd")
"""Is there where browsers may be snaps."""

SWITCH_S = 0.0005
"""How long one thread may keep the others of this process waiting: files are read in threads while events are."""


async def run(options: argparse.Namespace) -> int:
    """Serve the page, or export it: 1 when a view could not be exported. Raises CkwatchError without NiceGUI."""
    require_nicegui(options)
    if options.words and options.export is None:
        raise CkwatchError("patterns choose what --export writes", "the page shows all units, and can filter them")
    if options.traces and options.export is None:
        raise CkwatchError("--traces goes with --export", "on the page, “Trace the compile” does the same for one unit")
    serving = [name for name in ("share", "port", "allow_changes", "no_open") if getattr(options, name)]
    if serving and options.export is not None:
        raise CkwatchError(
            f"--{serving[0].replace('_', '-')} is for the page, and --export serves none", "leave one out"
        )
    async with asking(options, options.words) as client:
        return await (_serve(client, options) if options.export is None else _export(client, options))


def require_nicegui(options: argparse.Namespace) -> None:
    """Raises CkwatchError where NiceGUI is not installed."""
    if dependency(options, "find_spec", find_spec)("nicegui") is None:
        raise CkwatchError("the page needs NiceGUI, which is not installed", command_for_extra("web"))


async def export_all(options: argparse.Namespace, folder: Path) -> int:
    """Write the views of all units into `folder`: 1 when one could not be. Raises CkwatchError."""
    own = argparse.Namespace(**vars(options) | {"words": (), "export": folder, "traces": False})
    async with asking(own) as client:
        return await _export(client, own)


async def _serve(client: Client, options: argparse.Namespace) -> int:
    access, feed = import_module("ckwatch_web.access"), import_module("ckwatch_web.feed").Feed(client)
    listener: socket.socket = access.listen(options.port)
    keys, port = access.Keys(), listener.getsockname()[1]
    print(access.address_of(port, keys), flush=True)
    if options.share:
        print(_how_to_share(port), file=sys.stderr, flush=True)
    sys.setswitchinterval(SWITCH_S)
    with young_only():
        async with anyio.create_task_group() as tasks:
            if not (options.no_open or options.share):
                tasks.start_soon(_open_browser, client.root, partial(access.entrance, port=port, keys=keys))
            tasks.start_soon(feed.run)
            server = import_module("ckwatch_web.server")
            tasks.start_soon(collect_when_idle, lambda: False)
            await server.serve(feed, listener, keys, allow_changes=options.allow_changes)
            tasks.cancel_scope.cancel()
    return 0


async def _open_browser(root: Path, entrance: Callable[[Path], AbstractContextManager[Path]]) -> None:
    """Start a browser with a file that leads to the page, and keep the file until it is used."""
    why = "no browser was opened"
    try:
        with entrance(_folder_for_browsers(root)) as file:
            opened = await to_thread.run_sync(webbrowser.open, file.as_uri(), abandon_on_cancel=True)
            if opened or not file.exists():
                await anyio.sleep_forever()
    except OSError as error:
        why = f"{error.filename} cannot be written: {error.strerror}"
    except CkwatchError as error:
        why = error.message
    print(f"ckwatch: {why}: open the address above", file=sys.stderr, flush=True)


def _folder_for_browsers(root: Path) -> Path:
    """Return a folder that only the user can read, and a browser can. Raises CkwatchError.

    A browser that is a snap reads neither the runtime folder nor hidden ones.
    """
    if SNAPS.is_dir():
        return Path.home()
    folder = endpoint_of(root).socket.parent
    prepare_folder(folder)
    return folder


async def _export(client: Client, options: argparse.Namespace) -> int:
    export: Any = await to_thread.run_sync(import_module, "ckwatch_web.export")
    patterns = await asked_patterns(client, options.words)
    await client.sync()
    units = [unit.id for unit in await client.units(*patterns)]
    written, failed = await export.export(
        client, options.export, units, chosen=bool(options.words), traces=options.traces
    )
    print(
        f"wrote {count(written, 'page')}, which {options.export / 'index.html'} leads to",
        file=sys.stdout if options.command == "web" else sys.stderr,
    )
    for text in failed:
        print(f"ckwatch: {text}", file=sys.stderr)
    return int(bool(failed))


def _how_to_share(port: int) -> str:
    return (
        "On the other machine, with the same port on both sides:\n"
        f"    ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{socket.gethostname()}\n"
        "then open the address above in its browser. It is good once, for ten minutes."
    )
