"""The daemon's side of a verification: gives workers the problems, and goes on with another one when one has ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from anyio import TemporaryDirectory, to_thread

from ckwatch.bench.job import VERIFYING, VerifyJob
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.bench.runtimes.hip_api import EMULATOR_BUG
from ckwatch.bench.worker_protocol import LaunchCounted, TrialVerified, VerificationDone, WorkerMessage, WorkerStage
from ckwatch.bench.worker_session import OnMessage, Worker, WorkerStart
from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.trials import Trial
from ckwatch.model.verification import EmulatedFinding, FindingKind, ProblemOutcome, Verification, VerifiedProblem
from ckwatch.system.async_processes import run_process
from ckwatch.system.python_process import module_command
from ckwatch.verification.findings import merged
from ckwatch.verification.host_code import host_findings, listed_findings, may_bypass_libraries

LIBRARIES_VARIABLE = "LD_LIBRARY_PATH"

VERIFIER = WorkerStart(module_command("ckwatch.verification.worker"))
"""The worker of this installation that verifies."""

REFERENCES = "references"
"""The store's folder of results of users' references."""

LISTING_LIMIT_BYTES = 1 << 26
"""Of the disassembly of a shared object's host code."""

WORKERS = 4
"""That verify one artifact, one after the other; each but the last has crashed or hung."""


DIVIDES_BY_ZERO = "the C function divides an integer by zero on the host, perhaps in its grid"


async def verify(
    job: VerifyJob,
    artifact: bytes,
    start: WorkerStart = VERIFIER,
    *,
    time_limit_s: float,
    on_message: OnMessage | None = None,
    arrays: Sequence[bytes] = (),
) -> Verification:
    """Have a worker on this machine verify `artifact`, the content of a shared object, on the emulator. `arrays`: the
    contents of NumPy files that problems name.

    As `Worker.ask`. A problem at which a worker crashes or hangs is not verified and says so; another worker goes on
    with those behind it, up to WORKERS. Problems that none came to are not verified either.
    """
    outcomes: dict[Trial, TrialVerified] = {}

    def ended(trial: Trial, outcome: ProblemOutcome, message: str) -> None:
        problem = VerifiedProblem(name=trial.name, shape=trial.shape, outcome=outcome, message=message, share=0.0)
        outcomes[trial] = TrialVerified(number=0, problem=problem)

    for trial in job.trials:
        if trial.not_tried:
            ended(trial, ProblemOutcome.NOT_TRIED, trial.not_tried)
    for _ in range(WORKERS):
        rest = tuple(trial for trial in job.trials if trial not in outcomes)
        if not rest:
            break
        begun = False

        def take(reply: WorkerMessage, trials: Sequence[Trial] = rest) -> None:
            nonlocal begun
            if isinstance(reply, TrialVerified) and 0 <= reply.number < len(trials):
                outcomes[trials[reply.number]] = reply
            begun = begun or (isinstance(reply, WorkerStage) and reply.name.startswith(VERIFYING))
            if on_message is not None:
                on_message(reply)

        answer = await Worker(_with_library(start, job)).ask(
            replace(job, trials=rest), [artifact, *arrays], VerificationDone, time_limit_s=time_limit_s, on_message=take
        )
        message = answer.message if isinstance(answer, BenchmarkFailure) else "the worker reported no outcome"
        if failed := next((trial for trial in rest if trial not in outcomes), None):
            by_zero = "SIGFPE" in message and EMULATOR_BUG not in message
            ended(
                failed,
                ProblemOutcome.WRONG if by_zero else ProblemOutcome.NOT_VERIFIED,
                f"{DIVIDES_BY_ZERO}{failed.hint and f'; {failed.hint}'}" if by_zero else message,
            )
            if EMULATOR_BUG in message:
                outcomes[failed] = replace(outcomes[failed], findings=(_crash(message, failed),))
        if not begun:
            break
    for trial in job.trials:
        if trial not in outcomes:
            ended(trial, ProblemOutcome.NOT_VERIFIED, "the workers ended before this was tried")
    ended_in_order = [outcomes[trial] for trial in job.trials]
    of_host = await _of_host(job, artifact) if job.is_judged and job.launch is None else ()
    return Verification(
        device=emulated_device(job.arch) or job.arch,
        problems=tuple(one.problem for one in ended_in_order),
        findings=(*of_host, *merged(finding for one in ended_in_order for finding in one.findings)),
        checked=job.checked or job.is_judged,
        reference_mistakes=_mistakes_once(ended_in_order),
    )


async def _of_host(job: VerifyJob, artifact: bytes) -> tuple[EmulatedFinding, ...]:
    """Return findings about the host's code, for a judge."""
    found = host_findings(artifact)
    if not await to_thread.run_sync(may_bypass_libraries, artifact):
        return found
    async with TemporaryDirectory(prefix="ckwatch-judged-") as folder:
        path = Path(folder, "host.so")
        await to_thread.run_sync(path.write_bytes, artifact)
        try:
            listing = await run_process(
                (job.objdump, "--disassemble", "--no-show-raw-insn", path),
                environment=os.environ, output_limit_bytes=LISTING_LIMIT_BYTES,
            )  # fmt: skip
        except ToolchainError:
            return found
        return (*found, *await to_thread.run_sync(listed_findings, listing.stdout))


async def count(
    job: VerifyJob,
    artifact: bytes,
    start: WorkerStart = VERIFIER,
    *,
    time_limit_s: float,
    on_message: OnMessage | None = None,
    arrays: Sequence[bytes] = (),
) -> LaunchCounted:
    """Have a worker count what the job counts, and verify nothing; arguments as those of `verify`. Raises CkwatchError
    where the worker does not come to an end."""
    counts: list[LaunchCounted] = []

    def take(reply: WorkerMessage) -> None:
        if isinstance(reply, LaunchCounted):
            counts.append(reply)
        if on_message is not None:
            on_message(reply)

    answer = await Worker(_with_library(start, job)).ask(
        replace(job, trials=()), [artifact, *arrays], VerificationDone, time_limit_s=time_limit_s, on_message=take
    )
    if counts:
        return counts[0]
    if isinstance(answer, BenchmarkFailure):
        raise CkwatchError(answer.message, answer.hint)
    raise CkwatchError("the worker has counted nothing")


def _with_library(start: WorkerStart, job: VerifyJob) -> WorkerStart:
    """Start a worker in which the emulator is found under all its names; the loader reads the variable but once."""
    environment = os.environ if start.environment is None else start.environment
    folders = filter(None, (str(Path(job.library).parent), environment.get(LIBRARIES_VARIABLE)))
    return replace(start, environment={**environment, LIBRARIES_VARIABLE: os.pathsep.join(folders)})


def _mistakes_once(ended_in_order: Iterable[TrialVerified]) -> tuple[ReferenceMistake, ...]:
    """Each mistake where it showed first: one of each line and kind."""
    found: dict[tuple[MistakeKind, str, int], ReferenceMistake] = {}
    for one in ended_in_order:
        if one.mistake is not None:
            found.setdefault((one.mistake.kind, one.mistake.path, one.mistake.line), one.mistake)
    return tuple(found.values())


def _crash(message: str, trial: Trial) -> EmulatedFinding:
    return EmulatedFinding(
        kind=FindingKind.EMULATOR_CRASHED,
        message=message,
        problem=trial.name,
        kernel="",
        workgroup=(0, 0, 0),
        wave=0,
        lane=None,
        instruction=None,
        code_address=None,
    )
