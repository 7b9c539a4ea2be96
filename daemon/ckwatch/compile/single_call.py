"""Compiles a source with one call of hipcc, clang++ or nvcc: an object, a shared object, and the device's code.

A request for nothing is a check, one call per pass. Nothing here knows the store. Everything is written into one
private folder (`work_folder`).

With nvcc the CUDA runtime is linked statically (nvcc's own way): the shared object needs the driver and nothing else,
and uses the primary context of the current device, as the program that loads it does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from ckwatch.checks.clang_output import CLANG_DIAGNOSTIC_FLAGS, parse_clang_log
from ckwatch.checks.line_table_places import lacks_place, with_line_table_places
from ckwatch.checks.nvcc_output import missing_headers, parse_nvcc_log
from ckwatch.compile import compile_job, elf
from ckwatch.compile.build_events import OnBuildEvent, OnePassLeft, ignore
from ckwatch.compile.dependencies import format_dependency_file, read_headers
from ckwatch.compile.flags import compile_flags, include_flags, known_flags, link_flags, with_lines_for_linkers
from ckwatch.compile.offload_bundles import device_code
from ckwatch.compile.request import (
    CompileFault,
    CompileOutcome,
    CompileRequest,
    CompilerToolchain,
    CompileStatus,
)
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.compile.work_folder import EXPORTS, HEADER_LIST, TEMPORARY, prepare
from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import Launcher, ProcessResult, run_process

OBJECT = "kernel.o"
SHARED_OBJECT = "kernel.so"
DEPENDENCIES = "kernel.d"
SOURCE_ID_SYMBOL = "__hip_cuid_"


async def compile_source(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    *,
    folder: Path,
    launch: Launcher = run_process,
    on_event: OnBuildEvent = ignore,
) -> CompileOutcome:
    """Compile in the empty folder `folder`, which is the caller's to remove.

    `on_event` gets each line that a compiler writes, as it is written, the source under its bare name, and how much of
    the processor it has used. Raises ToolchainError when a program cannot be started, CkwatchError for a
    product that cannot be made. What the compiler says is a value.
    """
    if ProductKind.RUNNER in request.products:
        raise CkwatchError("no runner can be made of a source by itself")
    on_event(OnePassLeft())
    outcome = await _compile(request, toolchain, folder, launch, on_event)
    if not failed_without_place(request, outcome):
        return outcome
    lined = folder / "lined"
    await anyio.to_thread.run_sync(lined.mkdir)
    again = await _compile(with_lines_for_linkers(request), toolchain, lined, launch)
    return outcome_with_places(outcome, again)


async def _compile(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    folder: Path,
    launch: Launcher,
    on_event: OnBuildEvent = ignore,
) -> CompileOutcome:
    def prepared() -> tuple[tuple[str, ...], OSError | None, list[str]]:
        return *prepare(request, folder), compile_command(request, toolchain)

    prefixes, problem, command = await anyio.to_thread.run_sync(prepared)
    job = compile_job.CompileJob(request, toolchain, folder, launch, prefixes, on_event)
    if problem is not None:
        return compile_job.unwritten(job, problem)
    if request.is_check:
        return await _checked(job)
    compiled = await job.run(command)
    headers = await anyio.to_thread.run_sync(_taken, request, folder)
    if not compiled.succeeded:
        return _unfinished(job, compiled, headers)
    return await linked(job, headers, None)


async def _checked(job: compile_job.CompileJob) -> CompileOutcome:
    """Analyze the source pass by pass, until one fails."""
    headers: dict[str, None] = {}
    for command in check_commands(job.request, job.toolchain):
        analyzed = await job.run(command)
        headers |= dict.fromkeys(await anyio.to_thread.run_sync(_taken, job.request, job.folder))
        if not analyzed.succeeded:
            return _unfinished(job, analyzed, tuple(sorted(headers)))
    return job.outcome(CompileStatus.OK, headers=tuple(sorted(headers)))


def failed_without_place(request: CompileRequest, outcome: CompileOutcome) -> bool:
    """Return True for a failure of which line tables would tell the place."""
    failed = outcome.status is CompileStatus.FAILED and request.language is not Language.CU
    return failed and lacks_place(with_line_table_places(parse_clang_log(outcome.log)))


def outcome_with_places(outcome: CompileOutcome, again: CompileOutcome) -> CompileOutcome:
    """Return the failure with the messages of the repeated compile, which had line tables, where it failed as well."""
    return replace(outcome, log=again.log) if again.status is CompileStatus.FAILED else outcome


def _taken(request: CompileRequest, folder: Path) -> tuple[str, ...]:
    """The headers of a compile that has ended; its object is made ready to be linked. Blocks; call from a worker
    thread."""
    if request.language is Language.HIP:
        weaken_source_id(folder / OBJECT)
    headers = read_headers(folder, DEPENDENCIES, HEADER_LIST)
    if request.language is not Language.CU:
        return headers
    # without the way through nvcc's own folder (`bin/../targets`)
    return tuple(sorted(path for path in {*map(os.path.normpath, headers)} if not path.startswith("/proc/")))


def weaken_source_id(file: Path) -> None:
    """Two sources with the same device code have its id, too, and may be linked into one program. The linker says what
    is wrong with an object that cannot be read."""
    with suppress(OSError, ValueError):
        elf.weaken(file, SOURCE_ID_SYMBOL)


async def linked(job: compile_job.CompileJob, headers: tuple[str, ...], code_object: Path | None) -> CompileOutcome:
    """Link the object, whose source id is weak, and gather what it was compiled for; `code_object` is the device's code
    where it is at hand."""
    request, folder = job.request, job.folder
    done = await job.run(link_command(request, job.toolchain))
    if not done.succeeded:
        return _unfinished(job, done, headers)
    files = {ProductKind.OBJECT: folder / OBJECT, ProductKind.SHARED_OBJECT: folder / SHARED_OBJECT}
    files[ProductKind.DEPENDENCIES] = folder / DEPENDENCIES
    try:
        gather = partial(_gathered, job, files, headers, code_object)
        exports = await anyio.to_thread.run_sync(gather)
    except OSError as error:
        return compile_job.unwritten(job, error)
    except ValueError as error:
        who = "nvcc" if request.language is Language.CU else "the compiler"
        message = f"{who} left a damaged object: {error}"
        return job.outcome(CompileStatus.TRANSIENT, fault=CompileFault.HOST, message=message)
    return ended(job, files, headers, exports)


def ended(
    job: compile_job.CompileJob, files: Mapping[ProductKind, Path], headers: tuple[str, ...], exports: tuple[str, ...]
) -> CompileOutcome:
    """Return the outcome of a compile that has linked: its files, unless a name that it should export is missing."""
    absent = [name for name in job.request.exports if name not in exports]
    if absent:
        job.log.append(compile_job.not_exported(absent))
        return job.outcome(CompileStatus.FAILED, headers=headers, exports=exports)
    kept = {kind: path for kind, path in files.items() if kind in job.request.products}
    return job.outcome(CompileStatus.OK, files=kept, headers=headers, exports=exports)


def write_dependencies(file: Path, headers: tuple[str, ...]) -> None:
    """Write the rule by which make knows the headers."""
    file.write_bytes(format_dependency_file(SHARED_OBJECT, headers).encode("utf-8", "surrogateescape"))


def compiler_call(request: CompileRequest, toolchain: CompilerToolchain, *options: str) -> list[str]:
    """The compiler of a source with all arguments but files; `options` come before those that users give."""
    if request.language is Language.CU:
        own = [str(toolchain.hipcc), *_nvcc_arguments(toolchain)]
    elif request.language is Language.HIP:
        own = [str(toolchain.hipcc), *toolchain.hip_arguments]
    else:
        own = [str(toolchain.clangxx), *toolchain.cpp_arguments]
    return [*own, *options, *compile_flags(request, toolchain), *include_flags(request, toolchain)]


def compile_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The call that makes an object of the source in the folder that it runs in."""
    options, kept = [], []
    if request.language is Language.HIP:
        # By default the id that tells equal names of different objects apart is made from the source's folder.
        options = [f"-cuid={compile_job.source_id(request)}"]
    elif request.language is Language.CU:
        # The intermediate files are kept in the compile's own folder: the device's code is one of them.
        kept = ["--keep", f"--keep-dir={TEMPORARY}"]
    arguments = compiler_call(request, toolchain, *options)
    return [*arguments, *kept, "-MD", "-MF", DEPENDENCIES, "-c", request.language.source_name, "-o", OBJECT]


def check_commands(request: CompileRequest, toolchain: CompilerToolchain) -> list[list[str]]:
    """The calls that analyze the source: of HIP the host pass first, which takes a fourth of the other's time."""
    arguments = compiler_call(request, toolchain)
    rest = ["-fsyntax-only", "-Qunused-arguments", "-MD", "-MF", DEPENDENCIES, request.language.source_name]
    sides = ("--cuda-host-only", "--cuda-device-only") if request.language is Language.HIP else ()
    return [[*arguments, side, *rest] for side in sides] or [[*arguments, *rest]]


def shown_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The call for people and tools, in the folder of the source: like `compile_command`, with the compiler's usual
    messages and without a list of headers."""
    arguments = compiler_call(request, toolchain)
    if request.language is not Language.CU:
        at = len(arguments) - len(include_flags(request, toolchain))
        del arguments[at - len(known_flags(CLANG_DIAGNOSTIC_FLAGS, toolchain)) : at]
    return [*arguments, "-c", request.language.source_name, "-o", OBJECT]


def link_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The call that makes a shared object of that object."""
    if request.language is Language.CU:
        wanted = [_linker_flag_for_nvcc(flag) for flag in link_flags(request)]
        exports = f"-Xlinker=-z,defs,--version-script={EXPORTS}"
        own = [str(toolchain.hipcc), *_nvcc_arguments(toolchain)]
        return [*own, "-shared", exports, OBJECT, *wanted, "-o", SHARED_OBJECT]
    if request.language is Language.HIP:
        arguments = [str(toolchain.hipcc), *toolchain.hip_arguments, f"--offload-arch={request.arch}"]
    else:
        arguments = [str(toolchain.clangxx), *toolchain.cpp_arguments]
        if toolchain.openmp:
            arguments.append("-fopenmp")
    arguments += ["-shared", "-Wl,-z,defs", f"-Wl,--version-script={EXPORTS}", OBJECT]
    return [*arguments, *toolchain.link_arguments, *link_flags(request), "-o", SHARED_OBJECT]


def _code_object(job: compile_job.CompileJob) -> Path:
    return job.folder / f"kernel.{job.request.arch.replace(':', '-')}.hsaco"


def _gathered(
    job: compile_job.CompileJob, files: dict[ProductKind, Path], headers: tuple[str, ...], code_object: Path | None
) -> tuple[str, ...]:
    """Complete the files of a compile that has linked; what it exports. Blocks; call from a worker thread."""
    write_dependencies(files[ProductKind.DEPENDENCIES], headers)
    exports = elf.exported_symbols(files[ProductKind.SHARED_OBJECT])
    if job.request.language is Language.CU:
        cubin = next((job.folder / TEMPORARY).glob("*.cubin"), None)
        if cubin is not None:
            files[ProductKind.CODE_OBJECT] = cubin.rename(job.folder / f"kernel.{job.request.arch}.cubin")
    if job.request.language is not Language.HIP:
        return exports
    target = _code_object(job)
    if code_object is not None:
        code_object.rename(target)
    else:
        code = device_code(files[ProductKind.OBJECT], job.request.arch)
        if code is None:
            return exports
        target.write_bytes(code)
    files[ProductKind.CODE_OBJECT] = target
    return exports


def _nvcc_arguments(toolchain: CompilerToolchain) -> tuple[str, ...]:
    return toolchain.arguments if isinstance(toolchain, NvccToolchain) else ()


def _linker_flag_for_nvcc(flag: str) -> str:
    """nvcc has a name of its own for what is handed to the linker."""
    return f"-Xlinker={flag.removeprefix('-Wl,')}" if flag.startswith("-Wl,") else flag


def _unfinished(job: compile_job.CompileJob, finished: ProcessResult, headers: tuple[str, ...]) -> CompileOutcome:
    is_cuda = job.request.language is Language.CU
    return (_nvcc_unfinished if is_cuda else compile_job.unfinished)(job, finished, headers)


def _nvcc_unfinished(job: compile_job.CompileJob, finished: ProcessResult, headers: tuple[str, ...]) -> CompileOutcome:
    """Tell a mistake in the source from a fault of the host."""
    errors = [message for message in parse_nvcc_log(finished.stderr + finished.stdout) if message.is_error]
    fault, message = compile_job.fault_of(
        job.request, finished, "nvcc", [message for message in errors if message.position is None]
    )
    if fault is None and not errors:
        printed = (finished.stderr + finished.stdout).strip().splitlines()
        fault = CompileFault.HOST
        message = f"nvcc ended with status {finished.exit_status}: {printed[-1] if printed else 'without a word'}"
    if fault is not None:
        return job.outcome(CompileStatus.TRANSIENT, fault=fault, message=message, headers=headers)
    outcome = job.outcome(CompileStatus.FAILED, headers=headers)
    return replace(outcome, missing=tuple(missing_headers(outcome.log)))
