"""The mistakes in `ckwatch.toml` and in kernel files that concern what a command was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ckwatch.cli.output import Output
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import DiagnosedError, UnknownUnitError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.unit_patterns import may_name
from ckwatch.workspace.discovery import FILE_NAME

if TYPE_CHECKING:  # the wire types load pydantic, the client anyio
    from ckwatch.client import Client
    from ckwatch.wire.state import WorkspaceDetail


@dataclass(frozen=True, slots=True)
class Mistakes:
    """`concerning` what was asked for, and how many errors there are `elsewhere`."""

    concerning: tuple[Diagnostic, ...]
    elsewhere: int

    @property
    def are_errors(self) -> bool:
        """True if a relevant error is among them."""
        return any(found.severity is Severity.ERROR for found in self.concerning)

    @property
    def summary(self) -> str:
        """`1 kernel file has errors`; empty where there is none among those of concern."""
        broken = {one.span.path: one.source for one in self.concerning if one.severity is Severity.ERROR}
        settings = [FILE_NAME for source in broken.values() if source is Source.WORKSPACE][:1]
        files = sum(source is not Source.WORKSPACE for source in broken.values())
        words = " and ".join((*settings, *([count(files, "kernel file")] if files else [])))
        return f"{words} {'has' if len(settings) + files == 1 else 'have'} errors" if words else ""

    @property
    def hint(self) -> str | None:
        """A line about the others, if there are any."""
        found = f"{count(self.elsewhere, 'error')} in other kernel files: `ckwatch check` shows them"
        return found if self.elsewhere else None


def mistakes_in(workspace: WorkspaceDetail, patterns: Sequence[str]) -> Mistakes:
    """Those in `ckwatch.toml` and in the kernel files that may hold what `patterns` name; all for no pattern."""
    concerning, elsewhere = [], 0
    for found in workspace.diagnostics:
        path = found.span.path
        kernel = workspace.kernel_names.get(path)
        if not patterns or kernel is None or any(may_name(pattern, kernel, path) for pattern in patterns):
            concerning.append(found)
        elif found.severity is Severity.ERROR:
            elsewhere += 1
    return Mistakes(tuple(concerning), elsewhere)


async def report_mistakes(client: Client, output: Output, patterns: Sequence[str]) -> Mistakes:
    """Print the mistakes of concern if there are errors among them."""
    found = mistakes_in(await client.workspace(), patterns)
    if found.are_errors:
        output.diagnostics(found.concerning)
    return found


async def report_unbuilt(client: Client, output: Output, units: Sequence[str]) -> None:
    """Print why these units, whose build failed, have no result: what `ckwatch build` says of them."""
    from ckwatch.checks.fold import fold

    own = {unit: (await client.unit(unit)).diagnostics for unit in units}
    output.diagnostics(fold(own, max(len(own), 1)))


def joined(workspace: Sequence[Diagnostic], units: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Errors first, those of `ckwatch.toml` and kernel files before those of units, with which goes why a header is
    missing."""
    folders = [one for one in workspace if one.code == "workspace/missing-folder" and one.severity is Severity.WARNING]
    related = tuple(Related(one.message, one.span) for one in folders)
    lacking = any(one.code == "clang/file-not-found" for one in units)
    kept = (one for one in workspace if not lacking or one not in folders)
    with_reason = (
        replace(one, related=(*related, *one.related)) if one.code == "clang/file-not-found" else one for one in units
    )
    return tuple(sorted((*kept, *with_reason), key=lambda one: one.severity is not Severity.ERROR))


@asynccontextmanager
async def explained(client: Client, *patterns: str) -> AsyncIterator[None]:
    """Explain why `patterns` name no unit: raise DiagnosedError with the mistakes because of which it may have been
    left out. Raises the UnknownUnitError itself where there are none; its hint then says that other files have some."""
    try:
        yield
    except UnknownUnitError as error:
        found = mistakes_in(await client.workspace(), patterns)
        if found.are_errors:
            raise DiagnosedError(found.concerning) from None
        raise named(error, found) from None


def named(error: UnknownUnitError, mistakes: Mistakes) -> UnknownUnitError:
    """The error, with a hint at mistakes in other files."""
    hint = "\n".join(part for part in (error.hint, mistakes.hint) if part)
    return UnknownUnitError(error.message, hint or None)
