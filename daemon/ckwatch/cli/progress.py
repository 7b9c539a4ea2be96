"""Live progress of a build: a few moving lines on a terminal, one line per unit elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from ckwatch.build.report import Phase, UnitReport
from ckwatch.cli.output import Output
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome

STYLES = {Outcome.BUILT: "green", Outcome.CHECKED: "green", Outcome.FAILED: "red", Outcome.FAULTED: "magenta"}
SHOWN_AT_ONCE = 8


class Progress:
    """Shows what compiles now and what has ended. Use as a context manager while the build runs."""

    def __init__(self, output: Output, units: Sequence[Unit]) -> None:
        self._output = output
        self._total = len(units)
        self._done = 0
        self._began: dict[str, float] = {}
        self._width = max((len(unit.id) for unit in units), default=0)
        self._live = Live(console=output.console, get_renderable=self._view, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        # Colours can be forced into a file; moving lines cannot.
        if sys.stdout.isatty():
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def phase(self, unit: Unit, phase: Phase) -> None:
        """Note where a unit is."""
        if phase is Phase.COMPILING:
            self._began[unit.id] = time.monotonic()
        elif phase is Phase.DONE:
            self._began.pop(unit.id, None)

    def ended(self, report: UnitReport) -> None:
        """Print a unit's line; units that were merely checked are counted at the end."""
        self._done += 1
        if report.outcome is Outcome.CHECKED:
            return
        origin = "from the store" if report.from_store else f"{report.seconds:.1f} s"
        line = Text.assemble(
            (f"{report.outcome.value:>8}", STYLES[report.outcome]), f"  {report.unit.id:<{self._width}}  {origin}"
        )
        self._output.console.print(line, soft_wrap=True)

    def _view(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for unit, began in list(self._began.items())[:SHOWN_AT_ONCE]:
            table.add_row(Text("compiles", style="cyan"), unit, f"{now - began:.0f} s")
        table.add_row(Text(f"{self._done}/{self._total}", style="bold"), "units", "")
        return table
