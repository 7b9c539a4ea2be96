"""The device code of a source with line tables, compiled for the sake of its source lines.

Line tables change no instruction (whoever uses them checks that), so artifacts have none: they would make every code
object ten times as large. One with them is kept in the store under a key of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ckwatch.analysis.lines import LINE_TABLES
from ckwatch.compile.dependencies import not_there, read_headers
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.job import DEPENDENCIES
from ckwatch.compile.kept_checks import discard
from ckwatch.compile.keys import key_of
from ckwatch.compile.passes import OBJECT_OF, RefusedError, run_pass
from ckwatch.compile.plan import CompilePlan, Side
from ckwatch.compile.processes import Launcher, Verdict, run_process
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain
from ckwatch.compile.running import HEADER_LIST, CompileJob, prepare, source_id, unfinished, unwritten
from ckwatch.store import ArtifactStore, HeaderSet, Record, Roots, StoreError

if TYPE_CHECKING:
    from ckwatch.compile.ladder import Ladder

PRODUCT = "code-object-with-lines"
_CODE = "lined.hsaco"


@dataclass(frozen=True, slots=True)
class Lined:
    """`code_object` lies in the store, or in the folder that the caller gave; None where `failure` says why."""

    code_object: Path | None
    failure: CompileOutcome | None = None


def find_lined(request: CompileRequest, toolchain: CompilerToolchain, store: ArtifactStore) -> Path | None:
    """The one that is in the store; runs in a thread."""
    artifact = store.lookup(_key(request, toolchain), Roots(toolchain.roots))
    return None if artifact is None else artifact.product(PRODUCT)


async def compile_lined(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    store: ArtifactStore,
    ladder: Ladder | None,
    folder: Path,
    *,
    launch: Launcher = run_process,
) -> Lined:
    """Compile the device code of `request` in the empty folder `folder`, with the passes and precompiled headers of
    `ladder` where there are any, and store it. Raises ToolchainError when a program cannot be started."""
    prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
    job = CompileJob(request, toolchain, folder, launch, None, prefixes)
    if problem is not None:
        return Lined(None, unwritten(job, problem))
    plan = None if ladder is None else await ladder.plan(_with_lines(request))
    if ladder is None or plan is None:
        headers, failure = await _by_one_call(job)
    else:
        headers, failure = await _by_passes(job, ladder, plan)
    if failure is not None:
        return Lined(None, failure)
    kept = await anyio.to_thread.run_sync(_keep, job, headers, store)
    return Lined(kept or folder / _CODE)


async def _by_one_call(job: CompileJob) -> tuple[Sequence[str], CompileOutcome | None]:
    request, toolchain = job.request, job.toolchain
    # Some flags are for the other pass.
    one_pass = ("--offload-device-only", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument")
    arguments = [str(toolchain.hipcc), *toolchain.hip_arguments, f"-cuid={source_id(request)}", *one_pass]
    arguments += [*compile_flags(_with_lines(request), toolchain), *include_flags(request, toolchain)]
    done = await job.run([*arguments, "-MD", "-MF", DEPENDENCIES, "-c", request.language.source_name, "-o", _CODE])
    headers = await anyio.to_thread.run_sync(read_headers, job.folder, DEPENDENCIES, HEADER_LIST)
    ended = done.exit_status == 0 and done.verdict is Verdict.EXITED
    return headers, None if ended else unfinished(job, done, tuple(headers))


async def _by_passes(job: CompileJob, ladder: Ladder, plan: CompilePlan) -> tuple[Sequence[str], CompileOutcome | None]:
    header = None
    usual = await ladder.plan(job.request)
    if usual is not None and ladder.precompile():
        # Headers are precompiled without line tables; what comes of them has lines all the same.
        header = await anyio.to_thread.run_sync(ladder.warming.find, job.request, Side.DEVICE, usual)
    try:
        done = await run_pass(job, Side.DEVICE, plan, header)
    except RefusedError:
        job.log.clear()
        job.commands.clear()
        done = await run_pass(job, Side.DEVICE, plan, None)
    if done.failure is not None:
        return done.headers, done.failure
    linked = await job.run(plan.device_link_command(OBJECT_OF[Side.DEVICE], _CODE))
    ended = linked.exit_status == 0 and linked.verdict is Verdict.EXITED
    return done.headers, None if ended else unfinished(job, linked, done.headers)


def _keep(job: CompileJob, headers: Sequence[str], store: ArtifactStore) -> Path | None:
    """Store it; None where that cannot be done."""
    request, toolchain = job.request, job.toolchain
    folders = [*request.include_folders, *toolchain.include_folders]
    absent = not_there(headers, (), folders)
    observed = HeaderSet.observe(headers, absent, store.contents, Roots(toolchain.roots), job.begun_ns)
    if observed is None:
        return None
    record = Record(
        ok=True,
        symbol=request.symbol,
        arch=request.arch,
        language=request.language.value,
        toolchain=toolchain.identity,
        source=request.language.source_name,
        commands=tuple(job.commands),
    )
    copy = job.folder / f"kept-{_CODE}"
    with suppress(OSError, StoreError):
        shutil.copyfile(job.folder / _CODE, copy)
        publish = partial(store.publish, _key(request, toolchain), observed, record, log="", products={PRODUCT: copy})
        return publish(source=request.source.encode("utf-8", "surrogateescape"), replace_existing=True).product(PRODUCT)
    return None


def _with_lines(request: CompileRequest) -> CompileRequest:
    return replace(request, flags=(*request.flags, *LINE_TABLES))


def _key(request: CompileRequest, toolchain: CompilerToolchain) -> str:
    roots = Roots(toolchain.roots)
    more = ["device code with lines"]
    return key_of(
        _with_lines(request), toolchain, roots, text=request.source, arch=request.arch, more=more, products=[PRODUCT]
    )


__all__ = ["LINE_TABLES", "PRODUCT", "Lined", "compile_lined", "discard", "find_lined"]
