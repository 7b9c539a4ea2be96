"""Runs one pass over a source, for the host or the device, in a folder that both share.

A device pass is kept in the store by what the device can see of the source, so that an edit of host code repeats none.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread

from ckwatch.compile import elf
from ckwatch.compile.build_events import ProcessorUsed
from ckwatch.compile.compile_job import CompileJob, source_id, unfinished
from ckwatch.compile.dependencies import outside, parse_header_list
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.kept_clang import KeptClang
from ckwatch.compile.keys import request_key
from ckwatch.compile.precompiled_headers import PrecompiledHeader
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, CompileStatus, record_of
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import CompilerCommand, LostArtifactError, StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, PathRoots
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.tokens import redefines_device_macro
from ckwatch.system.async_processes import ExitReason, ProcessResult
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

OBJECT_OF = {PassSide.HOST: "host.o", PassSide.DEVICE: "device.o"}


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass that has ended. `failure` is None when there is an object, which has line tables if `lined`."""

    side: PassSide
    job: CompileJob
    headers: tuple[str, ...]
    failure: CompileOutcome | None
    lined: bool = False

    @property
    def log(self) -> str:
        """The output of the pass."""
        return "".join(self.job.log)


class HeaderRefusedError(Exception):
    """The compiler did not take the precompiled header."""


async def run_pass(job: CompileJob, side: PassSide, plan: CompilePlan, header: PrecompiledHeader | None) -> PassResult:
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
        # Its text begins as the source does: what was included there is reported as included here.
        job.rename[str(header.source)] = job.request.language.source_name
    finished = await job.run(command, f"the {side.value} pass")
    complaint = None if header is None else _complaint(finished, header)
    if complaint is not None:
        raise HeaderRefusedError(complaint)
    more = () if header is None else header.headers
    known = {*more, *(() if header is None else (str(header.source), str(header.file)))}
    opened = await anyio.to_thread.run_sync(_opened_headers, listed, job.folder, known)
    headers = tuple(sorted({*opened, *more}))
    return PassResult(side, job, headers, None if finished.succeeded else unfinished(job, finished, headers))


async def run_kept_pass(job: CompileJob, plan: CompilePlan, kept: KeptClang) -> PassResult | None:
    """Compile the job's source in a fork of `kept`; None if a plain pass has to, which reports."""
    side, name, cuid = kept.side, job.request.language.source_name, source_id(job.request)
    job.rename[str(kept.folder / name)] = name  # its text begins as the source does
    begun_s = time.monotonic()
    ended = await kept.compile(job.request, job.folder, cuid, partial(job.hand_on, early=True))
    if ended is None:
        return None
    # The command of a plain pass makes the same object.
    command = plan.pass_command(side, source=name, output=OBJECT_OF[side], headers=os.devnull, cuid=cuid)
    duration_s = time.monotonic() - begun_s
    arguments = tuple(map(job.own_names, command))
    job.commands.append(CompilerCommand(arguments, 0, duration_s, ended.peak_memory_bytes, begun_s - job.clock_s))
    job.on_event(ProcessorUsed(f"the {side.value} pass", ended.processor_s))
    job.log.append(job.own_names(ended.log))
    for line in ended.log.splitlines():
        job.hand_on(line)
    headers = outside((*ended.opened, *kept.headers), job.folder)
    return PassResult(side, job, tuple(sorted(headers)), None)


def joined_log(passes: list[PassResult]) -> str:
    """Join the output of all passes, the host's first."""
    return "".join(one.log for one in sorted(passes, key=lambda one: one.side is PassSide.DEVICE))


def failed(passes: list[PassResult]) -> CompileOutcome | None:
    """Return the outcome of a compile in which a pass has failed: the output of all of them; None if none has failed.

    A fault of the host wins: it says nothing about the kernel.
    """
    failures = [one.failure for one in passes if one.failure is not None]
    if not failures:
        return None
    first = next((one for one in failures if one.status is CompileStatus.TRANSIENT), failures[0])
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


def _complaint(finished: ProcessResult, header: PrecompiledHeader) -> str | None:
    """Return the compiler's complaint about the header, or None if it is about the source."""
    if finished.exit_status == 0 or finished.exit_reason is not ExitReason.EXITED:
        return None
    errors = [line for line in finished.stderr.splitlines() if "error:" in line]
    words = (str(header.file), *_COMPLAINTS)
    complaints = [line for line in errors[:1] if any(word in line for word in words)]
    complaints += [line for line in errors if "unknown argument" in line and "-fno-cxx-modules" in line]
    return complaints[0] if complaints else None


def _opened_headers(listed: Path, folder: Path, known: set[str]) -> set[str]:
    try:
        names = parse_header_list(os.fsdecode(read_file(listed, SIDE_FILE_LIMIT_BYTES)))
    except FileNotFoundError:
        return set()
    return outside(names, folder) - known


DEVICE_OBJECT = "device-object"


def device_pass_key(request: CompileRequest, toolchain: CompilerToolchain, text: str) -> str:
    """The key of the device pass of a request, of which the device can see `text`."""
    roots = PathRoots(toolchain.roots)
    return request_key(request, toolchain, roots, text=text, more=["device pass"], products=[DEVICE_OBJECT])


def find_device_pass(job: CompileJob, key: str, text: str, store: ArtifactStore) -> PassResult | None:
    """The stored pass, with its object in the job's folder; its line tables count if it was of this very `text`.

    Blocks; call from a worker thread.
    """
    roots = PathRoots(job.toolchain.roots)
    artifact = store.lookup(key, roots)
    headers = None if artifact is None else store.header_set(artifact.headers)
    file = None if artifact is None else artifact.product(DEVICE_OBJECT)
    if artifact is None or headers is None or file is None:
        return None
    try:
        content = store.load(file)
        (job.folder / OBJECT_OF[PassSide.DEVICE]).write_bytes(content)
        lined = elf.LINE_TABLES in content and artifact.source_text == text
    except (OSError, LostArtifactError, StoreError):  # evicted at this moment, damaged, or no space
        return None
    return PassResult(PassSide.DEVICE, job, tuple(map(roots.expand, headers.present)), None, lined)


def keep_device_pass(
    store: ArtifactStore,
    key: str,
    job: CompileJob,
    headers: tuple[str, ...],
    commands: tuple[CompilerCommand, ...],
    text: str,
) -> Path | None:
    """Store the object of a device pass of `text`, unless a header of the user's may have changed what `text` shows.

    Blocks; call from a worker thread.
    """
    known = tuple(f"{folder}{os.sep}" for name, folder in job.toolchain.roots.items() if name != "workspace")
    for header in headers:
        if not header.startswith(known):
            try:
                content = read_file(Path(header), SIDE_FILE_LIMIT_BYTES)
            except OSError:
                return None
            if redefines_device_macro(content.decode(errors="replace")):
                return None
    return keep_product(store, key, job, DEVICE_OBJECT, OBJECT_OF[PassSide.DEVICE], headers, commands, text)


def keep_product(
    store: ArtifactStore,
    key: str,
    job: CompileJob,
    product: str,
    file: str,
    headers: tuple[str, ...],
    commands: tuple[CompilerCommand, ...],
    text: str,
) -> Path | None:
    """Store a copy of a job's `file`, which `commands` made of the source `text`, as the one product of an entry.

    None where a header has changed meanwhile, or the store cannot be written. Blocks; call from a worker thread.
    """
    request, toolchain = job.request, job.toolchain
    observer = HeaderObserver(store.contents, PathRoots(toolchain.roots))
    folders = (*request.include_folders, *toolchain.include_folders)
    observed = observer.observe(headers, (), folders, job.begun_ns)
    if observed is None:
        return None
    record = record_of(request, toolchain, commands)
    copy = job.folder / f"kept-{file}"
    with suppress(OSError, StoreError):
        shutil.copyfile(job.folder / file, copy)
        publish = partial(store.publish, key, observed, record, log="", products={product: copy})
        return publish(source=text.encode("utf-8", "surrogateescape"), replace_existing=True).product(product)
    return None
