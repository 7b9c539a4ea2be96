"""`ckwatch check` and `ckwatch build` as they go on: asks the daemon, and prints the result of each unit.

`--out DIR` copies shared objects, code objects, object files and standalone runners to a folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ckwatch.cli.advice import advice_on
from ckwatch.cli.build_results import FinishedUnit, finish, unix_time_of
from ckwatch.cli.command_words import is_private
from ckwatch.cli.mistakes import Mistakes, mistakes_in, named
from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns, asking, unbuilt_of
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError, UnknownUnitError, plain_errors
from ckwatch.system.durable_files import fitting_name, replace_file

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import BuildLine, Unit


def check(options: argparse.Namespace, asked: Callable[[], None]) -> int:
    """Everything that shows without a compiler. `asked` is called when the daemon has the request."""
    return anyio.run(partial(run, options, asked, check_only=True))


def build(options: argparse.Namespace, asked: Callable[[], None]) -> int:
    """Compile, and copy products out where asked. `asked` is called when the daemon has the request."""
    if (options.aot or options.runner) and not options.out:
        raise CkwatchError("--aot and --runner need a folder to write to", "add --out DIR")
    if options.toolchain and options.out:
        raise CkwatchError("--out is for the workspace's own toolchain", "--json names the files of others")
    return anyio.run(partial(run, options, asked, check_only=False))


async def run(options: argparse.Namespace, asked: Callable[[], None] = lambda: None, *, check_only: bool) -> int:
    """Check or build units. `asked` is called when the daemon has the request."""
    async with asking(options, options.words) as client:
        return await _build(options, client, Output(options, client.root), asked, check_only=check_only)


async def _build(
    options: argparse.Namespace, client: Client, output: Output, asked: Callable[[], None], *, check_only: bool
) -> int:
    began = unix_time_of(options.begun)
    patterns = await asked_patterns(client, options.words)

    products = None if check_only or not options.out else _Products(options, client, output)
    if products is not None:
        await products.open()

    async def follow(*words: str) -> list[FinishedUnit]:
        def take(line: BuildLine) -> FinishedUnit:
            one = FinishedUnit(line, began, check_only=check_only)
            unbuilt.discard(one.id)
            if products is not None:
                products.add(one)
            return one

        unbuilt = unbuilt_of(options)
        async with client.building(
            *words,
            force=not check_only and options.force,
            check_only=check_only,
            finish=True,
            toolchains=options.toolchain or None,
        ) as lines:
            asked()
            if products is None:
                compiles = not check_only and not options.toolchain
                return await _follow(client, output, lines, take, unbuilt, compiles=compiles)
            async with products.written():
                return await _follow(client, output, lines, take, unbuilt, compiles=True)

    try:
        ended = await follow(*patterns)
    except UnknownUnitError as error:
        known = await _known(error, options, client, patterns)
        if not known:
            output.answer(event="start", units=())
        ended = await follow(*known) if known else []
    if not check_only and not options.toolchain:
        for unit, advice in (await advice_on(client, output, [one.unit for one in ended])).items():
            next(one for one in ended if one.id == unit).add(advice)
    workspace = await client.workspace()
    status = finish(output, ended, workspace, patterns, options.begun)
    if is_private(options) and (warning := (await client.status()).warnings.get("shared-store")):
        print(f"ckwatch: warning: {warning}", file=sys.stderr)  # no daemon is left that could be asked for it
    if products is not None and products.error is not None:
        raise products.error
    return status


async def _known(
    error: UnknownUnitError, options: argparse.Namespace, client: Client, patterns: Sequence[str]
) -> list[str]:
    """The patterns that name units, if the others may mean kernels that were left out because of their mistakes. Raises
    the error where that is not so."""
    workspace = await client.workspace()
    known = []
    for pattern in patterns:
        try:
            await client.units(pattern)
        except UnknownUnitError:
            mistakes = mistakes_in(workspace, [pattern])
            if not mistakes.are_errors:
                raise _named(error, options, mistakes) from None
        else:
            known.append(pattern)
    return known


def _named(error: UnknownUnitError, options: argparse.Namespace, mistakes: Mistakes) -> CkwatchError:
    """The error of a folder without kernels names the folder."""
    folder = next((word for word in options.words if f"'{Path(word).resolve()}'" in error.message), None)
    if folder is None:
        return named(error, mistakes)
    return CkwatchError(f"no kernel in '{folder}'", "kernel files are named NAME.kernel.toml")


async def _follow(
    client: Client,
    output: Output,
    lines: AsyncIterator[BuildLine],
    take: Callable[[BuildLine], FinishedUnit],
    unbuilt: set[str],
    *,
    compiles: bool,
) -> list[FinishedUnit]:
    """Print each unit as it ends; all of them."""
    ended = []
    first = await anext(lines)
    unbuilt |= {*first.units} if compiles else set()
    if not output.for_people:
        output.answer(event="start", units=first.units)
        async for line in lines:
            if line.event == "unit":
                ended.append(take(line))
                ended[-1].print_json(output)
        return ended
    from ckwatch.cli.progress import build_progress

    async with build_progress(client, output, first.units, follows=compiles) as progress:
        async for line in lines:
            if line.event == "unit":
                ended.append(take(line))
                progress.ended(ended[-1])
    return ended


SUFFIXES = {"shared-object": ".so", "code-object": ".hsaco", "object": ".o"}
CUBIN = ".cubin"
SUFFIX_BYTES = 8
"""Room for the longest of them."""


class _Products:
    """Copies what is built to `--out` while other units are still compiled.

    `error` is the first that there was: CkwatchError when the folder cannot be written, LostArtifactError for what the
    store does not have any more. The other units are written all the same.
    """

    def __init__(self, options: argparse.Namespace, client: Client, output: Output) -> None:
        self._client = client
        self._output = output
        self._folder: Path = options.out.absolute()
        self._kinds = ["shared-object", "code-object", *(["object"] if options.aot else [])]
        self._runner: bool = options.runner
        self._added: MemoryObjectSendStream[FinishedUnit] | None = None
        self.error: CkwatchError | None = None

    async def open(self) -> None:
        """Make the folder. Raises CkwatchError."""
        await to_thread.run_sync(_make_folder, self._folder, self._folder)

    def add(self, one: FinishedUnit) -> None:
        """Note a unit that has ended; it is written soon."""
        if one.outcome == "built" and self._added is not None:
            self._added.send_nowait(one)

    @asynccontextmanager
    async def written(self) -> AsyncIterator[None]:
        """Write what is added in this context, which ends when all is written."""
        send, added = anyio.create_memory_object_stream[FinishedUnit](float("inf"))
        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, added)
            with send:
                self._added = send
                yield

    async def _write(self, added: MemoryObjectReceiveStream[FinishedUnit]) -> None:
        with added:
            async for one in added:
                if one.unit is not None:
                    try:
                        await self._write_one(one.unit)
                    except CkwatchError as error:
                        self.error = self.error or error

    async def _write_one(self, unit: Unit) -> None:
        written = await to_thread.run_sync(partial(_copy, unit, self._folder, self._kinds))
        if self._runner:
            stem = _stem(unit, self._folder)
            written.append(stem.with_name(f"{stem.name}.run"))
            await self._client.runner(unit, written[-1])
            data = written[-1].with_name(f"{written[-1].name}.data")
            written += [data] if data.is_dir() else []
        for path in written:
            print_written(self._output, unit.id, path)


def print_written(output: Output, unit: str, path: Path) -> None:
    """Say that a file of a unit was written."""
    output.event("file", unit=unit, path=path)
    output.text(f"wrote {path}")


def _stem(unit: Unit, folder: Path) -> Path:
    return folder / unit.kernel / fitting_name(f"{unit.instance}@{unit.arch.replace(':', '-')}", room=SUFFIX_BYTES)


def _make_folder(folder: Path, out: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CkwatchError(f"cannot write to {out}: {error.strerror}") from error


def _copy(unit: Unit, folder: Path, kinds: list[str]) -> list[Path]:
    from ckwatch.compile.store.entries import verified  # the store brings sqlite3 and lzma

    stem = _stem(unit, folder)
    written = []
    _make_folder(stem.parent, folder)
    try:
        for kind in kinds:
            source = unit.products.get(kind)
            if source is not None:
                cubin = kind == "code-object" and unit.arch.startswith("sm_")
                target = stem.with_name(stem.name + (CUBIN if cubin else SUFFIXES[kind]))
                replace_file(target, verified(Path(source)), flushed=False)
                written.append(target)
    except OSError as error:
        raise CkwatchError(f"cannot write to {folder}: {error.strerror}") from error
    return written
