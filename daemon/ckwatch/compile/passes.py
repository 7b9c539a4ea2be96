"""One pass over a source, for the host or the device, in a folder that both share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from ckwatch.compile.dependencies import outside, parse_header_list
from ckwatch.compile.plan import CompilePlan, Side
from ckwatch.compile.precompiled import Precompiled
from ckwatch.compile.processes import Finished, Verdict
from ckwatch.compile.request import CompileOutcome, Status
from ckwatch.compile.running import CompileJob, source_id, unfinished

OnSaid = Callable[[Side | None, str], None]
"""Gets each line that a pass prints, as it is printed; None: one call makes both."""

OBJECT_OF = {Side.HOST: "host.o", Side.DEVICE: "device.o"}


@dataclass(frozen=True, slots=True)
class Passed:
    """A pass that has ended. `failure` is None when there is an object."""

    side: Side
    job: CompileJob
    headers: tuple[str, ...]
    failure: CompileOutcome | None

    @property
    def log(self) -> str:
        """What it printed."""
        return "".join(self.job.log)


class RefusedError(Exception):
    """The compiler did not take the precompiled header."""


async def run_pass(job: CompileJob, side: Side, plan: CompilePlan, header: Precompiled | None) -> Passed:
    """Compile the job's source for one side. Raises RefusedError when `header` cannot be used, and ToolchainError when
    the compiler cannot be started."""
    listed = job.folder / f"headers-{side.value}.txt"
    command = plan.pass_command(
        side,
        source=job.request.language.source_name,
        output=OBJECT_OF[side],
        headers=str(listed),
        cuid=source_id(job.request),
        more=() if header is None else header.use,
    )
    if header is not None:
        # Its text begins as the source does: what was included there is told as included here.
        job.rename[str(header.source)] = job.request.language.source_name
    finished = await job.run(command)
    complaint = None if header is None else _complaint(finished, header)
    if complaint is not None:
        raise RefusedError(complaint)
    more = () if header is None else header.headers
    opened = await anyio.to_thread.run_sync(partial(_opened, listed, job.folder, {*more, *_own(header)}))
    headers = tuple(sorted({*opened, *more}))
    ended = finished.exit_status == 0 and finished.verdict is Verdict.EXITED
    return Passed(side, job, headers, None if ended else unfinished(job, finished, headers))


def joined_log(passes: list[Passed]) -> str:
    """What all of them printed, the host's first."""
    return "".join(one.log for one in sorted(passes, key=lambda one: one.side is Side.DEVICE))


def failed(passes: list[Passed]) -> CompileOutcome | None:
    """What is to be told when a pass has failed: everything that all of them have said; None when none has.

    A fault of the host wins: it says nothing of the kernel.
    """
    failures = [one.failure for one in passes if one.failure is not None]
    if not failures:
        return None
    first = next((one for one in failures if one.status is Status.TRANSIENT), failures[0])
    headers = {header for one in passes for header in one.headers}
    missing = {name for one in failures for name in one.missing}
    return CompileOutcome(
        first.status,
        joined_log(passes),
        tuple(command for one in passes for command in one.job.commands),
        min(one.job.begun_ns for one in passes),
        first.fault,
        first.message,
        headers=tuple(sorted(headers)),
        missing=tuple(sorted(missing)),
    )


_COMPLAINTS = ("precompiled file", "precompiled header", "PCH file", "AST file", "AST Deserialization", ".pch")


def _complaint(finished: Finished, header: Precompiled) -> str | None:
    """What the compiler has against the header, None when it speaks of the source."""
    if finished.exit_status == 0 or finished.verdict is not Verdict.EXITED:
        return None
    errors = [line for line in finished.stderr.splitlines() if "error:" in line]
    words = (str(header.file), *_COMPLAINTS)
    complaints = [line for line in errors[:1] if any(word in line for word in words)]
    complaints += [line for line in errors if "unknown argument" in line and "-fno-cxx-modules" in line]
    return complaints[0] if complaints else None


def _own(header: Precompiled | None) -> tuple[str, ...]:
    return () if header is None else (str(header.source), str(header.file))


def _opened(listed: Path, folder: Path, known: set[str]) -> set[str]:
    try:
        names = parse_header_list(listed.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return set()
    return outside(names, folder) - known
