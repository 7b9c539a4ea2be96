"""`ckwatch check` and `ckwatch build`: asks the daemon, and prints the result of each unit.

`--out DIR` copies shared objects, code objects, object files and standalone runners to a folder.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from ckwatch.cli.output import JSON_SCHEMA, Output, diagnostic_of, diagnostic_to_json
from ckwatch.cli.session import connected, patterns_of, start_of
from ckwatch.cli.signals import stoppable
from ckwatch.client import Client
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.errors import CkwatchError, ToolchainError, UnknownUnitError
from ckwatch.model.kernels import ARTIFACT_LOST
from ckwatch.system.durable_files import replace_file

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.client.connection import LineIterator
    from ckwatch.wire.messages import BuildLine
    from ckwatch.wire.state import Unit

NO_COMPILER = "no compiler"
OUTCOMES = ("checked", "built", "failed", "faulted")


class FinishedUnit:
    """A unit's end. `from_store`: no compiler ran for it now; `lost`: it was built before, and the store no longer had
    it."""

    def __init__(self, line: BuildLine, began: float, *, check_only: bool) -> None:
        unit = line.unit
        self.id = line.id or ""
        self.unit = unit
        self.diagnostics = tuple(diagnostic_of(found) for found in line.diagnostics)
        failed = any(found.severity is Severity.ERROR for found in self.diagnostics)
        if line.problem is not None or unit is None:
            self.outcome = line.problem or "removed"
        elif check_only:
            self.outcome = "failed" if failed else "checked"
        else:
            self.outcome = unit.outcome or "checked"
        compiled = unit is not None and unit.finished_at is not None and unit.finished_at >= began
        self.from_store = not compiled and self.outcome in ("built", "failed") and bool(unit and unit.key)
        self.lost = unit is not None and any(one.what == ARTIFACT_LOST and one.at >= began for one in unit.cause)
        self.seconds = unit.seconds if unit is not None and compiled else 0.0

    def json(self) -> dict[str, Any]:
        """As a JSON value."""
        unit = self.unit
        return {
            "unit": self.id,
            "kernel": None if unit is None else unit.kernel,
            "instance": None if unit is None else unit.instance,
            "arch": None if unit is None else unit.arch,
            "outcome": self.outcome,
            "from_store": self.from_store,
            "lost": self.lost,
            "seconds": round(self.seconds, 4),
            "symbol": None if unit is None else unit.symbol,
            "key": None if unit is None else unit.key,
            "figures": None if unit is None or unit.figures is None else unit.figures.model_dump(mode="json"),
            "products": dict(unit.products) if unit is not None and self.outcome == "built" else {},
            "diagnostics": [diagnostic_to_json(diagnostic) for diagnostic in self.diagnostics],
        }


def check(options: argparse.Namespace) -> int:
    """Everything that shows without a compiler."""
    return anyio.run(partial(_run, options, check_only=True))


def build(options: argparse.Namespace) -> int:
    """Compile, and copy products out where asked."""
    if (options.aot or options.runner) and not options.out:
        raise CkwatchError("--aot and --runner need a folder to write to", "add --out DIR")
    return anyio.run(partial(_run, options, check_only=False))


async def _run(options: argparse.Namespace, *, check_only: bool) -> int:
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, options.words)
        async with connected(options, start) as client:
            output = Output(options, client.root)
            return await _build(options, client, output, check_only=check_only)


async def _build(options: argparse.Namespace, client: Client, output: Output, *, check_only: bool) -> int:
    began, begun = time.time(), time.monotonic()
    here = await to_thread.run_sync(Path.cwd)
    _, patterns = await to_thread.run_sync(patterns_of, options.words, here, client.root)
    try:
        async with client.building(*patterns, force=not check_only and options.force, check_only=check_only) as lines:
            take = partial(FinishedUnit, began=began, check_only=check_only)
            ended = await _follow(client, output, lines, take)
    except UnknownUnitError as error:
        # The word may mean a kernel that was left out because of its mistakes.
        mistakes = [diagnostic_of(found) for found in (await client.workspace()).diagnostics]
        if not any(found.severity is Severity.ERROR for found in mistakes):
            raise _named(error, options) from None
        if output.json:
            output.line(event="start", schema=JSON_SCHEMA, units=[])
        return _finish(output, [], tuple(mistakes), begun)
    workspace = await client.workspace()
    mistakes = [diagnostic_of(found) for found in workspace.diagnostics]
    if workspace.toolchain_problem is not None and any(one.outcome == NO_COMPILER for one in ended):
        message, _, hint = workspace.toolchain_problem.rpartition("\n")
        raise ToolchainError(message or hint, hint if message else None)
    if not check_only and options.out:
        await _write_products(options, client, [one for one in ended if one.outcome == "built"], output)
    return _finish(output, ended, tuple(mistakes), begun)


def _named(error: UnknownUnitError, options: argparse.Namespace) -> CkwatchError:
    """The error of a folder without kernels names the folder."""
    folder = next((word for word in options.words if f"'{Path(word).resolve()}'" in error.message), None)
    if folder is None:
        return error
    return CkwatchError(f"no kernel in '{folder}'", "kernel files are named NAME.kernel.toml")


async def _follow(
    client: Client, output: Output, lines: LineIterator[BuildLine], take: Callable[[BuildLine], FinishedUnit]
) -> list[FinishedUnit]:
    """Print each unit as it ends; all of them."""
    ended = []
    first = await anext(lines)
    if output.json:
        output.line(event="start", schema=JSON_SCHEMA, units=list(first.units))
        async for line in lines:
            if line.event == "unit":
                ended.append(take(line))
                output.line(event="unit", **ended[-1].json())
        return ended
    from ckwatch.cli.progress import BuildProgress

    with BuildProgress(output, first.units) as progress:
        async with anyio.create_task_group() as tasks:
            if progress.moves:
                tasks.start_soon(progress.follow, client)
            async for line in lines:
                if line.event == "unit":
                    one = take(line)
                    ended.append(one)
                    progress.ended(one.id, one.outcome, one.seconds, from_store=one.from_store, lost=one.lost)
            tasks.cancel_scope.cancel()
    return ended


def _finish(output: Output, ended: list[FinishedUnit], mistakes: tuple[Diagnostic, ...], begun: float) -> int:
    counts = Counter(one.outcome for one in ended)
    from_store = sum(one.from_store for one in ended)
    errors = any(found.severity is Severity.ERROR for found in mistakes)
    status = 1 if errors or counts["failed"] else 2 if counts["faulted"] else 0
    seconds = time.monotonic() - begun
    if output.json:
        # Each unit's own diagnostics went with the unit; these are the workspace's.
        output.diagnostics(mistakes)
        outcomes = {name: counts[name] for name in (*OUTCOMES, *sorted(counts.keys() - {*OUTCOMES}))}
        output.line(
            event="summary", units=len(ended), **outcomes, from_store=from_store,
            seconds=round(seconds, 4), exit_status=status,
        )  # fmt: skip
        return status
    from ckwatch.checks.fold import fold

    output.diagnostics((*mistakes, *fold({one.id: one.diagnostics for one in ended}, len(ended))))
    words = [f"{counts[name]} {name}" for name in (*OUTCOMES, *sorted(counts.keys() - {*OUTCOMES})) if counts[name]]
    if from_store:
        words.append(f"{from_store} from the store")
    if lost := sum(one.lost for one in ended):
        words.append(f"{lost} built again: missing from the store")
    output.text(f"{count(len(ended), 'unit')}: {', '.join(words) or 'nothing to do'} in {seconds:.2f} s")
    return status


SUFFIXES = {"shared-object": ".so", "code-object": ".hsaco", "object": ".o"}
CUBIN = ".cubin"


async def _write_products(
    options: argparse.Namespace, client: Client, ended: Sequence[FinishedUnit], output: Output
) -> None:
    """Copy the products of every unit that was built.

    Raises CkwatchError when the folder cannot be written, LostArtifactError for what the store does not have any more.
    """
    folder: Path = options.out.absolute()
    kinds = ["shared-object", "code-object", *(["object"] if options.aot else [])]
    for one in ended:
        unit = one.unit
        if unit is None:
            continue
        written = await to_thread.run_sync(partial(_copy, unit, folder, kinds))
        if options.runner:
            target = _stem(unit, folder).with_name(_stem(unit, folder).name + ".run")
            await client.runner(unit, target)
            written.append(target)
        for path in written:
            if output.json:
                output.line(event="file", unit=unit.id, path=str(path))
            else:
                output.text(f"wrote {path}")


def _stem(unit: Unit, folder: Path) -> Path:
    return folder / unit.kernel / f"{unit.instance}@{unit.arch.replace(':', '-')}"


def _copy(unit: Unit, folder: Path, kinds: list[str]) -> list[Path]:
    from ckwatch.compile.store.entries import verified  # the store brings sqlite3 and lzma

    stem = _stem(unit, folder)
    written = []
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
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
