"""Progress of a build: live lines on a terminal, one line per unit elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import anyio

from ckwatch.cli.build_results import FinishedUnit, unit_line
from ckwatch.cli.output import Output
from ckwatch.cli.styled_text import StyledText
from ckwatch.client import Client
from ckwatch.model.amounts import elapsed
from ckwatch.wire.state import State

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

SHOWN_AT_ONCE = 8

WAIT_SHOWN_S = 5.0
"""A unit that is at it for so long says what it waits for."""


class BuildProgress:
    """Shows what compiles now and what has ended. `build_progress` makes one."""

    def __init__(self, output: Output, units: Sequence[str]) -> None:
        self._output = output
        self._units = frozenset(units)
        self._done = self._worked = 0
        self._begun = time.monotonic()
        self._began: dict[str, float] = {}
        self._slow: dict[str, str] = {}
        self._waits_for: dict[str, str] = {}
        self._width = max((len(unit) for unit in units), default=0)

    def live(self) -> Live:
        """Return the lines that move on a terminal, which alone needs what draws them."""
        from rich.live import Live

        return Live(console=self._output.console, get_renderable=self._view, refresh_per_second=4, transient=True)

    async def follow(self, client: Client) -> None:
        """Note which units are being compiled, and print what is said of slow ones, until cancelled."""
        async with client.events() as changes:
            async for change in changes:
                if change.state is not None and change.state.kind == "workspace":
                    self._waits_for[""] = change.state.waits_for
                if change.topic.kind == "unit" and change.topic.name in self._units:
                    self._note(change.topic.name, change.state)

    def _note(self, unit: str, state: State | None) -> None:
        if state is None or state.kind != "unit" or state.phase != "compiling":
            self._began.pop(unit, None)
            return
        self._began.setdefault(unit, time.monotonic())
        self._waits_for[unit] = state.waits_for
        if state.slow and state.slow != self._slow.get(unit):
            self._slow[unit] = state.slow
            self._print(unit_line("slow", unit, state.slow, self._width))

    def ended(self, one: FinishedUnit) -> None:
        """Print a unit's line; units that were merely checked are counted at the end."""
        self._done += 1
        self._worked += bool(one.seconds)
        self._began.pop(one.id, None)
        if (line := one.line(self._width)) is not None:
            self._print(line)

    def _print(self, line: StyledText) -> None:
        self._output.console.print(line.for_console(), soft_wrap=True)

    def _view(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for unit, began in list(self._began.items())[:SHOWN_AT_ONCE]:
            waits_for = self._waits_for.get(unit) if now - began >= WAIT_SHOWN_S else ""
            passed = elapsed(now - began) + (f", waits for {waits_for}" if waits_for else "")
            table.add_row(Text("compiles", style="cyan"), unit, passed)
        if not self._began and now - self._begun >= WAIT_SHOWN_S and (waits_for := self._waits_for.get("")):
            table.add_row(Text("waits", style="cyan"), f"for {waits_for}", "")
        words = amount(self._done, len(self._units), now - self._begun, self._worked)
        table.add_row(Text("units", style="bold"), words, "")
        return table


def amount(done: int, total: int, elapsed_s: float, worked: int) -> str:
    """`3 of 12, 1 min 5 s, about 4 min left`: `worked` of those that are done took the time; no guess without one."""
    words = f"{done} of {total}, {elapsed(elapsed_s)}"
    left = total - done
    return f"{words}, about {elapsed(elapsed_s / worked * left)} left" if worked and left > 0 else words


@asynccontextmanager
async def build_progress(
    client: Client, output: Output, units: Sequence[str], *, follows: bool | None = None
) -> AsyncIterator[BuildProgress]:
    """Show the progress of a build while the context is open. `follows`: also what compiles, by default on a terminal.

    Lines move on a terminal only: colours can be forced into a file, these cannot.
    """
    progress = BuildProgress(output, units)
    moves = sys.stdout.isatty() and not output.json
    with progress.live() if moves else nullcontext():
        async with anyio.create_task_group() as tasks:
            if moves if follows is None else follows:
                tasks.start_soon(progress.follow, client)
            yield progress
            tasks.cancel_scope.cancel()
