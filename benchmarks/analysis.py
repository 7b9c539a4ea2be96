"""The analysis of one artifact of each shipped GEMM instance for gfx942: from the code object to the report.

Code objects come from the store, or are compiled first. The reference is llvm-objdump's disassembly of the same file on
its own, which no analysis does without. Goal: under 300 ms for each; the row is the slowest instance's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, row
from ckwatch.analysis.report import CodeObjectReport
from ckwatch.analyze import analyze
from ckwatch.toolchain import Toolchain, discover

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


async def analyzed(path: Path, toolchain: Toolchain) -> tuple[float, CodeObjectReport]:
    start = time.perf_counter()
    report = await analyze(path, toolchain, "gfx942")
    return (time.perf_counter() - start) * 1e3, report


async def timed(paths: Sequence[Path], runs: int) -> dict[Path, tuple[list[float], list[float], CodeObjectReport]]:
    """Per code object: the analysis and the disassembly alone, in milliseconds, in turn; one of each before."""
    toolchain = discover()
    found = {}
    for path in paths:
        _, report = await analyzed(path, toolchain)
        disassembled_ms(path, toolchain)
        ours, others = [], []
        for _ in range(runs):
            ours.append((await analyzed(path, toolchain))[0])
            others.append(disassembled_ms(path, toolchain))
        found[path] = ours, others, report
    return found


def line_of(path: Path, ours: list[float], others: list[float], report: CodeObjectReport) -> str:
    kernel = report.kernels[0]
    loop = kernel.loop
    shown = f"{path.stem}: {statistics.median(ours):.0f} ms, of which llvm-objdump {statistics.median(others):.0f}"
    if loop is None or loop.cycles is None or loop.matrix_use is None:
        return f"{shown}; no prediction: {'; '.join((*kernel.notes, *report.notes))}"
    waves = "?" if kernel.occupancy is None else kernel.occupancy.waves_per_simd
    return (
        f"{shown}; kernels: {len(report.kernels)}; the largest: {kernel.resources.vgprs} VGPR, {waves} waves/SIMD, "
        f"{loop.mix.get('mfma', 0)} MFMA in {loop.cycles:.0f} cycles: {100 * loop.matrix_use:.0f} % use predicted"
    )


def measure() -> list[Row]:
    """One row."""
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(timed, code_objects(Path(folder)), max(5, asked_runs()))
    for path, (ours, others, report) in found.items():
        print(line_of(path, ours, others, report), flush=True)
    slowest = max(found, key=lambda path: statistics.median(found[path][0]))
    ours, others, _ = found[slowest]
    return [
        row(
            f"analysis of {KERNEL}/{slowest.stem}, the slowest of {len(found)}",
            ours,
            others,
            reference_name="llvm-objdump -d",
            unit="ms",
            goal="under 300 ms",
            met=lambda ms, _: ms < GOAL_MS,
        )
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
