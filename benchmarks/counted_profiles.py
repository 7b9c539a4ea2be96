"""What it costs to count the instructions of a launch, and how long a profile takes after a save.

A launch of the profiled workgroups is counted and executed with all checks in turns, in one process on one core. Whole
verifications of the essential shapes of several units run with and without the profile's launch after them, in workers
as the daemon has them. All that is processor time. After an edit of the GEMM example, seconds from its artifact to the
profile are those of a client, while the daemon does what else it does after a build: of a unit in focus, which is
compiled with line tables beside its artifact. The alternative is a unit that is not, whose device code is compiled a
second time for its lines.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import artifacts, built_as_it_is, edition
from benchmarks.emulation import ARCH, EXAMPLE, NAME, TIME_LIMIT_S, artifact_of, example_unit, one_core
from benchmarks.gemm_example import ONE, example_daemon, following, rest, until_idle
from benchmarks.process_tree import processor_s
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_protocol import LaunchCounted, WorkerMessage
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
            start = processor_s(own=True)
            anyio.run(verified, counted)
            times.append((processor_s(own=True) - start) * 1e3)
    return found


class Profiled(NamedTuple):
    """Seconds of each run: from an artifact to its counts and to its profile with lines, by one compile and by two; and
    from the edit to that artifact."""

    counted: list[float]
    by_one: list[float]
    by_two: list[float]
    built_with_lines: list[float]
    built_without: list[float]


async def profiled(runs: int) -> Profiled:
    """Edit the unit in and out of focus, in turns."""
    found = Profiled([], [], [], [], [])
    async with example_daemon(ONE) as (example, client), following(client) as follower:
        await built_as_it_is(example, client)
        in_turns = (
            (False, False, found.counted, found.built_without),
            (True, True, found.by_one, found.built_with_lines),
            (True, False, found.by_two, found.built_without),
        )
        for number in range(runs):
            for lines, in_focus, times, built in in_turns:
                await client.focus(*example.units if in_focus else (), everything=not in_focus)
                until_artifact, _ = await artifacts(example, follower, example.kernel_text(edition(number)))
                built.append(until_artifact)
                start = time.monotonic()
                profile = await client.profile(example.units[0], lines=lines)
                times.append(time.monotonic() - start)
                if lines and not any(kernel.lines for kernel in profile.kernels):
                    raise CkwatchError(f"no lines: {profile.kernels[0].notes}")
                await until_idle(client)
            await rest(example, follower)
            print(", ".join(f"{name} {times[-1]:.2f} s" for name, times in found._asdict().items()), flush=True)
    return found


def measure() -> list[Row]:
    """A row of the launch, one of each unit, and those of an edit."""
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
    after = anyio.run(profiled, runs)
    within = f"at most {LARGEST_RATIO:g} ×"
    two = "with lines by a second compile"
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
            after.counted,
            after.by_two,
            reference_name=two,
            unit="s",
            goal="reported",
        ),
        row(
            "one edited instance: edit to its artifact with line tables",
            after.built_with_lines,
            after.built_without,
            reference_name="without",
            unit="s",
            goal="reported",
        ),
        row(
            "one edited instance: artifact to its profile by lines",
            after.by_one,
            after.by_two,
            reference_name=two,
            unit="s",
            goal=f"within {PROFILE_LIMIT_S:g} s",
            met=lambda seconds, _: seconds <= PROFILE_LIMIT_S,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
