"""What it costs to count the instructions of a launch, and how long a profile takes after a save.

A launch of the profiled workgroups is counted and executed with all checks in turns, in one process on one core. Whole
verifications of the essential shapes of several units run with and without the profile's launch after them, in workers
as the daemon has them. All that is processor time. After an edit of the GEMM example, seconds from its artifact to the
profile are those of a client, while the daemon does what else it does after a build: the alternative is hipcc's compile
of the same source with line tables, without which nothing has lines.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import artifacts, built_as_it_is, edition, sources
from benchmarks.emulation import ARCH, EXAMPLE, NAME, TIME_LIMIT_S, artifact_of, example_unit, one_core
from benchmarks.gemm_example import ONE, example_daemon, following, rest, until_idle
from benchmarks.hipcc import Hipcc
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_protocol import LaunchCounted, WorkerMessage
from ckwatch.compile.flags import LINE_TABLES
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.model.trials import Trial
from ckwatch.model.verification import VerificationDepth, VerificationOutcome
from ckwatch.verification.library import build_library
from ckwatch.verification.problems import profiled_trial, trials_of
from ckwatch.verification.session import verify

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/verification", "daemon/ckwatch/codeobject", "daemon/ckwatch/compile")

LARGEST_RATIO, PROFILE_LIMIT_S = 1.3, 5.0
PROFILED = (
    ("gemm", NAME),
    ("hip", "gemm_bf16_bias_silu/128x128x16"),
    ("softmax", "softmax_f16/block256"),
    ("reduction_and_scan", "scan_i32/256x8"),
    ("transpose", "transpose_f16/tile32"),
)
"""Examples and units: of Composable Kernel, plain HIP, rows, two kernels, and LDS."""

Times = tuple[list[float], list[float]]


def launches(job: VerifyJob, trial: Trial, artifact: bytes, runs: int) -> Times:
    """Milliseconds of processor time of a launch, counted and with all checks. Runs in a process of its own, since the
    emulator stays loaded."""
    import numpy as np

    from ckwatch.bench.kernel_abi import ArtifactLoader
    from ckwatch.bench.numerics.inputs import make_inputs
    from ckwatch.model.tensors import DTYPES
    from ckwatch.verification.counting import counting_rules
    from ckwatch.verification.device import EmulatedDevice

    device = EmulatedDevice(job.library, job.objdump, job.arch)
    function = ArtifactLoader().function(NAME, artifact, job.symbol, trial.problem)
    sizes = {one.name: one.elements * DTYPES[one.dtype].size_bytes for one in trial.problem.buffers}
    addresses = {name: device.allocate(size) for name, size in sizes.items()}
    for name, elements in make_inputs(trial.problem, job.seed, False).items():
        device.upload(addresses[name], elements.reshape(-1).view(np.uint8))
    launch = function.launch(addresses, 0, 0)

    def launched(*, counted: bool) -> None:
        device.count(counting_rules(job.arch) if counted else None)
        device.configure(checked=not counted, traced=False, workgroups=trial.workgroups, seed=job.seed)
        launch()
        device.synchronize()

    found: Times = ([], [])
    turns = [(partial(launched, counted=True), found[0]), (partial(launched, counted=False), found[1])]
    for number in range(-1, runs):  # the first reads the code object
        for function_, times in turns if number % 2 == 0 else reversed(turns):
            start = time.process_time()
            function_()
            if number >= 0:
                times.append((time.process_time() - start) * 1e3)
    return found


def verified_ms(job: VerifyJob, trial: Trial, artifact: bytes, runs: int) -> Times:
    """Milliseconds of whole verifications with a counted launch at their end, and without: processor time of the
    workers, and of what asks them."""

    async def verified(counted: Trial | None) -> None:
        counts: list[LaunchCounted] = []

        def take(said: WorkerMessage) -> None:
            counts.extend([said] if isinstance(said, LaunchCounted) else [])

        asked = replace(job, counted=counted)
        done = await verify(asked, artifact, time_limit_s=TIME_LIMIT_S, on_message=take)
        assert done.outcome is VerificationOutcome.VERIFIED, done.summary
        assert [bool(one.kernels) for one in counts] == [True] * (counted is not None), counts

    found: Times = ([], [])
    asked = [(trial, found[0]), (None, found[1])]
    for number in range(runs):
        for counted, times in asked if number % 2 == 0 else reversed(asked):
            start = processor_s()
            anyio.run(verified, counted)
            times.append((processor_s() - start) * 1e3)
    return found


def processor_s() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


async def profiled(runs: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds from the artifact of an edit to its counts, and to its profile with lines; and those of hipcc's device
    compile with line tables."""
    counted: list[float] = []
    whole: list[float] = []
    by_hipcc: list[float] = []
    async with example_daemon(ONE) as (example, client), following(client) as follower:
        hipcc = Hipcc(discover(), example.root.parent / "hipcc")
        await built_as_it_is(example, client)
        for number in range(runs):
            for lines, times in ((False, counted), (True, whole)):
                await artifacts(example, follower, example.kernel_text(edition(number)))
                start = time.monotonic()
                found = await client.profile(example.units[0], lines=lines)
                times.append(time.monotonic() - start)
                if lines and not any(kernel.lines for kernel in found.kernels):
                    raise CkwatchError(f"no lines: {found.kernels[0].notes}")
                await until_idle(client)
            ((text, symbol),) = await sources(example, client)
            await rest(example, follower)
            done = await hipcc.device_object(text, symbol, *LINE_TABLES)
            if not done.ok:
                raise CkwatchError("hipcc fails", done.text[-2000:])
            by_hipcc.append(done.seconds)
            print(f"counts {counted[-1]:.2f} s, with lines {whole[-1]:.2f} s, hipcc {by_hipcc[-1]:.2f} s", flush=True)
    return counted, whole, by_hipcc


def measure() -> list[Row]:
    """A row of the launch, one of each unit, and two of an edit."""
    runs, unit, toolchain = asked_runs(), example_unit(), discover()
    verified: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as name:
        symbol, path = artifact_of(Path(name))
        artifact = path.read_bytes()
        library = anyio.run(build_library, Path(name), toolchain.clang)
        trial = profiled_trial(unit)
        objdump = str(toolchain.objdump)
        job = VerifyJob(arch=ARCH, symbol=symbol, trials=(trial,), library=str(library), objdump=objdump)
        with one_core(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
            launched = pool.submit(launches, job, trial, artifact, runs).result()
        for example, unit_name in PROFILED:
            folder = EXAMPLE.parent / example
            symbol, path = artifact_of(Path(name), folder, unit_name)
            unit = example_unit(folder, unit_name)
            job = replace(
                job,
                symbol=symbol,
                trials=trials_of(unit, VerificationDepth.ESSENTIAL),
                reference=unit.kernel.operation.reference,
                kept_references=str(Path(name) / "references"),
            )
            verified[unit_name] = verified_ms(job, profiled_trial(unit), path.read_bytes(), runs)
    counted, whole, by_hipcc = anyio.run(profiled, runs)
    within = f"at most {LARGEST_RATIO:g} ×"
    tables = "hipcc's device compile with line tables"
    return [
        row(
            f"a launch of {NAME}, {trial.workgroups} workgroups of {trial.name}, one core, counted",
            *launched,
            reference_name="with all checks",
            unit="ms",
            goal=within,
            met=lambda _, ratio: ratio <= LARGEST_RATIO,
        ),
        *(
            row(
                f"{unit_name} verified at its essential shapes, and its profile counted",
                *times,
                reference_name="verified alone",
                unit="ms",
                goal=within,
                met=lambda _, ratio: ratio <= LARGEST_RATIO,
            )
            for unit_name, times in verified.items()
        ),
        row(
            "one edited instance: artifact to its profile by instructions",
            counted,
            by_hipcc,
            reference_name=tables,
            unit="s",
            goal="reported",
        ),
        row(
            "one edited instance: artifact to its profile by lines",
            whole,
            by_hipcc,
            reference_name=tables,
            unit="s",
            goal=f"within {PROFILE_LIMIT_S:g} s",
            met=lambda seconds, _: seconds <= PROFILE_LIMIT_S,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
