"""A command's session: its client, the workspace it is about, and the units that its words name."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from anyio import to_thread

from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.client import Client, connect
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.targets import ARCHS, NATIVE, unknown_arch
from ckwatch.workspace.discovery import find_workspace, working_folder

NO_DAEMON_VARIABLE = "CKWATCH_NO_DAEMON"
"""When set to anything but nothing, every command does its own work, as with `--no-daemon`."""


def is_private(options: argparse.Namespace) -> bool:
    """Whether the command does without the workspace's daemon."""
    return bool(options.no_daemon or os.environ.get(NO_DAEMON_VARIABLE))


@asynccontextmanager
async def connected(options: argparse.Namespace, start: Path) -> AsyncIterator[Client]:
    """The client for the workspace that `start` lies in, seeing it as `--arch` and its kin ask.

    Raises CkwatchError without a workspace, UntrustedError for one that the user does not trust.
    """
    root = await to_thread.run_sync(find_workspace, start)
    await to_thread.run_sync(lambda: require_trust(root, given=options.trust))
    archs = await to_thread.run_sync(known_archs, options.arch)
    rules = not getattr(options, "no_rules", False)
    header_warnings = True if getattr(options, "header_warnings", False) else None
    async with connect(root, client_name=options.command, private=is_private(options)) as client:
        if archs or not rules or header_warnings is not None:
            await client.view(archs=archs, rules=rules, header_warnings=header_warnings)
        yield client


def known_archs(archs: Sequence[str]) -> tuple[str, ...]:
    """`--arch`; the daemon resolves `native`. Raises CkwatchError for an arch that is not known or not there."""
    for arch in archs:
        why = unknown_arch(arch)
        if why is not None:
            raise CkwatchError(why[0], f"known archs: {', '.join(ARCHS)}, native")
    if NATIVE not in archs:
        return tuple(archs)
    from ckwatch.compile.toolchain.devices import amd_devices, nvidia_devices

    if not any(device.arch for device in (*amd_devices(), *nvidia_devices(os.environ))):
        raise CkwatchError("`native` needs a GPU in this machine, and there is none", "name an arch, such as gfx942")
    return tuple(archs)


def patterns_of(words: Sequence[str], here: Path, root: Path) -> tuple[Path | None, tuple[str, ...]]:
    """The first folder or file among `words`, and what the daemon is asked for; nothing means everything.

    A word that is a folder or a kernel file is passed on as its path, as the daemon names it.
    """
    first: Path | None = None
    patterns: list[str] = []
    for word in words:
        path = path_of(word, here)
        if path is None:
            patterns.append(word)
            continue
        first = first or path
        real_root = root.resolve()
        if path == real_root:
            return first, ()
        patterns.append(str(root / path.relative_to(real_root)) if path.is_relative_to(real_root) else str(path))
    return first, tuple(patterns)


def path_of(word: str, here: Path) -> Path | None:
    """The folder or kernel file that a word of the command line is; None for a pattern."""
    path = (here / word).resolve()
    try:
        is_file = path.is_dir() or (path.name.endswith(".kernel.toml") and path.exists())
    except OSError:  # a name that no file can have
        return None
    return path if is_file else None


def start_of(options: argparse.Namespace, words: Sequence[str]) -> Path:
    """Where to look for the workspace: `-C`, the first path among `words`, the working directory."""
    here = working_folder()
    if options.workspace is not None:
        return Path(options.workspace)
    return next((path for word in words if (path := path_of(word, here)) is not None), here)


async def one_unit(client: Client, word: str) -> str:
    """The id of the one unit that `word` means. Raises CkwatchError when there are several or none."""
    await client.sync()
    units = await client.units(word)
    if len(units) > 1:
        shown = ", ".join(unit.id for unit in units[:5]) + (", …" if len(units) > 5 else "")
        raise CkwatchError(f"'{word}' matches {len(units)} units", f"name one of them: {shown}")
    return units[0].id


@asynccontextmanager
async def asking(options: argparse.Namespace, words: Sequence[str] = ()) -> AsyncIterator[Client]:
    """The client of a command whose workspace is that of `-C`, of the first path among `words`, or here."""
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, words)
        async with connected(options, start) as client:
            yield client


async def unit_of(client: Client, word: str) -> str:
    """The id of the unit that `word` means; one that is there no more is meant by its whole id, if it has timings.

    Raises as `one_unit`.
    """
    try:
        return await one_unit(client, word)
    except UnknownUnitError as error:
        if "/" in word and "@" in word:
            with suppress(UnknownUnitError):
                if await client.timings(word, limit=1):
                    return word
        raise error from None
