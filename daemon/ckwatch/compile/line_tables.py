"""Compiles the device code of a source alone: with line tables, from which its source lines are read, or without.

Line tables change no instruction (callers check that), so artifacts have none: they would make every code
object ten times as large. One with them is kept in the store under a key of its own, and so is one without, which says
what a changed source would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ckwatch.compile.compile_job import CompileJob, source_id, unfinished, unwritten
from ckwatch.compile.dependencies import read_headers
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.flags import with_lines
from ckwatch.compile.keys import request_key
from ckwatch.compile.passes import OBJECT_OF, keep_product
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain
from ckwatch.compile.single_call import DEPENDENCIES, compiler_call
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.work_folder import HEADER_LIST, prepare
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import run_process

if TYPE_CHECKING:
    from ckwatch.compile.staged_build import StagedCompiler

LINED_CODE_OBJECT = "code-object-with-lines"
DEVICE_CODE_OBJECT = "device-code-object"
_LINED_FILE = "lined.hsaco"
_DEVICE_FILE = "device.hsaco"


@dataclass(frozen=True, slots=True)
class LinedCode:
    """`code_object` lies in the store, or in the folder that the caller gave; None where `failure` says why."""

    code_object: Path | None
    failure: CompileOutcome | None = None


def find_lined_code(request: CompileRequest, toolchain: CompilerToolchain, store: ArtifactStore) -> Path | None:
    """The one that is in the store; runs in a thread."""
    return _find(_key(request, toolchain), LINED_CODE_OBJECT, toolchain, store)


def find_device_code(request: CompileRequest, toolchain: CompilerToolchain, store: ArtifactStore) -> Path | None:
    """The one without line tables that is in the store; runs in a thread."""
    return _find(_plain_key(request, toolchain), DEVICE_CODE_OBJECT, toolchain, store)


def _find(key: str, product: str, toolchain: CompilerToolchain, store: ArtifactStore) -> Path | None:
    artifact = store.lookup(key, PathRoots(toolchain.roots))
    return None if artifact is None else artifact.product(product)


async def compile_with_lines(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    store: ArtifactStore,
    ladder: StagedCompiler | None,
    folder: Path,
) -> LinedCode:
    """Compile the device code of `request` in the empty folder `folder`, with the passes and precompiled headers of
    `ladder` where there are any, and store it. Raises ToolchainError when a program cannot be started."""
    kept_as = (_key(request, toolchain), LINED_CODE_OBJECT, _LINED_FILE)
    return await _compile(request, with_lines(request), kept_as, toolchain, store, ladder, folder)


async def compile_device_code(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    store: ArtifactStore,
    ladder: StagedCompiler | None,
    folder: Path,
) -> LinedCode:
    """As `compile_with_lines`, without line tables."""
    kept_as = (_plain_key(request, toolchain), DEVICE_CODE_OBJECT, _DEVICE_FILE)
    return await _compile(request, request, kept_as, toolchain, store, ladder, folder)


async def _compile(
    request: CompileRequest,
    flagged: CompileRequest,
    kept_as: tuple[str, str, str],
    toolchain: CompilerToolchain,
    store: ArtifactStore,
    ladder: StagedCompiler | None,
    folder: Path,
) -> LinedCode:
    """Compile `request` with the flags of `flagged`; keep what comes of it by a key, as a product, in a file."""
    key, product, file = kept_as
    prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
    job = CompileJob(request, toolchain, folder, run_process, prefixes)
    if problem is not None:
        return LinedCode(None, unwritten(job, problem))
    plan = None if ladder is None else await ladder.plan(flagged)
    if ladder is None or plan is None:
        headers, failure = await _by_one_call(job, flagged, file)
    else:
        headers, failure = await _by_passes(job, ladder, plan, file)
    if failure is not None:
        return LinedCode(None, failure)
    how = (product, file, tuple(headers), tuple(job.commands), request.source)
    kept = await anyio.to_thread.run_sync(keep_product, store, key, job, *how)
    return LinedCode(kept or folder / file)


async def _by_one_call(
    job: CompileJob, flagged: CompileRequest, file: str
) -> tuple[Sequence[str], CompileOutcome | None]:
    request, toolchain = job.request, job.toolchain
    # Some flags are for the other pass.
    one_pass = ("--offload-device-only", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument")
    arguments = compiler_call(flagged, toolchain, f"-cuid={source_id(request)}", *one_pass)
    done = await job.run([*arguments, "-MD", "-MF", DEPENDENCIES, "-c", request.language.source_name, "-o", file])
    headers = await anyio.to_thread.run_sync(read_headers, job.folder, DEPENDENCIES, HEADER_LIST)
    return headers, None if done.succeeded else unfinished(job, done, tuple(headers))


async def _by_passes(
    job: CompileJob, ladder: StagedCompiler, plan: CompilePlan, file: str
) -> tuple[Sequence[str], CompileOutcome | None]:
    # Headers are precompiled without line tables; what comes of them has lines all the same.
    done = await ladder.one_pass(job, PassSide.DEVICE, plan, await ladder.plan(job.request))
    if done.failure is not None:
        return done.headers, done.failure
    linked = await job.run(plan.device_link_command(OBJECT_OF[PassSide.DEVICE], file))
    return done.headers, None if linked.succeeded else unfinished(job, linked, done.headers)


def _key(request: CompileRequest, toolchain: CompilerToolchain) -> str:
    more, products = ["device code with lines"], [LINED_CODE_OBJECT]
    return request_key(with_lines(request), toolchain, PathRoots(toolchain.roots), more=more, products=products)


def _plain_key(request: CompileRequest, toolchain: CompilerToolchain) -> str:
    more, products = ["device code alone"], [DEVICE_CODE_OBJECT]
    return request_key(request, toolchain, PathRoots(toolchain.roots), more=more, products=products)
