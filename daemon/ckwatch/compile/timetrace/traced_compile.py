"""Compiles a source to get clang's time traces: its passes side by side, each with a trace of its own.

clang's driver takes `-ftime-trace` for the host pass only (22.1: for the device it is "unused during compilation"), and
the files of two passes of one call would have one name. So each pass is a call of its own, and the option goes to the
compiler proper with `-Xclang`. What is compiled is thrown away, and no precompiled header is used: it would hide what
the headers cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.compile_job import CompileJob, unfinished
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain
from ckwatch.compile.single_call import compiler_call
from ckwatch.compile.timetrace.reader import SUMMARIES, UNWRITABLE
from ckwatch.compile.timetrace.summary import TraceSummary
from ckwatch.compile.work_folder import prepare
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import run_process
from ckwatch.system.python_process import module_command, module_environment

GRANULARITY_US = 100
"""Shorter events are not recorded on their own, but as part of the event around them."""

READING_S = 300.0


@dataclass(frozen=True, slots=True)
class TracedPass:
    """One pass. `seconds` is the time of its whole process, `name` what people call it: `device pass (gfx942)`."""

    side: PassSide
    name: str
    seconds: float
    summary: TraceSummary


@dataclass(frozen=True, slots=True)
class TracedCompile:
    """The passes, or how the one ended that failed first."""

    passes: tuple[TracedPass, ...]
    failure: CompileOutcome | None = None


async def trace_compile(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    *,
    folder: Path,
    target: Path | None = None,
    limiter: anyio.CapacityLimiter | None = None,
) -> TracedCompile:
    """Compile in the empty folder `folder`, which is the caller's to remove, and read the traces.

    `target`: a file for both traces in one. `limiter` says how many passes run at a time. Raises ToolchainError when a
    program cannot be started or a trace not be read, CkwatchError when `target` cannot be written.
    """
    if request.language is Language.CU:
        raise CkwatchError("nvcc writes no time trace", "Only templates that clang compiles have one.")
    prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
    if problem is not None:
        raise CkwatchError(f"cannot write in {folder}: {problem.strerror}")
    limiter = limiter or anyio.CapacityLimiter(2)
    seconds: dict[PassSide, float] = {}
    failures: list[CompileOutcome] = []
    errors: list[ToolchainError] = []

    async def run(side: PassSide) -> None:
        job = CompileJob(request, toolchain, folder, run_process, prefixes)
        try:
            async with limiter:
                finished = await job.run(_command(request, toolchain, side))
        except ToolchainError as error:
            errors.append(error)  # of both passes, as often as not
            return
        if finished.succeeded:
            seconds[side] = finished.duration_s
        else:
            failures.append(unfinished(job, finished, ()))
            tasks.cancel_scope.cancel()

    sides = (PassSide.DEVICE, PassSide.HOST) if request.language is Language.HIP else (PassSide.HOST,)
    async with anyio.create_task_group() as tasks:
        for side in sides:
            tasks.start_soon(run, side)
    if errors:
        raise errors[0]
    if failures:
        return TracedCompile((), failures[0])
    names = {PassSide.DEVICE: f"device pass ({request.arch})", PassSide.HOST: "host pass"}
    summaries = await _read_traces([(names[side], _trace_of(side)) for side in sides], folder, target)
    return TracedCompile(
        tuple(
            TracedPass(side, names[side], seconds[side], summary)
            for side, summary in zip(sides, summaries, strict=True)
        )
    )


def _trace_of(side: PassSide) -> str:
    return f"{side}.json"


def _command(request: CompileRequest, toolchain: CompilerToolchain, side: PassSide) -> list[str]:
    trace = ["-Xclang", f"-ftime-trace={_trace_of(side)}", "-Xclang", f"-ftime-trace-granularity={GRANULARITY_US}"]
    # Some flags are for the other pass.
    one_pass = (f"--offload-{side}-only", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument")
    arguments = compiler_call(request, toolchain, *(one_pass if request.language is Language.HIP else ()))
    return [*arguments, *trace, "-c", request.language.source_name, "-o", f"{side}.o"]


async def _read_traces(passes: Sequence[tuple[str, str]], folder: Path, target: Path | None) -> list[TraceSummary]:
    arguments = [*module_command("ckwatch.compile.timetrace.reader", "summaries", str(target or ""))]
    for name, trace in passes:
        arguments += [name, trace]
    done = await run_process(arguments, environment=module_environment(), folder=folder, timeout_s=READING_S)
    printed = done.stderr.strip().splitlines()[-1:] or [done.exit_reason.value]
    if done.exit_status == UNWRITABLE and target is not None:
        raise CkwatchError(f"cannot write {target}: {printed[0]}")
    if done.exit_status != 0:
        raise ToolchainError(f"the compiler's time trace cannot be read: {printed[0]}")
    data = await anyio.to_thread.run_sync((folder / "summaries").read_bytes)
    return SUMMARIES.validate_json(data)
