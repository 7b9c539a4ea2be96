"""A command's session: its client, the workspace it is about, and the units that its words name."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.cli.command_words import TEMPLATE_END, dependency, is_private, patterns_of, start_of
from ckwatch.cli.mistakes import explained
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.client import Client, connect
from ckwatch.client.launch import find_daemon
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError, DiagnosedError, UnknownUnitError
from ckwatch.model.targets import ARCHS, NATIVE, unknown_arch
from ckwatch.wire.endpoint import endpoint_of, holder
from ckwatch.workspace.discovery import find_workspace, working_folder

ASKED_S = 2.0
"""How long an interrupted command waits for the daemon to say what it goes on with."""


@asynccontextmanager
async def connected(options: argparse.Namespace, start: Path) -> AsyncIterator[Client]:
    """The client for the workspace that `start` lies in, seeing it as `--arch` and its kin ask. Raises CkwatchError
    without a workspace, UntrustedError for one that the user does not trust."""
    root = await to_thread.run_sync(find_workspace, start)
    private = is_private(options)
    served = not private and await find_daemon(root) is not None
    await to_thread.run_sync(lambda: require_trust(root, options, served=served))
    archs = await to_thread.run_sync(known_archs, getattr(options, "arch", ()))
    rules = not getattr(options, "no_rules", False)
    header_warnings = True if getattr(options, "header_warnings", False) else None
    async with (
        what_goes_on(root, private=private, unbuilt=unbuilt_of(options)),
        connect(root, client_name=options.command, private=private) as client,
    ):
        if archs or not rules or header_warnings is not None:
            await client.view(archs=archs, rules=rules, header_warnings=header_warnings)
        yield client


def unbuilt_of(options: argparse.Namespace) -> set[str]:
    """The units that this command has asked for and that have not ended yet."""
    unbuilt: set[str] = vars(options).setdefault("unbuilt", set())
    return unbuilt


@asynccontextmanager
async def what_goes_on(
    root: Path, *, private: bool = False, unbuilt: AbstractSet[str] = frozenset()
) -> AsyncIterator[None]:
    """When the command is interrupted in this context, say what the daemon goes on with, and how to end that.

    The command's own client has left by then. `unbuilt`: the units that it has asked for and that have not ended then.
    """
    try:
        yield
    except anyio.get_cancelled_exc_class():
        if private:
            _say(unbuilt_line(len(unbuilt)))
        else:
            await say_what_goes_on(root, unbuilt)
        raise


async def say_what_goes_on(root: Path, unbuilt: AbstractSet[str] = frozenset()) -> None:
    """Say what the daemon is at work on, how to end that, and how many of the units in `unbuilt` it has dropped;
    nothing where it has nothing to do, or is gone."""
    with anyio.move_on_after(ASKED_S, shield=True):
        _say(await _work_left(root, unbuilt))


def _say(text: str) -> None:
    with suppress(OSError):
        print(text, end="", file=sys.stderr, flush=True)


async def _work_left(root: Path, unbuilt: AbstractSet[str]) -> str:
    with suppress(CkwatchError):
        async with connect(root, start=False, client_name="interrupted") as client:
            await client.sync()  # by then it has dropped what only this command asked for
            units = await client.units()
        dropped = sum(unit.id in unbuilt and unit.phase == "idle" for unit in units)
        left = work_left([(unit.phase, bool(unit.to_measure)) for unit in units], _cancel_command(root))
        return unbuilt_line(dropped) + left
    found = await to_thread.run_sync(lambda: holder(endpoint_of(root)))
    if found is None or not found.starting:
        return ""
    return f"ckwatch: the daemon, process {found.process}, goes on starting; `ckwatch stop` ends it\n"


def unbuilt_line(units: int) -> str:
    """A line that says that so many units were dropped, and how to go on; nothing where none was."""
    if not units:
        return ""
    what = f"{count(units, 'unit')} {'is' if units == 1 else 'are'} not built"
    return f"ckwatch: {what}; what was built is in the store: `ckwatch build` goes on from there\n"


def _cancel_command(root: Path) -> str:
    inside = Path(os.getcwd()).is_relative_to(root)  # noqa: PTH109  # no disk is read
    return "ckwatch cancel" if inside else f"ckwatch cancel -C {shlex.quote(str(root))}"


def work_left(units: Sequence[tuple[str, bool]], cancel: str) -> str:
    """A line that says how many units are compiled, wait or are to be timed; nothing where all are settled.

    Each unit is its phase, and whether it is to be timed; `cancel` is the command that ends the work.
    """
    compiling = sum(phase == "compiling" for phase, _ in units)
    waiting = sum(phase not in ("compiling", "done", "idle") for phase, _ in units)
    timed = sum(to_measure for _, to_measure in units)
    amounts = ((compiling, "compiling"), (waiting, "waiting"), (timed, "to be timed"))
    words = ", ".join(f"{count(number, 'unit')} {what}" for number, what in amounts if number)
    return f"ckwatch: the daemon goes on with {words}; `{cancel}` ends that\n" if words else ""


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


async def asked_patterns(client: Client, words: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns for the daemon from a command's words; nothing means everything.

    A template stands for the units that are made from it. Raises CkwatchError for one from which none is made.
    """
    here = await to_thread.run_sync(working_folder)
    patterns: list[str] = []
    for pattern in await to_thread.run_sync(patterns_of, words, here, client.root):
        patterns += await _units_from(client, pattern) if pattern.endswith(TEMPLATE_END) else [pattern]
    return tuple(patterns)


async def _units_from(client: Client, path: str) -> list[str]:
    from ckwatch.workspace.template_search import TEMPLATE_SUFFIXES  # pydantic comes with it

    await client.sync()
    found: list[str] = []
    for template in await client.templates():
        if template.name.endswith(TEMPLATE_SUFFIXES):
            detail = await client.template(template.name)
            found += detail.units if path in detail.files.values() else ()
    if not found:
        raise CkwatchError(f"no unit is made from {path}", "kernel files name it: template = …")
    return found


async def one_unit(client: Client, word: str) -> str:
    """The id of the one unit that `word` means. Raises CkwatchError when there are several, and as `explained`."""
    await client.sync()
    async with explained(client, word):
        units = await client.units(word)
    if len(units) > 1:
        shown = ", ".join(unit.id for unit in units[:5]) + (", …" if len(units) > 5 else "")
        raise CkwatchError(f"'{word}' matches {len(units)} units", f"name one of them: {shown}")
    return units[0].id


@asynccontextmanager
async def asking(options: argparse.Namespace, words: Sequence[str] = ()) -> AsyncIterator[Client]:
    """The client of a command whose workspace is that of `-C`, of the first path among `words`, or here."""
    async with dependency(options, "stoppable", stoppable)():
        start = await to_thread.run_sync(start_of, options, words)
        async with dependency(options, "connected", connected)(options, start) as client:
            yield client


async def unit_of(client: Client, word: str) -> str:
    """The id of the unit that `word` means; one that is there no more is meant by its whole id, if it has timings.
    Raises as `one_unit`."""
    try:
        return await one_unit(client, word)
    except (UnknownUnitError, DiagnosedError) as error:
        if "/" in word and "@" in word:
            with suppress(UnknownUnitError):
                if await client.timings(word, limit=1):
                    return word
        raise error from None
