"""The emulator on a GEMM of Composable Kernel: how fast it executes one, and how long a verification takes.

Multiply-adds a second are of one core, without checks, against numpy's float32 product of the same size on one core:
what the emulator costs beside a library that computes the same. The checks cost what the same launch takes longer
with them. Both are processor time. The verifications run as the daemon has them run, in a worker of its own with all
cores, from the artifact to the last outcome: the worker's start, reading the code object, inputs and the reference
count. Goals: 512³ in 1 s, all small shapes of an instance in 5 s, checks within 2 ×.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, row
from ckwatch.bench.job import VerifyJob
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Unit
from ckwatch.model.trials import Trial
from ckwatch.model.verification import VerificationDepth, VerificationOutcome
from ckwatch.verification.library import build_library
from ckwatch.verification.problems import trials_of
from ckwatch.verification.session import verify
from ckwatch.workspace.loading import load_workspace

MEASURED_CODE = ("daemon/ckwatch/verification", "daemon/ckwatch/bench")

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"
NAME = "gemm_f16/v3_128x128x64_intrawave"
ARCH = "gfx942"
SIZE = 512
ONE_CORE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "CKWATCH_EMULATOR_THREADS": "1"}
LARGEST_RATIO, WHOLE_LIMIT_MS, SMALL_LIMIT_MS = 2.0, 1e3, 5e3
TIME_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Launches:
    """Milliseconds of processor time of one launch of SIZE³, in turns."""

    unchecked: list[float]
    checked: list[float]
    numpy: list[float]


def artifact_of(folder: Path, example: Path = EXAMPLE, name: str = NAME) -> tuple[str, Path]:
    """The unit's function and its shared object, from the store or compiled first."""
    command = [sys.executable, "-m", "ckwatch", "build", name, "-C", str(example), "--arch", ARCH, "--no-daemon"]
    environment = {**os.environ, "CKWATCH_TRUST_FILE": str(folder / "trusted")}
    printed = subprocess.run([*command, "--trust", "--json"], check=True, stdout=subprocess.PIPE, env=environment)
    events = [json.loads(line) for line in printed.stdout.splitlines()]
    (unit,) = [event for event in events if event["event"] == "unit"]
    return str(unit["symbol"]), Path(unit["products"]["shared-object"])


def example_unit(example: Path = EXAMPLE, name: str = NAME) -> Unit:
    units = load_workspace(example).units
    found = next(unit for unit in units if f"{unit.kernel.name}/{unit.instance.name}" == name)
    return Unit(found.kernel, found.instance, ARCH)


def cube(unit: Unit) -> KernelProblem:
    """The kernel file's first shape, a cube, with the size SIZE."""
    shape = unit.kernel.shapes[0]
    sizes = {name: SIZE if value else 0 for name, value in shape.sizes.items()}
    return problem_of(unit.kernel.operation, replace(shape, sizes=sizes), ARCH)


def launches(job: VerifyJob, problem: KernelProblem, artifact: bytes, runs: int) -> Launches:
    """Runs in a process of its own, since the emulator stays loaded."""
    import numpy as np

    from ckwatch.bench.kernel_abi import ArtifactLoader
    from ckwatch.bench.numerics.inputs import make_inputs
    from ckwatch.model.tensors import DTYPES
    from ckwatch.verification.device import EmulatedDevice

    device = EmulatedDevice(job.library, job.objdump, job.arch)
    function = ArtifactLoader().function(NAME, artifact, job.symbol, problem)
    addresses = {
        buffer.name: device.allocate(buffer.elements * DTYPES[buffer.dtype].size_bytes) for buffer in problem.buffers
    }
    for name, elements in make_inputs(problem, job.seed, False).items():
        device.upload(addresses[name], elements.reshape(-1).view(np.uint8))
    launch = function.launch(addresses, 0, 0)
    generator = np.random.default_rng(job.seed)
    x, w = (generator.standard_normal((SIZE, SIZE), np.float32) for _ in range(2))

    def launched(*, checked: bool) -> None:
        device.configure(checked=checked, traced=False, workgroups=None, seed=job.seed)
        launch()
        device.synchronize()

    found = Launches([], [], [])
    turns: list[tuple[Callable[[], object], list[float]]] = [
        (partial(launched, checked=False), found.unchecked),
        (partial(launched, checked=True), found.checked),
        (lambda: x @ w, found.numpy),
    ]
    for number in range(-1, runs):  # the first reads the code object
        for function_, times in turns if number % 2 == 0 else reversed(turns):
            start = time.process_time()
            function_()
            if number >= 0:
                times.append((time.process_time() - start) * 1e3)
    computed, of = device.workgroups()
    assert computed == of, "a part of the workgroups was left out"
    return found


def verified_ms(job: VerifyJob, artifact: bytes, runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of whole verifications, checked and unchecked."""
    both: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for checked, times in zip((True, False), both, strict=True):
            start = time.perf_counter()
            asked = replace(job, checked=checked)
            done = anyio.run(partial(verify, asked, artifact, time_limit_s=TIME_LIMIT_S))
            times.append((time.perf_counter() - start) * 1e3)
            assert done.outcome is VerificationOutcome.VERIFIED, done.summary
    return both


@contextmanager
def one_core() -> Iterator[None]:
    """Processes that begin meanwhile compute on one core."""
    before = {name: os.environ.get(name) for name in ONE_CORE}
    os.environ |= ONE_CORE
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def measure() -> list[Row]:
    """Four rows."""
    runs, unit, toolchain = asked_runs(), example_unit(), discover()
    problem = cube(unit)
    with tempfile.TemporaryDirectory() as name:
        symbol, path = artifact_of(Path(name))
        artifact = path.read_bytes()
        library = anyio.run(build_library, Path(name), toolchain.clang)
        whole = Trial(name=f"{SIZE}³", shape=f"M={SIZE} N={SIZE} K={SIZE}", problem=problem)
        job = VerifyJob(arch=ARCH, symbol=symbol, trials=(whole,), library=str(library), objdump=str(toolchain.objdump))
        with one_core(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found = pool.submit(launches, job, problem, artifact, runs).result()
        cubes = verified_ms(job, artifact, runs)
        small = trials_of(unit, VerificationDepth.ESSENTIAL)
        shapes = verified_ms(replace(job, trials=small), artifact, runs)
    giga = SIZE**3 / 1e6
    speeds, others = ([giga / ms for ms in times] for times in (found.unchecked, found.numpy))
    slower = statistics.median(others) / statistics.median(speeds)
    print(f"{NAME}, {SIZE}³ on one core: numpy's float32 product is {slower:.0f} × as fast")
    return [
        row(
            f"multiply-adds of {NAME}, one core, emulated without checks",
            speeds,
            others,
            reference_name="numpy's float32 matmul, one core",
            unit="G/s",
            goal="reported",
        ),
        row(
            f"a launch of {NAME}, {SIZE}³, one core, with all checks",
            found.checked,
            found.unchecked,
            reference_name="without checks",
            unit="ms",
            goal="within 2 ×",
            met=lambda _, ratio: ratio <= LARGEST_RATIO,
        ),
        row(
            f"{NAME} at {SIZE}³ verified, from the artifact",
            *cubes,
            reference_name="without checks",
            unit="ms",
            goal="within 1 s",
            met=lambda ms, _: ms <= WHOLE_LIMIT_MS,
        ),
        row(
            f"{NAME} verified at all its {len(small)} small shapes, from the artifact",
            *shapes,
            reference_name="without checks",
            unit="ms",
            goal="within 5 s",
            met=lambda ms, _: ms <= SMALL_LIMIT_MS,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
