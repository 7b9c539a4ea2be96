"""A whole matrix of times: every CUTLASS instance of a space on every shape, on NVIDIA GPUs, losers too.

    python -m benchmarks.cuda_matrix [--gpus 2] [--out FILE.csv]

All instances are built, then each is timed on each shape by ckwatch's own measuring (`ckwatch.bench.sampling`: warmed
up, cold caches, medians), those of a shape on one GPU, in an order that is drawn. The first launch of each is compared
with the reference, on poisoned memory. The table has a line for each instance with its parameters and a column of
milliseconds for each shape, M×N×K; an instance that refuses a shape or is wrong has none. `predictions` holds what the
formulas say against it, and `search` replays it. Needs nvcc, nvidia-cutlass and cuda-bindings.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from pathlib import Path

import anyio
import numpy as np

from benchmarks.cuda_kernels import Kernel, unit_request
from benchmarks.cutlass_cases import PATH
from benchmarks.measurement import Bench
from benchmarks.reporting import machine
from ckwatch.bench.job import Precision
from ckwatch.bench.numerics.row_verification import reference_of
from ckwatch.bench.numerics.storage import Storage
from ckwatch.bench.runtimes import cuda
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.sampling import ContestantRunner
from ckwatch.bench.stats.summary import summarize
from ckwatch.compile.builder import Builder
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.nvcc import find_nvcc
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Unit
from ckwatch.model.roofline import CacheState
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import Workspace, load_workspace

AXES = ("ThreadblockM", "ThreadblockN", "ThreadblockK", "WarpM", "WarpN", "Stages", "SwizzleSize")
SHAPES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (16384, 1024, 1024),
    (1024, 1024, 16384),
    (512, 14336, 4096),
    (3000, 2992, 2504),
    (2048, 2048, 2048),
    (256, 8192, 4096),
    (128, 8192, 8192),
    (1024, 1024, 1024),
    (64, 8192, 4096),
    (16, 4096, 4096),
)
"""M, N and K; those that take longest come first."""

PRECISION = Precision(warm_up_s=0.03, minimum_s=0.05, budget_s=0.3, block_s=0.002)
"""Of so many medians: those that differ by less than 0.5 % are not told apart."""

SETTINGS = """
[workspace]
kernels = ["*.kernel.toml"]
archs = ["sm_90a"]
"""
KERNEL = """
template = "cutlass/gemm_universal.cu.j2"

[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }

[[sweep]]
name = "s"
where = [
  "2 <= ThreadblockM // WarpM * (ThreadblockN // WarpN) <= 8",
  "(ThreadblockM + ThreadblockN) * ThreadblockK * 2 * Stages <= 232448",
]

[sweep.parameters]
ThreadblockM = [32, 64, 128, 256]
ThreadblockN = [64, 128, 256]
ThreadblockK = [32, 64]
WarpM = [32, 64]
WarpN = [32, 64]
Stages = [3, 4, 5]
SwizzleSize = [1, 8]
"""

Times = dict[str, float | None]
"""Milliseconds by the instance's name, None for one that has no time."""


def shape_name(shape: tuple[int, int, int]) -> str:
    """As a column's name says it."""
    return "x".join(map(str, shape))


def space(folder: Path) -> Workspace:
    """A workspace of all instances and shapes."""
    shapes = "".join(f'\n[[shape]]\nname = "{shape_name(one)}"\nM = %d\nN = %d\nK = %d\n' % one for one in SHAPES)
    (folder / "ckwatch.toml").write_text(SETTINGS)
    (folder / "gemm.kernel.toml").write_text(KERNEL + shapes)
    return load_workspace(folder)


async def build(workspace: Workspace, folder: Path, most: int) -> dict[str, str]:
    """Build `most` instances at most, their shared objects into `folder`; the names of their functions."""
    renderer, turns = Renderer(workspace.template_folders), anyio.Semaphore(len(os.sched_getaffinity(0)))
    found: dict[str, str] = {}
    with ArtifactStore(folder / "store") as store:
        builder = Builder(find_nvcc(), store)

        async def one(unit: Unit) -> None:
            async with turns:
                request = unit_request(workspace, renderer, unit)
                artifact = (result := await builder.build(request)).artifact
            if not result.ok or artifact is None:
                print(f"{unit.instance.name} does not compile: {result.message}", flush=True)
                return
            content = (artifact.folder / artifact.products["shared-object"]).read_bytes()
            (folder / f"{unit.instance.name}.so").write_bytes(content)
            found[unit.instance.name] = request.symbol

        async with anyio.create_task_group() as tasks:
            for unit in islice(workspace.units, most):
                tasks.start_soon(one, unit)
    return found


def timed(folder: Path, symbols: Mapping[str, str], shape: str, gpu: int) -> tuple[str, Times, list[str]]:
    """All instances on one shape, and what there is to say of those that have no time."""
    facts = cuda.find()[gpu]
    workspace = load_workspace(folder)
    units = {unit.instance.name: unit for unit in workspace.units}
    order = sorted(symbols)
    random.Random(shape).shuffle(order)  # noqa: S311  # an order, no secret
    first = units[order[0]]
    sizes = next(one for one in first.kernel.shapes if one.name == shape)
    bench = Bench(facts, Kernel(first, symbols[order[0]], b""), sizes)
    bench.sampler = replace(bench.sampler, precision=PRECISION)
    reference = reference_of(bench.problem, bench.inputs)
    assert reference is not None  # it is a product of matrices
    right: list[Storage] = []
    times: Times = {}
    notes = []
    for name in order:
        try:
            launch = bench.launch((folder / f"{name}.so").read_bytes(), symbols[name])
            written = bench.written(launch, "Y")
            if not any(np.array_equal(written, one) for one in right):
                reference.check({"Y": written})
                right.append(written)
            runner = ContestantRunner(name, launch)
            warm = bench.sampler.warm_up([runner], CacheState.COLD)
            (samples,) = bench.sampler.sample([runner], CacheState.COLD, warm.clock_mhz)
            times[name] = round(summarize(samples.times_us).median_us / 1e3, 6)
        except (BenchmarkError, CkwatchError) as error:
            times[name] = None
            notes.append(f"{name}: {error.message}")
    bench.close()
    return shape, times, notes


def measured(folder: Path, symbols: Mapping[str, str], gpus: Sequence[int]) -> Iterator[tuple[str, Times, list[str]]]:
    """All shapes, each GPU one at a time, as they are done."""
    methods = multiprocessing.get_context("spawn")
    workers = {gpu: ProcessPoolExecutor(1, mp_context=methods) for gpu in gpus}
    asked = [
        workers[gpus[number % len(gpus)]].submit(timed, folder, symbols, shape_name(shape), gpus[number % len(gpus)])
        for number, shape in enumerate(SHAPES)
    ]
    for done in as_completed(asked):
        yield done.result()
    for worker in workers.values():
        worker.shutdown()


def write(path: Path, workspace: Workspace, found: Mapping[str, Times]) -> None:
    """The table of all shapes so far."""
    shapes = [name for name in map(shape_name, SHAPES) if name in found]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*AXES, *(f"{shape}_ms" for shape in shapes)))
        for unit in workspace.units:
            own = [found[shape].get(unit.instance.name) for shape in shapes]
            if any(own):
                writer.writerow((*(unit.instance.parameters[axis] for axis in AXES), *own))


def main() -> int:
    """The exit status: 1 where an instance is without a time on a shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1, help="how many equal GPUs take shapes by turns")
    parser.add_argument("--instances", type=int, default=sys.maxsize, help="so many at most, to try it out")
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    found: dict[str, Times] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ckwatch-matrix-") as temporary:
        folder = Path(temporary)
        workspace = space(folder)
        symbols = anyio.run(build, workspace, folder, options.instances)
        print(
            f"{len(symbols)} of {sum(1 for _ in workspace.units)} instances built in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        for shape, times, notes in measured(folder, symbols, range(options.gpus)):
            found[shape] = times
            write(options.out, workspace, found)
            print(f"{shape}: {len(times) - len(notes)} times, {time.monotonic() - began:.0f} s", *notes[:5], flush=True)
    print(f"{cuda_description()}; {machine()}")
    return int(any(one is None for times in found.values() for one in times.values()))


def cuda_description() -> str:
    """The GPUs of this machine."""
    return ", ".join(f"{one.description}, driver {one.driver}" for one in cuda.find())


if __name__ == "__main__":
    sys.exit(main())
