"""`ckwatch bench`: builds kernels and times them, and prints each timing as it arrives."""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from ckwatch.bench.report import KERNEL_FAILURES
from ckwatch.cli.build_results import NO_COMPILER
from ckwatch.cli.mistakes import explained, report_mistakes, report_unbuilt
from ckwatch.cli.output import VERDICT_STYLES, Output, tally
from ckwatch.cli.progress import amount
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.model.amounts import count, duration
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.wire import figures_text

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.timings import Timing
    from ckwatch.wire.benchmarks import BenchLine

FAULTS_OF_KERNELS = frozenset(kind.value for kind in KERNEL_FAILURES)
SHOWN_UNITS = 3
"""Of those that were skipped for the same reason."""


async def run(options: argparse.Namespace) -> int:
    """Time units: 1 when a kernel does not build or is at fault, 2 when the machine is why something was not timed."""
    if options.self_test:
        from ckwatch.cli.self_test import command

        return await command.run(options)
    if options.output is not None:
        raise CkwatchError("--output names the report of --self-test", "add --self-test")
    if options.devices:
        given = [name for name in ("words", "shape", "device", "force", "flush_instructions") if getattr(options, name)]
        if given:
            raise CkwatchError("--devices only lists the devices", "leave out all other arguments")
        return await _devices(options)
    async with asking(options, options.words) as client:
        patterns = await asked_patterns(client, options.words)
        bench = _Bench(Output(options, client.root))
        shapes = options.shape or None
        async with (
            explained(client, *patterns),
            client.bench(
                *patterns,
                shapes=shapes,
                device=options.device,
                force=options.force,
                flush_instructions=options.flush_instructions,
            ) as lines,
        ):
            await bench.follow(lines)
        bench.warning = (await client.status()).warnings.get("device", "")
        if NO_COMPILER in bench.unbuilt.values() and (problem := (await client.workspace()).toolchain_problem):
            raise ToolchainError.of(problem)
        units = await client.units(*patterns) if bench.unbuilt else []
        outcomes = {unit.id: unit.outcome for unit in units}
        mistakes = await report_mistakes(client, bench.output, patterns)
        await report_unbuilt(client, bench.output, [unit for unit in bench.unbuilt if outcomes.get(unit) == "failed"])
    return bench.finish(outcomes, mistakes.summary, time.monotonic() - options.begun)


class _Bench:
    """The results of a benchmark so far. `unbuilt`: units of which no shape was begun, and why. `warning`: why others
    may have measured at the same time."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._timed: set[tuple[str, str]] = set()
        self._known: set[tuple[str, str]] = set()
        self._failed: set[tuple[str, str]] = set()
        self._total = self._passed = 0
        self._begun = time.monotonic()
        self._skipped: dict[str, dict[str, list[str]]] = {}
        self._devices: set[str] = set()
        self._kernels_fault = self._machines_fault = False
        self.unbuilt: dict[str, str] = {}
        self.warning = ""

    async def follow(self, lines: AsyncIterator[BenchLine]) -> None:
        """Print each timing; what is being done is shown on a terminal."""
        self.output.answer(event="start")
        with self.output.working("building") as show:
            async for line in lines:
                self._take(line, show)

    def _take(self, line: BenchLine, show: Callable[[str], None]) -> None:
        if line.event == "start":
            self._total = line.shapes
        elif line.event in ("began", "stage"):
            self.output.event(line.event, unit=line.unit, shape=line.shape, text=line.text)
        if line.event == "stage":
            show(f"{self._amount()}  {line.unit}  {line.shape}  {line.text}")
        elif line.event == "timing" and line.timing is not None:
            self.output.event("timing", unit=line.unit, shape=line.shape, known=line.known, timing=line.timing)
            self._timing(line.timing, known=line.known)
        elif line.event == "skipped" and line.unit is not None:
            self.output.event("skipped", unit=line.unit, shape=line.shape, shapes=line.shapes, text=line.text)
            if line.shape is None:
                self.unbuilt[line.unit] = line.text
                self._passed += line.shapes
            else:
                self._passed += (line.unit, line.shape) not in self._known
            self._skipped.setdefault(line.text, {}).setdefault(line.unit, []).append(line.shape or "")

    def _amount(self) -> str:
        worked = len(self._timed | self._failed)
        done = worked + len(self._known) + self._passed
        return amount(done, self._total, time.monotonic() - self._begun, worked)

    def _timing(self, timing: Timing, *, known: bool) -> None:
        where = (timing.unit, timing.shape)
        if timing.failure is not None:
            self._failed.add(where)
            self._kernels_fault |= timing.failure in FAULTS_OF_KERNELS
            self._machines_fault |= timing.failure not in FAULTS_OF_KERNELS
        else:
            (self._known if known else self._timed).add(where)
        if self.output.json:
            return
        device = figures_text.device_words(timing)
        if device and device not in self._devices:
            self._devices.add(device)
            self.output.text(f"on {device}", "bold")
        if timing.failure is not None:
            self.output.console.print(
                Text.assemble((f"{timing.failure:>8}", "red"), f"  {timing.unit}  {timing.shape}  {timing.message}"),
                soft_wrap=True,
            )
            return
        words = [*_cells(timing), timing.place if len(self._devices) > 1 else ""]
        line = Text.assemble((f"{timing.cache:>8}", "cyan"), "  ", "  ".join(word for word in words if word))
        for one in timing.comparisons:
            line.append("  ").append(figures_text.comparison_words(one), style=VERDICT_STYLES[one.verdict])
        self.output.console.print(line, soft_wrap=True)

    def finish(self, outcomes: Mapping[str, str | None], mistakes: str, seconds: float) -> int:
        """Print what was skipped, and the sum; the exit status. `outcomes`: what became of `unbuilt` units, `mistakes`:
        which files have errors."""
        unbuilt = {outcomes.get(unit) for unit in self.unbuilt}
        skipped = [(unit, shape) for units in self._skipped.values() for unit, own in units.items() for shape in own]
        kernels = self._kernels_fault or "failed" in unbuilt or bool(mistakes)
        # one that is built and has no shapes is not a failure
        machines = self._machines_fault or bool(unbuilt - {"failed", "built"}) or any(shape for _, shape in skipped)
        status = 1 if kernels else 2 if machines else 0
        self.output.event(
            "summary", timed=len(self._timed), known=len(self._known), failed=len(self._failed),
            skipped=len(skipped), seconds=round(seconds, 4), exit_status=status, warning=self._doubt,
        )  # fmt: skip
        for why, units in self._skipped.items():
            self._print_skipped(why, units)
        if self._doubt:
            self.output.text(f" warning  {'; '.join(self._doubt.splitlines())}", "yellow")
        known = "known already (--force times again)"
        numbers = {"timed": self._timed, known: self._known, "failed": self._failed, "skipped": skipped}
        words = tally({what: len(found) for what, found in numbers.items()}, mistakes)
        self.output.text(f"{words} in {duration(seconds)}")
        return status

    @property
    def _doubt(self) -> str:
        """The warning, if it is of what was timed now."""
        return self.warning if self._timed else ""

    def _print_skipped(self, why: str, units: dict[str, list[str]]) -> None:
        """A reason once, with the units that it holds for."""
        shapes = sum(1 for own in units.values() for shape in own if shape)
        names = ", ".join([*units][:SHOWN_UNITS]) + (", …" if len(units) > SHOWN_UNITS else "")
        what = f"{count(shapes, 'shape')} of {count(len(units), 'unit')}" if shapes else count(len(units), "unit")
        self.output.text(f" skipped  {what} ({names}): {'; '.join(why.splitlines())}", "yellow")


def _cells(timing: Timing) -> list[str]:
    name = f"{timing.unit}  {timing.shape}"
    if not figures_text.is_figure(timing):
        return [name, figures_text.NO_FIGURES]
    return [name, *figures_text.timing_cells(timing), figures_text.samples_words(timing), *figures_text.doubts(timing)]


async def _devices(options: argparse.Namespace) -> int:
    """List the devices that units can be timed on, and why others cannot be used. It is no error if there are none."""
    async with asking(options) as client:
        found = await client.devices(again=True)
    output = Output(options)
    output.answer(found)
    if found.host:
        output.text(found.host, "bold")
    rows = [[one.label, one.arch, one.description, one.pci or "", one.driver] for one in found.devices]
    output.table(rows, heading=("DEVICE", "ARCH", "NAME", "PCI", "DRIVER"))
    for kind, why in found.absent.items():
        output.text(f"  no {kind}: {'; '.join(why.splitlines())}", "dim")
    if not found.devices:
        output.text("no device to time kernels on")
    return 0
