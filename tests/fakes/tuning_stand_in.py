"""A daemon's part in a tuning run, in memory: builds and timings of instances `s_A_B`. No figure here was measured."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from ckwatch.client.builds import BuildResult, UnitResult
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.model.timings import Timing
from ckwatch.tuning.journal import TuningJournal
from ckwatch.tuning.plan import TuningOptions
from ckwatch.tuning.runner import Tuning
from ckwatch.tuning.tuned_kernel import TunedKernel, read_tuned_kernel
from ckwatch.wire.benchmarks import BenchLine, Device
from ckwatch.wire.state import Unit
from fakes.fake_benchmarks import timing_of

KERNEL = """
template = "cpp/gemm_blocked.cpp.j2"

[operation]
kind = "gemm"
a = { dtype = "f32", layout = "row" }
b = { dtype = "f32", layout = "row" }
c = { dtype = "f32", layout = "row" }

[[shape]]
name = "one"
M = 64
N = 64
K = 64

[[shape]]
name = "two"
M = 128
N = 64
K = 64

[[sweep]]
name = "s"
tune = true
where = "MPerBlock >= 2 * MPerThread"

[sweep.parameters]
MPerBlock = [8, 16, 24, 32, 40, 48, 56, 64]
NPerBlock = [32, 64, 96, 128]
KPerBlock = 64
MPerThread = [2, 4, 8]
NPerThread = 16
"""

PLACE = Span(path="k", start=Position(line=0, column=0), end=Position(line=0, column=0))
DEVICES = tuple(Device(name=f"cpu{number}", description="a stand-in", arch="host") for number in range(4))

Cost = Callable[[str, str], float | str]
"""The time of an instance on a shape in µs, or how it fails: a kind of failure, or `compile`."""


def workspace(root: Path) -> Path:
    """A workspace with one kernel to tune."""
    (root / "ckwatch.toml").write_text('[workspace]\nkernels = ["*.kernel.toml"]\n')
    (root / "slow.kernel.toml").write_text(KERNEL)
    return root


def tuned_kernel_of(root: Path, **options: Any) -> TunedKernel:
    """The plan of the workspace's kernel."""
    return read_tuned_kernel(root, "slow", **({"arch": None, "shapes": None, "listed": None, "seed": 0} | options))


def numbers(unit: str) -> tuple[int, ...]:
    """The swept values in the id of a unit."""
    return tuple(map(int, unit.partition("/")[2].partition("@")[0].split("_")[1:]))


class FakeOverlay:
    """Keeps the last text."""

    def __init__(self) -> None:
        self.text = ""

    async def change(self, text: str) -> None:
        self.text = text


class FakeTunedClient:
    """Client of a tuning run. `measured` counts by unit and shape; `side_by_side`: the most at one time."""

    def __init__(self, cost: Cost) -> None:
        self.overlay = FakeOverlay()
        self.measured: Counter[tuple[str, str]] = Counter()
        self.built: Counter[str] = Counter()
        self.limits: list[float | None] = []
        self.side_by_side = 0
        self._cost = cost
        self._busy: dict[str, str] = {}

    async def build(self, pattern: str) -> BuildResult:
        """As the daemon would: the instance must be in the overlay."""
        await anyio.lowlevel.checkpoint()
        unit = pattern.replace("[", "").replace("]", "")
        name = unit.partition("/")[2].partition("@")[0]
        assert f'name = "{name}"' in self.overlay.text
        self.built[unit] += 1
        failed = self._cost(unit, "") == "compile"
        state = Unit(
            id=unit, kernel="slow", instance=name, arch="host", place=PLACE, phase="done",
            outcome="failed" if failed else "built", fresh=True, generation=1, errors=int(failed), warnings=0,
            key=f"key of {name}", seconds=1.0,
        )  # fmt: skip
        wrong = Diagnostic(severity=Severity.ERROR, source=Source.CLANG, code="c", message="no such tile", span=PLACE)
        return BuildResult((UnitResult(unit, state, (wrong,) if failed else ()),))

    @asynccontextmanager
    async def bench(
        self, pattern: str, *, shapes: Sequence[str], device: str, race: bool, limit_us: float | None
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        """A timing of one shape on one device, on which nothing else is timed."""
        assert race
        unit = pattern.replace("[", "").replace("]", "")
        (shape,) = shapes
        self.limits.append(limit_us)

        async def lines() -> AsyncIterator[BenchLine]:
            assert device not in self._busy
            assert unit not in self._busy.values()
            self._busy[device] = unit
            self.side_by_side = max(self.side_by_side, len(self._busy))
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            del self._busy[device]
            self.measured[unit, shape] += 1
            yield BenchLine(event="timing", unit=unit, shape=shape, timing=self._timing(unit, shape, device, limit_us))

        yield lines()

    def _timing(self, unit: str, shape: str, device: str, limit_us: float | None) -> Timing:
        found = self._cost(unit, shape)
        if isinstance(found, str):
            return timing_of(unit, shape=shape, device=device, cache="", failure=found, message=f"it is {found}")
        above = limit_us is not None and found > limit_us
        how = {"median_us": found, "relative_error": 0.001, "verified": True, "given_up": above}
        return timing_of(unit, shape=shape, device=device, **how)


def tuning(root: Path, client: FakeTunedClient, journal: TuningJournal, devices: int = 1, **options: Any) -> Tuning:
    """A run that begins with what the journal has."""
    tuned = tuned_kernel_of(root, listed=options.pop("listed", None), shapes=options.pop("shapes", None))
    again = options.pop("again", False)
    how = TuningOptions(**({"jobs": 2} | options))
    there = DEVICES[:devices]
    return Tuning(client, tuned, how, there, journal, client.overlay, again=again, retry_s=0.0)  # type: ignore[arg-type]


class TunedWorkspace:
    """A client whose `tune` is a run over a stand-in."""

    def __init__(self, root: Path, cost: Cost = lambda unit, _shape: 100.0 + sum(numbers(unit))) -> None:
        self.root = root
        self._cost = cost

    @asynccontextmanager
    async def connected(self, _options: argparse.Namespace, _start: Path) -> AsyncIterator[TunedWorkspace]:
        """In place of `ckwatch.cli.session.connected`."""
        yield self

    @asynccontextmanager
    async def tune(self, kernel: str, *, measurements: int | None, **options: Any) -> AsyncIterator[Tuning]:
        """As `Client.tune`."""
        assert kernel == "slow"
        assert options["strategy"] == "local"
        journal = TuningJournal(self.root / "tuning.sqlite")
        run = tuning(self.root, FakeTunedClient(self._cost), journal, measurements=measurements)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.run)
                yield run
        finally:
            run.close()
            journal.close()
