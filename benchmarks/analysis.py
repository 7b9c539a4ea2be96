"""The analysis of one artifact of each shipped GEMM instance for gfx942: from the code object to the report.

Code objects come from the store, or are compiled first. The reference is llvm-objdump's disassembly of the same file on
its own, which no analysis does without. Goal: under 300 ms for each; the row is the slowest instance's. CPU time, with
that of the tools, tells how much of it is waiting for one's turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.process_tree import processor_s
from benchmarks.reporting import Row, row
from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.codeobject.tools.analyze import analyze
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain

MEASURED_CODE = ("daemon/ckwatch/codeobject",)

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"
KERNEL = "gemm_f16"
GOAL_MS = 300.0


def code_objects(folder: Path) -> list[Path]:
    """The code objects of all instances for gfx942, in the order of their names."""
    command = [sys.executable, "-m", "ckwatch", "build", KERNEL, "-C", str(EXAMPLE), "--no-daemon", "--trust"]
    environment = {**os.environ, "CKWATCH_TRUST_FILE": str(folder / "trusted")}
    subprocess.run([*command, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL, env=environment)
    return sorted(folder.rglob("*@gfx942.hsaco"))


def disassembled_ms(path: Path, toolchain: Toolchain) -> float:
    start = time.perf_counter()
    subprocess.run([str(toolchain.objdump), "-d", str(path)], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


async def analyzed(path: Path, toolchain: Toolchain) -> tuple[float, float, CodeObjectReport]:
    """Milliseconds of time and of CPU time, and the report."""
    start, cpu = time.perf_counter(), processor_s(own=True)
    report = await analyze(path, toolchain, "gfx942")
    return (time.perf_counter() - start) * 1e3, (processor_s(own=True) - cpu) * 1e3, report


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds: of the analysis, of its CPU time, and of the disassembly alone."""

    ours: list[float]
    cpu: list[float]
    others: list[float]
    report: CodeObjectReport


async def timed(paths: Sequence[Path], runs: int) -> dict[Path, Timed]:
    """Per code object: the analysis and the disassembly alone, in turn; one of each before."""
    toolchain = discover()
    found = {}
    for path in paths:
        _, _, report = await analyzed(path, toolchain)
        disassembled_ms(path, toolchain)
        found[path] = Timed([], [], [], report)
        for _ in range(runs):
            took_ms, cpu_ms, _ = await analyzed(path, toolchain)
            found[path].ours.append(took_ms)
            found[path].cpu.append(cpu_ms)
            found[path].others.append(disassembled_ms(path, toolchain))
    return found


def line_of(path: Path, one: Timed) -> str:
    report = one.report
    kernel = report.kernels[0]
    loop = kernel.loop
    ours, cpu, others = (statistics.median(times) for times in (one.ours, one.cpu, one.others))
    shown = f"{path.stem}: {ours:.0f} ms ({cpu:.0f} ms of CPU time), of which llvm-objdump {others:.0f}"
    if loop is None or loop.clocks is None or loop.matrix_use is None:
        return f"{shown}; no prediction: {'; '.join((*kernel.notes, *report.notes))}"
    waves = "?" if kernel.occupancy is None else kernel.occupancy.waves_per_simd
    return (
        f"{shown}; kernels: {len(report.kernels)}; the largest: {kernel.resources.vgprs} VGPR, {waves} waves/SIMD, "
        f"{loop.mix.get('mfma', 0)} MFMA in {loop.clocks:.0f} cycles: {100 * loop.matrix_use:.0f} % use predicted"
    )


def measure() -> list[Row]:
    """One row."""
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(timed, code_objects(Path(folder)), max(5, asked_runs()))
    for path, one in found.items():
        print(line_of(path, one), flush=True)
    slowest = max(found, key=lambda path: statistics.median(found[path].ours))
    return [
        row(
            f"analysis of a code object of {KERNEL}, the slowest of {len(found)}",
            found[slowest].ours,
            found[slowest].others,
            reference_name="llvm-objdump -d",
            unit="ms",
            goal="under 300 ms",
            met=lambda ms, _: ms < GOAL_MS,
        )
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
